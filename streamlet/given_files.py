"""Files that users name, read up to a bound: one without an end would fill the memory."""

from __future__ import annotations

import errno
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
