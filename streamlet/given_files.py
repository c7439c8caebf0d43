"""Files that users name, read up to a bound: one without an end would fill the memory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

#: Bytes of a file: far more than settings, positions, keys or scenarios take.
MOST_BYTES = 16 << 20


def bytes_of(file: Path) -> bytes:
    """The bytes of a file, a pipe or a device.

    Raises:
        OSError: it cannot be read, or has more than ``MOST_BYTES``.
    """
    with file.open("rb") as opened:
        found = opened.read(MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES:,} bytes", str(file))
    return found


def check_file(file: str | os.PathLike[str]) -> None:
    """Refuse what a library that reads a file by its name would never be done with.

    Raises:
        OSError: it is not there, is a device or a pipe, or has more than ``MOST_BYTES``.
    """
    found = os.stat(file)
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file", str(file))
    if found.st_size > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES:,} bytes", str(file))
