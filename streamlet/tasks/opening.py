"""Opens and closes a task's stores on this disk, for an active task or a copy."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.errors import (
    StateError,
    StreamletError,
    TaskCorruptedError,
    UnwritableEntryError,
)
from streamlet.logs import get_logger
from streamlet.state.directory import FolderLock, StateDirectory
from streamlet.state.rocksdb_options import bound_memory, keep_statistics
from streamlet.state.row_headers import KeptHeaders, row_headers
from streamlet.state.task_state import TaskState
from streamlet.tasks.lock_waits import LockWaits
from streamlet.tasks.open_task import OpenTask
from streamlet.topology.graph import Topology
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.tasks.mismatch import MismatchKind

log = get_logger(__name__)


@contextmanager
def blamed(task: TaskId) -> Iterator[None]:
    """Name the task in an error about its stores that leaves the block."""
    try:
        yield
    except (StateError, UnwritableEntryError) as error:
        error.task = task
        raise


def changelogs_of(
    subtopology: Subtopology, task: TaskId, *, tables: bool = True
) -> dict[str, TopicPartition]:
    """The changelog partition of each store that has one; without ``tables`` those it writes.

    A table's own topic is its changelog, and others write it.
    """
    return {
        spec.name: TopicPartition(topic, task.partition)
        for spec in subtopology.stores
        if (topic := subtopology.changelog_topic(spec.name)) is not None
        and (tables or spec.source_topic is None)
    }


def reads_committed(topology: Topology, settings: Settings) -> bool:
    """True if stores are restored from what is committed.

    Not under ``read_uncommitted`` where one is restored from a topic of others, which its task read
    so as well.
    """
    stores = [store for part in topology.subtopologies for store in part.stores]
    return settings.read_committed or all(store.source_topic is None for store in stores)


def may_mix(topology: Topology, settings: Settings) -> bool:
    """True if members of both guarantees are exact side by side: they read what is committed.

    Of their own topics, too: what a transaction wrote between two tasks must not count before its
    end.
    """
    between = bool(topology.repartition_topics)
    return reads_committed(topology, settings) and (settings.read_committed or not between)


@attrs.frozen(eq=False)
class TaskOpener:
    """Opens the stores of a topology's tasks in one folder, each with a cache of so many bytes.

    ``kept`` is what they keep of the headers of records that change rows.
    """

    topology: Topology
    directory: StateDirectory
    cache_bytes: int
    kept: KeptHeaders | None = None

    @classmethod
    def in_folder(
        cls, topology: Topology, settings: Settings, kept: KeptHeaders | None
    ) -> TaskOpener:
        """Opens tasks in the application's state folder; bounds the memory of their databases."""
        bound_memory(settings.rocksdb_block_cache_bytes, settings.rocksdb_memtables_bytes)
        keep_statistics(settings.metrics_recording_level == "debug")
        directory = StateDirectory(settings.state_dir, topology.application)
        return cls(topology, directory, settings.cache_max_bytes, kept)

    def __call__(self, task: TaskId) -> OpenTask:
        """Open a task's stores; damaged ones are wiped and come back from the changelog.

        Raises:
            StateLockedError: another worker has them open.
            StateError: the folder cannot be used, or holds the stores of another topology.
        """
        with blamed(task):
            lock = self.directory.lock_task(task)
            try:
                state = self._state(lock, task)
                facts = self.topology.subtopology(task.subtopology).stores
                state.row_headers = row_headers(state.stores, facts, self.kept)
                return OpenTask(task, state, lock)
            except BaseException:
                lock.release()
                raise

    def _state(self, lock: FolderLock, task: TaskId) -> TaskState:
        part = self.topology.subtopology(task.subtopology)
        folder = lock.folder if part.stores else None
        unread = [spec.name for spec in part.unread_stores]
        parts = (folder, part.stores, self.cache_bytes, changelogs_of(part, task), unread)
        try:
            return TaskState(*parts)
        except TaskCorruptedError as error:
            log.warning("state of task %s is damaged (%s); restoring it again", task, error)
            lock.wipe()
            return TaskState(*parts)


#: Pause before a task whose stores failed is opened again: a full disk stays full for a while.
REOPEN_MS = 5_000
_STANDS_STILL = "task %s stands still, and is tried again every %d s: %s"


