"""Opens the stores of copies as soon as their folders and their changelogs allow it.

On the state updater's thread: one folder at a time, and again after a pause where it was not to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import attrs

from streamlet.clock import Clock
from streamlet.errors import StateError, StateLockedError, StreamletError
from streamlet.logs import get_logger
from streamlet.tasks.lock_waits import LockWaits
from streamlet.tasks.mismatch import lacks
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.target import Target
from streamlet.tasks.targets import Targets
from streamlet.tasks.task_restorer import RETRY_MS
from streamlet.types import TaskId

log = get_logger(__name__)

#: How long copies stay closed after a store refused, or while their changelogs lack records.
AGAIN_MS = 5_000


@attrs.define(eq=False)
class CopyOpener:
    """Opens the stores of copies, and knows when to try those again that it could not open.

    Args:
        open_stores: opens the stores of a task, as ``opening.TaskOpener``.
        targets: knows what there is to read.
        clock: the time.
    """

    _open_stores: Callable[[TaskId], OpenTask]
    _targets: Targets
    _clock: Clock
    #: The worker reads ``problems``.
    locks: LockWaits = attrs.field(factory=partial(LockWaits, "the copy of task"), init=False)
    #: When to open copies again whose stores failed, or whose changelogs lost records.
    _again_ms: dict[TaskId, int] = attrs.field(factory=dict, init=False)
    _retry_ms: int = attrs.field(default=0, init=False)

    def due(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        """The tasks to be opened now, of these; none in the pause behind the call before."""
        now = self._clock.now_ms()
        due = [task for task in tasks if now >= self._again_ms.get(task, 0)]
        if not due or now < self._retry_ms:
            return []
        self._retry_ms = now + RETRY_MS
        return due

    def go_on(self) -> None:
        """Leave the pause out: ``due`` found tasks that were not opened yet."""
        self._retry_ms = 0

    def open(self, task: TaskId) -> OpenTask | None:
        """Open a task's stores to follow its changelogs; None if that is to be tried again.

        Raises:
            StateError: its stores cannot be used.
            BrokerError: the broker does not say what there is to read.
        """
        try:
            opened = self._open_stores(task)
        except StateLockedError as error:
            self.locks.met(task, error, self._clock.now_ms())
            return None
        self.locks.over(task)
        try:
            target = self._target_of(opened)
        except StreamletError:
            opened.close()  # else it would count as a copy that is read
            raise
        if target is None:
            opened.close()
            self._again_ms[task] = self._clock.now_ms() + AGAIN_MS
            return None
        self._again_ms.pop(task, None)
        return opened.follow(target, partial(self._targets.whole_from, task))

    def _target_of(self, opened: OpenTask) -> Target | None:
        """The target of a copy; None while its changelogs lack what the commit relies upon."""
        target = self._targets.of_copy(opened.task, opened.state)
        short = lacks(target)
        if short:
            log.warning("no copy of task %s is made: %s", opened.task, "; ".join(short.values()))
            return None
        return target

    def put_off(self, task: TaskId, error: StateError) -> None:
        """Open a copy whose stores failed again after a pause."""
        log.error("the copy of %s is opened again in %d s: %s", task, AGAIN_MS // 1000, error)
        self._again_ms[task] = self._clock.now_ms() + AGAIN_MS

    def forget(self, task: TaskId) -> None:
        """Wait no more for the lock of a task that is no copy here."""
        self.locks.over(task)
