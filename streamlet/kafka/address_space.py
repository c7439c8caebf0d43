"""Room for a client's threads in an address space that is limited (``ulimit -v``).

librdkafka waits for ever for itself where it can start only some of its threads.
"""

from __future__ import annotations

import contextlib
import mmap
from types import ModuleType

from streamlet.errors import ConfigError

_limits: ModuleType | None = None
with contextlib.suppress(ImportError):  # Windows has no such limits
    import resource as _limits

#: The stacks of a client's threads, its queues, and what Python takes meanwhile, bytes.
ROOM_BYTES = 256 * 1024 * 1024


def check_room() -> None:
    """Make sure that a client's threads can start.

    Raises:
        ConfigError: the limit of the address space leaves too little.
    """
    if _limits is None:
        return
    limit, _ = _limits.getrlimit(_limits.RLIMIT_AS)
    if limit == _limits.RLIM_INFINITY:
        return
    try:
        mmap.mmap(-1, ROOM_BYTES).close()
    except OSError as error:
        raise ConfigError(
            [
                f"ulimit -v: of {limit // 1024:,} KiB less than {ROOM_BYTES // 1024:,} are left "
                "for another client of Kafka; a worker needs 2 GiB of address space or more, most "
                "of which is no memory"
            ]
        ) from error
