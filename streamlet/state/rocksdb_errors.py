"""RocksDB's errors as ours; the one place that reads the texts by which rocksdict tells them apart.

A text begins with the status code in words (``IO error``, ``Corruption``); what failed and the
system's reason follow, with the path between them. A path is made of names that users choose, so
only what stands before it and the reason at the end count: a full disk under ``block-counter`` is a
full disk, and a file that cannot be opened under ``Corruption-reports`` is not damaged.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from streamlet.errors import StateError, StateLockedError, TaskCorruptedError
from streamlet.state.lock_holders import holder_text

#: What RocksDB puts in front of the error it met while it read the options of the database.
_READING_OPTIONS = "Invalid argument: Found options incompatible with filesystem: "
#: Beginnings of texts that say: the files are damaged, or some of them are missing.
_DAMAGE = (
    "Corruption: ",
    "NotFound: ",
    "IO error: No such file or directory: ",
    "No such file or directory (os error ",  # rocksdict's own, without a path
    "Invalid argument: Column family not found: ",
)
#: Behind the path: a database that is to be read only is not there.
_MISSING = re.compile(r": does not exist \([a-z_ ]+\)\s*\Z")
_HELD_HERE = "IO error: lock hold by current process"
_HELD = "IO error: While lock file: "
#: The file in the database's folder that its process has locked.
_LOCK = "LOCK"
#: A snapshot has no such key; a database gives None instead.
_NO_KEY = "key not found"
#: The system's reasons for a lock that another process holds.
_BUSY = (errno.EAGAIN, errno.EACCES)


def state_error(folder: Path, error: Exception) -> StateError:
    """The error of ours for an exception that rocksdict raised over the database in ``folder``."""
    text = str(error)
    reason = text.removeprefix(_READING_OPTIONS)
    if _is_locked(reason):
        return _locked(folder, text, here=reason.startswith(_HELD_HERE))
    if reason.startswith(_DAMAGE) or _is_missing(folder, reason):
        return TaskCorruptedError(f"state in {folder} is damaged: {text}")
    return StateError(f"cannot use the state in {folder}: {text}")


def is_no_such_key(error: Exception) -> bool:
    """True of the exception that rocksdict raises where a snapshot lacks a key."""
    return type(error) is Exception and str(error) == _NO_KEY


def _locked(folder: Path, text: str, *, here: bool) -> StateLockedError:
    held = f"{folder} is held by"
    holder = f"process {os.getpid()}" if here else "another process"
    error = StateLockedError(f"{held} {holder}: {text}")
    if not here:
        error.holder = lambda: f"{held} {holder_text(folder / _LOCK, None)}"
    return error


def _is_locked(text: str) -> bool:
    if text.startswith(_HELD_HERE):
        return True
    reasons = tuple(f": {os.strerror(number)}" for number in _BUSY)
    return text.startswith(_HELD) and text.rstrip().endswith(reasons)


def _is_missing(folder: Path, text: str) -> bool:
    beginning = f"Invalid argument: {folder}"
    return text.startswith(beginning) and _MISSING.search(text[len(beginning) :]) is not None
