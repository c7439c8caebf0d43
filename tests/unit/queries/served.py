"""The tasks of a ``TopologyTestDriver``, served to queries as a worker serves its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from streamlet.app import App
from streamlet.processing.task import Task
from streamlet.queries.local import LocalStore, ReadOptions
from streamlet.state.task_state import TaskState
from streamlet.tasks.served_tasks import ServedTasks, ServingWorker
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId, TopicPartition


@attrs.define(eq=False)
class DriverTask:
    """A task of the driver with what queries look at of an active one."""

    task: TaskId
    state: TaskState
    processor: Task
    committed: Mapping[TopicPartition, int]
    misplaced: str = ""

    @property
    def inputs(self) -> tuple[TopicPartition, ...]:
        return tuple(self.committed)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        return self.processor.positions


@attrs.define(eq=False)
class Serving:
    """A driver and its served tasks."""

    app: App
    driver: TopologyTestDriver
    served: ServedTasks
    counts: dict[str, int]
    owns: bool = True

    def store(self, name: str, kind: Any = None, **options: Any) -> Any:
        """A store as ``App.store`` gives it."""
        how = ReadOptions(**{"timeout_ms": 0, **options})
        return LocalStore(self.served, self.app.topology(), name, kind, how).face()

    def task(self, task: TaskId) -> DriverTask:
        """A task as it would be served."""
        (part,) = (part for part in self.driver._parts if part.task.task == task)
        at = {tp: part.task.positions[tp] for tp in part.task.positions}
        return DriverTask(task, part.state, part.task, at)

    def serve(self, *tasks: TaskId) -> None:
        """Serve these tasks, or all."""
        for task in tasks or self.driver.tasks:
            active: Any = self.task(task)
            self.served.add(active)


def serving(app: App, counts: dict[str, int]) -> Serving:
    """The tasks of an application, not served yet."""
    driver = TopologyTestDriver(app, partitions=counts)
    made = Serving(app, driver, ServedTasks(), driver._topics.counts)
    made.served.begin(
        ServingWorker(app.topology(), lambda: made.counts, lambda: made.owns, lambda: None)
    )
    made.served.state = "RUNNING"
    return made
