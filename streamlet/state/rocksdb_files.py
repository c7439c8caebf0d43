"""The files of a database of RocksDB, without the database."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from streamlet.errors import StateError, TaskCorruptedError
from streamlet.own_files import make_own_folder

#: Prefix of files on their way into the database.
BULK = "bulk-"
#: rocksdict's own file in a database's folder; also who only reads writes it.
CLIENT_FILE = "rocksdict-config.json"
#: Files by the beginnings of their names that RocksDB or its client reads as a whole, and the most
#: bytes of one. What they have of it is a hundredth, and of a larger one a process has no memory.
_READ_WHOLE = ("CURRENT", "IDENTITY", "OPTIONS-", CLIENT_FILE)
_MOST_WHOLE = 16 << 20


def wipe_folder(folder: Path) -> None:
    """Delete a database's files, or what stands in its place.

    Raises:
        StateError: they cannot be deleted, or the folder is a link: what it leads to may be no
            database.
    """
    _check_no_link(folder)
    try:
        if folder.is_dir():
            shutil.rmtree(folder)
        else:
            folder.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"cannot delete {folder}: {error.strerror or error}") from error


def names_in(folder: Path) -> list[str]:
    """Names of a database's files; none if there is no folder.

    RocksDB waits for a pipe's other end, and reads a device without an end.

    Raises:
        TaskCorruptedError: one of them is not a file, or the folder is none.
        StateError: the folder cannot be read, or is a link.
    """
    _check_no_link(folder)
    try:
        with os.scandir(folder) as entries:
            kinds = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
    except FileNotFoundError:
        return []
    except OSError as error:
        if isinstance(error, NotADirectoryError) and os.path.lexists(folder):
            raise TaskCorruptedError(f"state in {folder} is damaged: it is not a folder") from error
        raise StateError(f"cannot use {folder}: {error.strerror or error}") from error
    for name in sorted(kinds):
        # One that was deleted since, as by the process that has the database, counts as none too.
        if not kinds[name] and os.path.lexists(folder / name):
            raise TaskCorruptedError(f"state in {folder} is damaged: {name} is not a file")
        if name.startswith(_READ_WHOLE) and _size(folder / name) > _MOST_WHOLE:
            raise TaskCorruptedError(
                f"state in {folder} is damaged: {name} has more than {_MOST_WHOLE:,} bytes"
            )
    return [*kinds]


def _size(file: Path) -> int:
    """The size of a file; 0 if there is none, as when it was just deleted."""
    try:
        return file.lstat().st_size
    except OSError:
        return 0  # reading it gives the error


def _check_no_link(folder: Path) -> None:
    if folder.is_symlink():
        raise StateError(
            f"cannot use {folder}: it is a symbolic link, which is not followed; delete it"
        )


def manifest(folder: Path) -> tuple[str, int]:
    """Name and size of the present manifest; nothing if there is none or it is missing."""
    try:
        name = (folder / "CURRENT").read_text().strip()
        return name, (folder / name).stat().st_size
    except (OSError, ValueError):  # no text, or none that a file can be called
        return "", 0  # RocksDB will tell what is wrong, or make a new one


def prepare(folder: Path) -> None:
    """Make the folder, this user's alone, and clear away what a killed bulk write left.

    Raises:
        TaskCorruptedError: what is there is no database.
        StateError: the folder cannot be used.
    """
    names_in(folder)
    try:
        make_own_folder(folder)
        for left in sorted(folder.glob(f"{BULK}*")):
            left.unlink()
    except OSError as error:
        raise StateError(f"cannot use {folder}: {error.strerror or error}") from error
