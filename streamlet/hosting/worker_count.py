"""The number of workers that a running instance is to have, as others on its host ask for it.

It is a file in the instance's folder, which its supervisor looks at about once a second. It holds
for the run that it was written for: a start forgets it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from streamlet.bounded import WORKERS_MAX
from streamlet.errors import RefusedError
from streamlet.own_files import open_own_file
from streamlet.state.instances import InstanceFolder

#: The file's name.
FILE = "workers-wanted"


def wanted(folder: Path) -> int | None:
    """The number that is asked for in an instance's folder; None: none that can be."""
    try:
        with os.fdopen(open_own_file(folder / FILE, os.O_RDONLY), "rb") as file:
            text = file.read(16)
    except OSError:
        return None
    return int(text) if text.isdigit() and 1 <= int(text) <= WORKERS_MAX else None


def forget(folder: Path) -> None:
    """Forget what was asked of an earlier run."""
    with suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)


def change(found: InstanceFolder, by: int) -> int:
    """Ask an instance for more or fewer workers; how many it is to have then.

    Raises:
        RefusedError: it cannot have so many, or none that can be changed.
    """
    folder = found.file.parent
    if not found.workers:
        raise RefusedError(
            f"{found.name} has no workers that can be added or removed: it is starting or ending, "
            "or does its work in its own process (--processes 0, App.run)"
        )
    count = (wanted(folder) or found.workers) + by
    if count < 1:
        raise RefusedError(
            f"{found.name} would be without a worker; streamlet drain has the instance leave"
        )
    if count > WORKERS_MAX:
        raise RefusedError(f"{found.name}: at most {WORKERS_MAX} workers can be asked for")
    try:
        opened = open_own_file(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(opened, "w") as file:
            file.write(str(count))
    except OSError as error:
        raise RefusedError(
            f"{error.strerror or error}: {folder / FILE}; run this as the instance's user"
        ) from error
    return count
