"""The tasks of a ``TopologyTestDriver``, served to queries as a worker serves its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

import streamlet as sl
from streamlet.app import App
from streamlet.dsl.processors.record import Record
from streamlet.processing.task import Task
from streamlet.queries.local import LocalStore, ReadOptions
from streamlet.state.task_state import TaskState
from streamlet.tasks.served_tasks import ServedTasks, ServingWorker
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId, TopicPartition

KEYS = [f"k{number}" for number in range(40)]
HOUR = 3_600_000


def _keep(record: Record[str, int], context: Any) -> None:
    for name in ("plain", "latest", "timed", "windowed", "versions"):
        store, put = context.store(name), (record.key, record.value)
        store.put(*put, *(() if name in ("plain", "latest") else (record.timestamp,)))
    context.store("sessions").put(
        sl.Windowed(record.key, record.timestamp, record.timestamp + 5), record.value
    )


class _Keeps(sl.Processor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        _keep(record, self.context)


def _every_kind() -> sl.App:
    """An application with a store of each kind that can be queried."""
    app = sl.App("all")
    stream = app.stream("in", key=str, value=int)
    by_key = stream.group_by_key()
    by_key.count(store="counts")
    by_key.windowed_by(sl.tumbling(60_000)).count(store="windows")
    by_key.windowed_by(sl.session(1_000)).count(store="key-sessions")
    keyed: dict[str, Any] = {"key": str, "value": int}
    stores = [
        sl.key_value_store("plain", **keyed),
        sl.lru_store("latest", max_entries=30, **keyed),
        sl.timestamped_store("timed", **keyed),
        sl.window_store("windowed", retention=HOUR, size=1_000, **keyed),
        sl.session_store("sessions", retention=HOUR, **keyed),
        sl.versioned_store("versions", history=HOUR, **keyed),
    ]
    stream.process(_Keeps, stores=stores)
    return app


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
    starting: Callable[[], bool] = lambda: False

    def store(self, name: str, kind: Any = None, **options: Any) -> Any:
        """A store as ``App.store`` gives it."""
        return self.local(name, kind, **options).face()

    def local(self, name: str, kind: Any = None, **options: Any) -> LocalStore:
        """What reads a store."""
        how, topology = ReadOptions(**{"timeout_ms": 0, **options}), self.app.topology()
        starting = self.starting
        return LocalStore(self.served, topology, name, kind, how, starting=starting)

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


@contextmanager
def filled() -> Iterator[Serving]:
    """A driver of three tasks with a store of every kind, each with some rows, being served."""
    made = serving(_every_kind(), {"in": 3})
    chance = random.Random(1)
    for number in range(400):
        at = made.driver._record_ms + number * 700
        made.driver.pipe_input("in", chance.choice(KEYS), number, at)
    made.serve()
    yield made
    made.driver.close()
