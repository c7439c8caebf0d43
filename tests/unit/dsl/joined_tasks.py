"""A task that joins the topics of an application, its state on disk, and goes on after restarts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from streamlet.app import App
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.serdes import serde
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber, TaskId, TopicPartition

Record = tuple[str | None, str | None, int]


class JoinTask:
    """The one task of an application, whose keys and values are str."""

    def __init__(self, app: App, folder: Path | None, policy: ErrorPolicy | None = None) -> None:
        (self.part,) = app.topology().subtopologies
        self.folder, self.policy = folder, policy
        self.offsets = {topic: 0 for topic in self.part.input_topics}
        self.commits = 0
        self.open()

    def open(self) -> None:
        self.state = TaskState(self.folder, self.part.stores, 1)
        begin = {TopicPartition(topic, 0): at for topic, at in self.offsets.items()}
        self.task = Task(TaskId(0, 0), self.part, self.state, begin, policy=self.policy)

    def restart(self) -> None:
        self.state.close()
        self.open()

    def commit(self) -> None:
        self.task.settle()
        self.commits += 1
        self.state.write(self.state.drain(), StateNumber(1, self.commits), {})

    def outputs(
        self,
        topic: str,
        records: Sequence[Record],
        headers: Sequence[Headers | None] | None = None,
    ) -> list[Output]:
        """What a batch of a topic leads to."""
        keys = serde(str).encode_column([key for key, _, _ in records])
        values = serde(str).encode_column([value for _, value, _ in records])
        times = [time for _, _, time in records]
        offsets = range(self.offsets[topic], self.offsets[topic] + len(records))
        self.offsets[topic] += len(records)
        batch = PartitionBatch(topic, 0, offsets, keys, values, times, headers)
        found = self.task.process(batch)
        while self.task.under_way:
            found += self.task.resume(0)
        for store in self.state.stores.values():
            store.commits.check_invariants()
        return found
