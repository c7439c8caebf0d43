"""The files of a database of RocksDB, without the database."""

from __future__ import annotations

import shutil
from pathlib import Path

from streamlet.errors import StateError
from streamlet.own_files import make_own_folder

#: Prefix of files on their way into the database.
BULK = "bulk-"


def wipe_folder(folder: Path) -> None:
    """Delete a database's files.

    Raises:
        StateError: they cannot be deleted.
    """
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise StateError(f"cannot delete {folder}: {error.strerror or error}") from error


def manifest(folder: Path) -> tuple[str, int]:
    """Name and size of the present manifest; nothing if there is none or it is missing."""
    try:
        name = (folder / "CURRENT").read_text().strip()
        return name, (folder / name).stat().st_size
    except (OSError, UnicodeDecodeError):
        return "", 0  # RocksDB will tell what is wrong, or make a new one


def prepare(folder: Path) -> None:
    """Make the folder, this user's alone, and clear away what a killed bulk write left."""
    try:
        make_own_folder(folder)
        for left in sorted(folder.glob(f"{BULK}*")):
            left.unlink()
    except OSError as error:
        raise StateError(f"cannot use {folder}: {error.strerror or error}") from error
