"""Keeps a checkpoint to one query at a time, of whichever process or machine.

On a local disk by the kernel's lock of a file, which goes with its process; elsewhere by a lease.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import attrs

from streamlet.errors import StateLockedError
from streamlet.logs import get_logger
from streamlet.spark.hadoop_file import HadoopFile
from streamlet.spark.lease import RENEWAL_S, Lease
from streamlet.state.directory import FolderLock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Name of the file in a checkpoint.
LOCK_FILE: Final = "streamlet.lock"

log = get_logger(__name__)

_LOST: WeakKeyDictionary[StreamingQuery, StateLockedError] = WeakKeyDictionary()


@attrs.frozen
class _Keeper:
    """The thread that holds a checkpoint for a query of this process."""

    query: StreamingQuery
    thread: threading.Thread


#: By the name of the checkpoint's lock.
_KEEPERS: dict[str, _Keeper] = {}


@contextmanager
def locked(
    spark: SparkSession, checkpoint: str, notify: Callable[[str], None] = log.info
) -> Iterator[Callable[[StreamingQuery], None]]:
    """Hold a checkpoint until the query ends that the result is called with.

    Without such a call it is free again at the end of the block.

    Args:
        spark: the query's session.
        checkpoint: folder or URL.
        notify: gets a line if a lease has to be watched.

    Raises:
        StateLockedError: another query holds it; the message says which process.
    """
    file = HadoopFile.of(spark, checkpoint, LOCK_FILE)
    name = file.name
    _await_release(name)
    lock: FolderLock | Lease
    if (local := file.local) is not None:
        lock = FolderLock(local, "the checkpoint")
    else:
        lock = Lease(file, checkpoint, threading.Event().wait, notify)
    kept = False

    def keep(query: StreamingQuery) -> None:
        nonlocal kept
        thread = threading.Thread(
            target=_keep, args=(lock, query), name="spark-checkpoint-lock", daemon=True
        )
        _KEEPERS[name] = _Keeper(query, thread)
        thread.start()
        kept = True

    try:
        yield keep
    finally:
        if not kept:
            lock.release()


def lost(query: StreamingQuery) -> StateLockedError | None:
    """The error of a query whose checkpoint another process took; None if none did."""
    return _LOST.get(query)


def _await_release(name: str) -> None:
    """Wait until a query of this process that has ended lets go of a checkpoint."""
    from py4j.protocol import Py4JError

    keeper = _KEEPERS.get(name)
    if keeper is None:
        return
    try:
        active = keeper.query.isActive
    except (Py4JError, OSError):  # its JVM has ended
        active = False
    if not active:
        keeper.thread.join()


def _keep(lock: FolderLock | Lease, query: StreamingQuery) -> None:
    """Hold the lock while the query runs, and renew a lease meanwhile."""
    try:
        while not _ended(query):
            if isinstance(lock, Lease):
                _renew(lock, query)
    finally:
        _release(lock)


def _ended(query: StreamingQuery) -> bool:
    """Wait for a query's end, for as long as a lease need not be renewed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import StreamingQueryException

    try:
        # PySpark takes fractions too, whatever it says.
        return bool(query.awaitTermination(RENEWAL_S))  # type: ignore[arg-type]
    except (StreamingQueryException, Py4JError, OSError):
        return True  # it failed, or its JVM has ended


def _renew(lease: Lease, query: StreamingQuery) -> None:
    from py4j.protocol import Py4JError

    try:
        lease.renew()
    except StateLockedError as error:
        log.error("%s: the query stops", error)
        _LOST[query] = error
        query.stop()
    except (Py4JError, OSError) as error:
        log.warning("the lease of the checkpoint is not renewed: %s", error)


def _release(lock: FolderLock | Lease) -> None:
    from py4j.protocol import Py4JError

    try:
        lock.release()
    except (Py4JError, OSError) as error:  # the lease ends by itself
        log.debug("the lease of the checkpoint stays: %s", error)
