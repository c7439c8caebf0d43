"""A worker's surroundings: its membership, its observer, and the counters it shows them."""

from __future__ import annotations

from typing import Protocol

import attrs

from streamlet.runtime.outputs import Output
from streamlet.runtime.record_failures import TaskCounters
from streamlet.runtime.restore_job import RestoreProgress
from streamlet.types import TaskId


class Observer(Protocol):
    """Observes what a worker does (the supervisor's pipe, a notebook, a test)."""

    def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None:
        """The worker's state (Kafka Streams' names) or the set of running tasks changed."""
        ...

    def restoring(self, progress: RestoreProgress) -> None:
        """A store is being restored."""
        ...

    def produced(self, outputs: list[Output]) -> None:
        """These were handed to the producer."""
        ...


@attrs.define
class WorkerCounters:
    """The counts of a worker since it started."""

    records: int = 0
    dropped: int = 0  # by rule: null keys, negative timestamps
    late: int = 0  # out of closed windows, once for each window
    skipped: int = 0  # by error policy, dead letters included
    dead_lettered: int = 0

    def add(self, of_task: TaskCounters) -> None:
        """Add what a task counted that is about to be closed; its records were counted before."""
        self.dropped += of_task.dropped
        self.late += of_task.late
        self.skipped += of_task.skipped
        self.dead_lettered += of_task.dead_lettered
