"""Folders for files of the user, also where the home cannot be written."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from streamlet.errors import BrokerError
from streamlet.own_files import make_own_folder


def writable(folder: Path) -> Path:
    """The folder, made for this user alone; one below the temporary folder where it cannot be.

    System users and containers often have a home that does not exist, is read-only, or is another
    user's, as under sudo: what another user can change is not run.

    Raises:
        BrokerError: the one below the temporary folder is not the user's own.
    """
    with contextlib.suppress(OSError):
        make_own_folder(folder)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return _temporary(folder.name)


def _temporary(name: str) -> Path:
    folder = Path(tempfile.gettempdir()) / f"streamlet-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        problem = f"{folder} cannot be made: {error.strerror}; set TMPDIR or XDG_CACHE_HOME"
        raise BrokerError(problem) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise BrokerError(f"{folder} is not a folder of this user; set TMPDIR or XDG_CACHE_HOME")
    (folder / name).mkdir(exist_ok=True)
    return folder / name