@attrs.define
class TaskTroubles:
    """The troubles of a task on its way up, kept from one attempt to the next.

    Attributes:
        problem: the reason why its stores could not be opened; None: they could.
        again_ms: when they are tried again.
        since_ms: since when its stores cannot be used, if there is a problem.
        found: what was found to disagree, to be confirmed when it is found again.
        offers: how often the task was given back to the group for that.
        careful: whether it had something too large for a changelog once.
        waits: the reason why brokers did not tell what it begins with, which they are asked again.
    """

    problem: str | None = None
    again_ms: int = 0
    found: MismatchKind | None = None
    offers: int = 0
    careful: bool = False
    since_ms: int = 0
    waits: str | None = None

    def wait(self, task: TaskId, error: StreamletError) -> None:
        """Note that brokers could not answer, which are asked again after a pause."""
        self.waits = f"waits for its positions or logs: {error}"
        log.warning("task %s %s", task, self.waits)

    @property
    def why(self) -> str | None:
        """The reason why it cannot be opened now, if there is one."""
        return self.problem or self.waits

    def put_off(self, task: TaskId, reason: str, now_ms: int) -> None:
        """Note that its stores failed; they are tried again after a pause."""
        if self.problem != reason:
            log.error(_STANDS_STILL, task, REOPEN_MS // 1000, reason)
        if self.problem is None:
            self.since_ms = now_ms
        self.problem, self.again_ms = reason, now_ms + REOPEN_MS

    def lasting(self, since_ms: int) -> str | None:
        """The reason why its stores cannot be used, if they cannot since then or longer."""
        return self.problem if self.since_ms <= since_ms else None

    def settle(self) -> None:
        """Forget the troubles of a task, which are over."""
        self.problem, self.found, self.again_ms, self.waits = None, None, 0, None


@attrs.define(eq=False)
class Troubles:
    """The troubles of all tasks on their way up, and what locks they wait for."""

    _by_task: defaultdict[TaskId, TaskTroubles] = attrs.field(
        factory=lambda: defaultdict(TaskTroubles), init=False
    )
    locks: LockWaits = attrs.field(factory=partial(LockWaits, "task"), init=False)

    @property
    def problems(self) -> dict[TaskId, str]:
        """The reasons why tasks cannot be opened now."""
        found = {task: one.why for task, one in self._by_task.items() if one.why}
        return found | self.locks.problems

    def of(self, task: TaskId) -> TaskTroubles:
        """The troubles of one task."""
        return self._by_task[task]

    def be_careful(self, task: TaskId) -> bool:
        """Let this task refuse, from its next start on, what its changelogs would not take.

        False if it does already.
        """
        troubles = self._by_task[task]
        known, troubles.careful = troubles.careful, True
        return not known

    def cancel(self, task: TaskId) -> None:
        """Forget the troubles of a task that is not to be brought up any more."""
        self._by_task[task].settle()
        self.locks.over(task)

    def over(self, task: TaskId) -> None:
        """Forget the troubles of a task that runs; it stays as careful as it was."""
        self._by_task[task] = TaskTroubles(careful=self._by_task[task].careful)


#: How long after a task was given up its stores are closed, if no worker here waits for them, ms.
CLOSE_LATER_MS = 1_000


def close_later_ms(mode: str, siblings: bool) -> int:
    """The time to put it off, ms; ``siblings``: other workers share the folder.

    In mode ``eager`` stores that were given up are opened again by us, after each join.
    """
    return 0 if siblings or mode == "eager" else CLOSE_LATER_MS


class StoreCloser(Protocol):
    """Closes stores that were given up, soon; ``Closer`` does on a thread."""

    def close(self, opened: OpenTask) -> None:
        """Close these stores soon; the caller must not use them any more."""
        ...

    def hurry(self) -> None:
        """Close all that was given so far without a pause: another worker may want it."""
        ...

    def finish(self) -> None:
        """Wait until all stores are closed, and accept no more."""
        ...


class Closer:
    """Closes stores on a thread of its own, one after the other: no task waits for the disk.

    Closing a task's database flushes it: tens of milliseconds in which the worker's other tasks
    would stand still, at the very moment in which one of them changes hands. So it can be put off
    until the new owner is at work, which may be on the same machine. Until it is done the folder is
    locked; an opener tries again.

    Args:
        clock: the time.
        pause_ms: how long nothing is done about a task, unless in a hurry.
    """

    def __init__(self, clock: Clock, pause_ms: int = 0) -> None:
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="streamlet-closer")
        self._pause_ms = pause_ms
        self._hurry = threading.Event()  # for what was given so far

    def close(self, opened: OpenTask) -> None:
        """Close these stores soon; the caller must not use them any more."""
        due_ms = self._clock.now_ms() + self._pause_ms
        self._thread.submit(self._close, opened, due_ms, self._hurry)

    def hurry(self) -> None:
        """Close all that was given so far without a pause: another worker may want it."""
        self._hurry.set()
        self._hurry = threading.Event()

    def finish(self) -> None:
        """Wait until all stores are closed, and accept no more."""
        self.hurry()
        self._thread.shutdown(wait=True)

    def _close(self, opened: OpenTask, due_ms: int, hurry: threading.Event) -> None:
        hurry.wait(max(0, due_ms - self._clock.now_ms()) / 1000)
        try:
            opened.close()
        except StreamletError as error:
            log.warning("closing the stores of %s: %s", opened.task, error)
        except Exception:
            log.exception("closing the stores of %s", opened.task)
