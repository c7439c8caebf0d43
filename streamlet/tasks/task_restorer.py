"""Restores tasks of ours that no copy is at hand of; on the state updater's thread.

With a reader and a consumer of its own: a task that is restored runs nowhere, and waits for no
changelog of a copy that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from streamlet.errors import (
    BrokerError,
    StateError,
    StreamletError,
    TaskCorruptedError,
    TimedOutError,
)
from streamlet.logs import get_logger
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.open_task import OpenTask, RestoreProgress
from streamlet.tasks.target import Target
from streamlet.tasks.task_events import Restored, RestoreFailed
from streamlet.types import TaskId

log = get_logger(__name__)

#: How long a step takes, ms, and waits when nothing comes: alone, while tasks run beside, and while
#: a hand-over waits for one of our copies.
ALONE_MS, BESIDE_MS, HURRY_MS = 100, 5, 2
#: How long to rest after a failed step.
RETRY_MS = 100


@attrs.define(eq=False)
class TaskRestorer:
    """The tasks that are restored.

    Args:
        reader: reads their changelogs.
        tell: called with what becomes of them.
    """

    _reader: StoreChangelogReader
    _tell: Callable[[Restored | RestoreFailed | RestoreProgress], None]
    tasks: dict[TaskId, OpenTask] = attrs.field(factory=dict, init=False)
    #: Whether there was something to read in the last step.
    reads_on: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._reader.progress = self._tell

    def begin(self, opened: OpenTask, target: Target) -> None:
        """Bring open stores to a commit."""
        self.tasks[opened.task] = opened
        self._reader.add(opened.restore(target))

    def cancel(self, task: TaskId) -> None:
        """Give a task up, if it is here; its stores are closed, as far as they were written."""
        opened = self.tasks.pop(task, None)
        if opened is not None:
            let_go(self._reader, opened)

    def step(self, *, hurry: bool, beside: bool) -> int:
        """Read on; the pause after that, where brokers fail, in ms.

        Args:
            hurry: whether a hand-over waits for one of our copies.
            beside: whether tasks run beside.

        Raises:
            BrokerError: the broker refuses to have a changelog read, for good.
            StateError: it names no task that is restored.
        """
        self.reads_on = False
        if not self.tasks:
            return 0
        try:
            step_ms = HURRY_MS if hurry else BESIDE_MS if beside else ALONE_MS
            for opened in self._reader.step(step_ms, gentle=beside):
                del self.tasks[opened.task]
                self._tell(Restored(opened))
            self.reads_on = bool(self.tasks) and not self._reader.quiet
        except StateError as error:
            if error.task is None or error.task not in self.tasks:
                raise
            opened = self.tasks[error.task]
            opened.damaged = isinstance(error, TaskCorruptedError)
            self.cancel(error.task)
            self._tell(RestoreFailed(opened, str(error)))
        except (BrokerError, TimedOutError) as error:
            if not error.passing:
                raise
            log.warning("restoring waits: %s", error)
            return RETRY_MS
        return 0

    def reached(self) -> dict[TaskId, tuple[int, int]]:
        """Offset reached and end, summed over the changelogs, by task begun."""
        return self._reader.reads()

    def held(self) -> dict[TaskId, str]:
        """The reason why each waits for an open transaction, if it does for long."""
        return self._reader.held()

    def close(self) -> None:
        """Free the consumer."""
        self._reader.close()


def let_go(reader: StoreChangelogReader, opened: OpenTask) -> None:
    """Read a task no more and close its stores, which are as far as they were written."""
    try:
        try:
            reader.remove(opened.task)
        finally:
            opened.close()
    except StreamletError as error:
        log.warning("closing the stores of %s: %s", opened.task, error)
