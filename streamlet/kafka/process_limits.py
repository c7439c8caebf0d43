"""Room for a client's threads and connections where a process is limited (``ulimit -v``, ``-n``).

librdkafka waits for ever for itself where it can start only some of its threads, and for a broker
where it can open no socket.
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
#: Open files of a worker with a task or two.
LEAST_FILES = 100


def check_room() -> None:
    """Make sure that a client's threads can start, and that a worker's clients can connect.

    Raises:
        ConfigError: the limit of the address space leaves too little, or that of open files is low.
    """
    if _limits is None:
        return
    files, _ = _limits.getrlimit(_limits.RLIMIT_NOFILE)
    if files != _limits.RLIM_INFINITY and files < LEAST_FILES:
        raise ConfigError(
            [
                f"ulimit -n: {files} files may be open at a time; a worker needs {LEAST_FILES} for "
                "its connections, and some for each task with state: set ulimit -n 1024 or more"
            ]
        )
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
