"""A copy of a task that follows a changelog which the test writes."""

from __future__ import annotations

from pathlib import Path

import attrs

from streamlet.clock import ManualClock
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.state.changelog import encode_column
from streamlet.state.entries import CommitEntry
from streamlet.state.holding_reader import HoldingReader
from streamlet.state.task_state import TaskState
from streamlet.tasks.open_task import OPEN_END, ChangelogPart, OpenTask
from streamlet.tasks.task_record import ReadStage
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import StateNumber, TaskId, TopicPartition


@attrs.define(eq=False)
class Copy:
    """A copy of a task with one store; ``end`` is where its changelog ends."""

    opened: OpenTask
    owner: TaskState
    clock: ManualClock
    end: int = 0
    commits: int = 0

    @classmethod
    def of(cls, subtopology: Subtopology, task: TaskId, clock: ManualClock, folder: Path) -> Copy:
        (spec,) = subtopology.stores
        tp = TopicPartition(f"changelog-of-{spec.name}", task.partition)
        states = [
            TaskState(one, subtopology.stores, 1 << 20, {spec.name: tp}) for one in (folder, None)
        ]
        opened = OpenTask(task, states[0])
        made = cls(opened, states[1], clock)
        opened.stage, opened.begun = ReadStage.FOLLOWED, True
        opened.parts = [
            ChangelogPart(
                *(task, tp, spec.name, HoldingReader(str(tp)), states[0].loader(spec.name)),
                *(0, OPEN_END, 0, 0),
                look=lambda: (clock.wall_ms(), made.end),
            )
        ]
        return made

    def commit(self, **rows: int) -> None:
        """Have the owner commit rows, which the copy reads; the input is at 10 per commit."""
        (part,) = self.opened.parts
        for key, value in rows.items():
            self.owner.stores[part.store].put(key, value)
        drained = self.owner.drain()
        columns = drained.columns[part.store]
        self.commits += 1
        number = StateNumber(1, self.commits)
        self.owner.write(drained, number, {})
        values, headers = encode_column(number, columns.values)
        marks: list[Headers | None] = headers or [None] * len(values)
        task = self.opened.task.partition
        inputs = {TopicPartition("in", task): 10 * self.commits}
        marks[-1] = (*(marks[-1] or ()), CommitEntry(number, inputs, {part.tp.topic: 1}).header())
        offsets = range(self.end, self.end + len(values))
        self.end = offsets.stop
        part.take(
            PartitionBatch(*part.tp, offsets, [*columns.keys], values, [0] * len(values), marks)
        )
