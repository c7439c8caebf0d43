"""Tasks that wait for a lock of another process: says so once it takes long, and for the status.

Within an instance a folder changes hands in milliseconds. What takes longer is a process that
should not be there, and only an operator can end it.
"""

from __future__ import annotations

import attrs

from streamlet.errors import StateLockedError
from streamlet.logs import get_logger
from streamlet.types import TaskId

log = get_logger(__name__)

#: How long a wait is nothing worth a word, and how often it is looked who holds the lock, ms.
QUIET_MS, LOOK_MS = 3_000, 30_000


@attrs.define
class _Wait:
    since_ms: int
    look_at_ms: int
    problem: str | None = None


@attrs.define(eq=False)
class LockWaits:
    """The waits for locks of one thread.

    Args:
        what: what of a task waits, for the log: ``task`` or ``the copy of task``.
    """

    _what: str
    _waits: dict[TaskId, _Wait] = attrs.field(factory=dict, init=False)
    #: The waits that take long, by task; replaced as a whole, so that other threads may read it.
    problems: dict[TaskId, str] = attrs.field(factory=dict, init=False)

    def met(self, task: TaskId, error: StateLockedError, now_ms: int) -> None:
        """Note that a lock kept the stores of a task from being opened."""
        wait = self._waits.setdefault(task, _Wait(now_ms, now_ms + QUIET_MS))
        if now_ms < wait.look_at_ms:
            return
        wait.look_at_ms = now_ms + LOOK_MS
        problem = f"waits for a lock: {error.described()}"
        if problem != wait.problem:
            waited_s = (now_ms - wait.since_ms) / 1000
            log.warning("%s %s has waited for %.0f s: it %s", self._what, task, waited_s, problem)
            wait.problem = problem
            self._publish()

    def over(self, task: TaskId) -> None:
        """Forget the wait of a task, if there is one: its stores are open, or are not wanted."""
        wait = self._waits.pop(task, None)
        if wait is not None and wait.problem is not None:
            log.info("%s %s goes on: the lock is free, or it is not wanted here", self._what, task)
            self._publish()

    def _publish(self) -> None:
        self.problems = {task: one.problem for task, one in self._waits.items() if one.problem}
