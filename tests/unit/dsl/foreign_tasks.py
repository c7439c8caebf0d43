"""The tasks of a join by foreign keys, which a test steps, commits and crashes one by one."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import attrs

from streamlet.app import App
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.state.backing import Columns
from streamlet.state.task_state import TaskState
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import StateNumber, TaskId, TopicPartition

Record = tuple[bytes | None, bytes | None, int]


@attrs.define
class _Owned:
    """A task with what its last commit contains."""

    id: TaskId
    subtopology: Subtopology
    positions: dict[TopicPartition, int]
    rows: dict[str, dict[bytes, bytes]]
    state: Any = None
    task: Any = None
    commits: int = 0
    epoch: int = 0


class ForeignCluster:
    """All tasks of an application over logs in memory.

    Args:
        app: the application.
        counts: partitions of the topics it reads.
        policy: what becomes of records that fail.
    """

    def __init__(self, app: App, counts: dict[str, int], policy: ErrorPolicy | None = None) -> None:
        self._policy = policy
        self.topology = app.topology()
        self.counts = self.topology.partition_counts(counts)
        self.logs: dict[TopicPartition, list[Record]] = defaultdict(list)
        self._late: list[list[Output]] = []
        self.tasks = [
            _Owned(
                TaskId(subtopology.id, number),
                subtopology,
                {TopicPartition(topic, number): 0 for topic in subtopology.input_topics},
                {spec.name: {} for spec in subtopology.stores},
            )
            for subtopology in self.topology.subtopologies
            for number in range(self.counts[subtopology.input_topics[0]])
        ]
        for owned in self.tasks:
            self._open(owned)

    def write(self, topic: str, partition: int, record: Record) -> None:
        """Write a record to a topic that the application reads."""
        self.logs[TopicPartition(topic, partition)].append(record)

    def step(self, number: int, most: int) -> bool:
        """Let a task read some records of one of its inputs; False if there were none."""
        owned = self.tasks[number % len(self.tasks)]
        inputs = sorted(owned.task.received)
        for at in range(len(inputs)):
            where = inputs[(number + at) % len(inputs)]
            start = owned.task.received[where]
            some = self.logs[where][start : start + most]
            if some:
                columns = map(list, zip(*some, strict=True))
                offsets = range(start, start + len(some))
                batch = PartitionBatch(*where, offsets, *columns)  # type: ignore[arg-type]
                self._send(owned.task.process(batch))
                self._send(owned.task.settle())
                return True
        return False

    def task_of(self, number: int) -> TaskId:
        """The id of the task of this number."""
        return self.tasks[number % len(self.tasks)].id

    def commit(self, number: int) -> None:
        """Commit the positions and the stores of a task."""
        owned = self.tasks[number % len(self.tasks)]
        owned.commits += 1
        owned.positions = dict(owned.task.positions)
        drained = owned.state.drain()
        for columns in drained.columns.values():
            kept = owned.rows[columns.store]
            for key, row in zip(columns.keys, columns.values, strict=True):
                if row is None:
                    kept.pop(key, None)
                else:
                    kept[key] = row
        owned.state.write(drained, StateNumber(1, owned.commits), {})

    def crash(self, number: int) -> None:
        """Let a task begin again as of its last commit; what it wrote since stays written."""
        owned = self.tasks[number % len(self.tasks)]
        owned.state.close()
        self._open(owned)

    def replace(self, number: int, steps: int, most: int) -> None:
        """Give a task a new owner, as ``crash`` does; the old one was frozen amid some steps.

        ``wake`` sends what it made of them.
        """
        before, self._send = self._send, self._late.append  # type: ignore[method-assign]
        try:
            for _ in range(steps):
                self.step(number, most)
        finally:
            self._send = before  # type: ignore[method-assign]
        self.crash(number)

    def wake(self) -> None:
        """Send what all former owners had made before they were frozen."""
        late, self._late[:] = list(self._late), []
        for outputs in late:
            self._send(outputs)

    def settle(self) -> None:
        """Read everything that there is, and what comes of it."""
        while any([self.step(number, 100) for number in range(len(self.tasks))]):
            pass

    def rows(self, store: str) -> list[tuple[Any, Any]]:
        """The rows of a store in all tasks."""
        found = [owned.state.stores[store] for owned in self.tasks if store in owned.rows]
        return sorted(row for one in found for row in one.range())

    def dropped(self) -> int:
        """Records left out by rule since the last crashes."""
        return sum(owned.task.counters.dropped for owned in self.tasks)

    def _open(self, owned: _Owned) -> None:
        owned.state = TaskState(None, owned.subtopology.stores, 1)
        for store, rows in owned.rows.items():
            columns = Columns(store, list(rows), list(rows.values()))
            owned.state.load(columns, TopicPartition(store, owned.id.partition), 0, 0)
        owned.task = Task(
            *(owned.id, owned.subtopology, owned.state, owned.positions),
            policy=self._policy,
            partition_counts=self.counts,
        )
        owned.epoch += 1
        owned.task.epoch = owned.epoch

    def _send(self, outputs: list[Output]) -> None:
        for out in outputs:
            count = self.counts.get(out.topic, 1)
            places = out.partitions or [
                0 if key is None else partition_of(key, count) for key in out.keys
            ]
            columns = out.keys, out.values, out.timestamps, places
            for key, value, time, place in zip(*columns, strict=True):
                self.logs[TopicPartition(out.topic, place)].append((key, value, time))
