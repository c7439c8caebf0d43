"""A task over state on disk that tests feed with batches, crash, restart and restore elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

from streamlet.app import App
from streamlet.dsl.stream import KStream
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.serdes import serde
from streamlet.state.backing import Columns
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber, TaskId, TopicPartition

#: Key, value and time.
Fed = tuple[str | None, str | None, int]

INPUT = TopicPartition("in", 0)


class FedTask:
    """The one task of an application, or of one stream, from ``in`` to ``out``, with str in ``in``.

    ``cold`` restores its stores from what was drained, as from changelogs.
    """

    def __init__(
        self,
        build: App | Callable[[KStream[str, str]], KStream[Any, Any]],
        folder: Path,
        policy: str = "skip",
    ) -> None:
        app = build if isinstance(build, App) else App("a")
        if not isinstance(build, App):
            build(app.stream("in", key=str, value=str)).to("out")
        (self.subtopology,) = app.topology().subtopologies
        self.policy = ErrorPolicy.of(policy)
        self.folder, self.hosts, self.commits = folder, 0, 0
        self.offset = self.committed = 0
        self.now_ms = 0
        self.changelog: list[Columns] = []
        self.open()

    def open(self) -> None:
        folder = self.folder / str(self.hosts)
        folder.mkdir(exist_ok=True)
        self.state = TaskState(folder, self.subtopology.stores, 1)
        self.offset = self.committed
        self.task = Task(
            TaskId(0, 0),
            self.subtopology,
            self.state,
            {INPUT: self.offset},
            policy=self.policy,
            in_parts=True,
            wall_ms=lambda: self.now_ms,
        )

    def crash(self) -> None:
        """Lose what was not committed, and begin again on the same host."""
        self.task.close()
        self.state.close()
        self.open()

    def cold(self) -> None:
        """Go on at another host, which has the changelogs only."""
        self.task.close()
        self.state.close()
        self.hosts += 1
        folder = self.folder / str(self.hosts)
        folder.mkdir()
        state = TaskState(folder, self.subtopology.stores, 1)
        for columns in self.changelog:
            state.load(columns, TopicPartition(columns.store, 0), 0, 0)
        state.close()
        self.open()

    def send(self, records: Sequence[Fed]) -> list[Fed]:
        """Process a batch; what it sends."""
        keys = serde(str).encode_column([key for key, _, _ in records])
        values = serde(str).encode_column([value for _, value, _ in records])
        offsets = range(self.offset, self.offset + len(records))
        times = [time for _, _, time in records]
        self.offset += len(records)
        outputs = self.task.process(PartitionBatch("in", 0, offsets, keys, values, times, None))
        return self._all(outputs)

    def wait(self, ms: int) -> list[Fed]:
        """Let time pass; what comes by the clock."""
        self.now_ms += ms
        return self._all(self.task.resume(self.now_ms))

    def commit(self) -> None:
        self.task.settle()
        self.commits += 1
        drained = self.state.drain()
        self.changelog += drained.columns.values()
        self.state.write(drained, StateNumber(1, self.commits), {})
        self.committed = self.offset

    def _all(self, outputs: list[Any]) -> list[Fed]:
        while self.task.under_way:
            self.state.trim()  # as a commit does that was begun before
            outputs += self.task.resume(self.now_ms)
        for store in self.state.stores.values():
            store.commits.check_invariants()
        (sink,) = self.subtopology.sinks
        return [
            (sink.key.decode(key), None if value is None else sink.value.decode(value), time)
            for output in outputs
            for key, value, time in zip(output.keys, output.values, output.timestamps, strict=True)
        ]


M = TypeVar("M")


def played(task: FedTask, model: M, steps: Sequence[Any]) -> Iterator[tuple[M, list[Any] | None]]:
    """Take the steps: commits, crashes, cold restores, and batches, which the caller sends.

    Yields the model as of each step, which forgets what the task loses, and the records of the
    step, None where it is no batch.
    """
    committed = deepcopy(model)
    for step in steps:
        if step == "commit":
            task.commit()
            committed = deepcopy(model)
        elif isinstance(step, str):
            task.crash() if step == "crash" else task.cold()
            model = deepcopy(committed)
        yield model, None if isinstance(step, str) else step
