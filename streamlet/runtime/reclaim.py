"""Looks up the last commits of tasks held open while the group changes its type (F4).

The coordinator answers in its own time; until then the tasks stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamlet.clock import Clock
from streamlet.group.commit_metadata import Positions
from streamlet.group.events import FetchDone, FetchOutcome
from streamlet.runtime.active import ActiveTask
from streamlet.types import TaskId, TopicPartition

#: How soon to ask again when there is no stable answer, ms.
RETRY_MS = 20


class Reclaims:
    """Looks up the commits of held tasks.

    Args:
        fetch: reads committed positions once; the answer is an event with the token returned.
        clock: for retries.
    """

    def __init__(self, fetch: Callable[[Sequence[TopicPartition]], int], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._waiting: dict[TaskId, ActiveTask] = {}
        self._asked: dict[int, tuple[TaskId, ...]] = {}
        self._ask_at_ms = 0

    def want(self, active: ActiveTask) -> None:
        """Find out about a task that stands still."""
        self._waiting[active.task] = active
        self._ask_at_ms = self._clock.now_ms()

    def forget(self, task: TaskId) -> None:
        """Drop a task that is not to be looked up any more."""
        self._waiting.pop(task, None)

    def step(self) -> None:
        """Ask about all that wait, if it is time to."""
        if not self._waiting:
            return
        asked = {task for tasks in self._asked.values() for task in tasks}
        tasks = tuple(sorted(self._waiting.keys() - asked))
        if tasks and self._clock.now_ms() >= self._ask_at_ms:
            inputs = [tp for task in tasks for tp in self._waiting[task].inputs]
            self._asked[self._fetch(inputs)] = tasks

    def fetched(self, done: FetchDone) -> list[tuple[ActiveTask, Positions]]:
        """The tasks whose committed positions are known now, with these."""
        tasks = self._asked.pop(done.token, ())
        if done.outcome is not FetchOutcome.FETCHED:
            self._ask_at_ms = self._clock.now_ms() + RETRY_MS
            return []
        held = [active for task in tasks if (active := self._waiting.pop(task, None)) is not None]
        return [(active, Positions.of(active.inputs, done.committed)) for active in held]
