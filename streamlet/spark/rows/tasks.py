"""The functions of ``mapInArrow``: stateless tasks, packing before stages, unpacking behind.

Spark hands an operator the rows of one of its partitions. A stateless task is made for each topic
and partition among them, and forgotten at the end. What travels to the workers is a ``SparkPlan``:
names and numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from streamlet.clock import SystemClock
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.processing.task import Task
from streamlet.spark.error_notes import reported_rows
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.plan.reference import query_topology, resolve
from streamlet.spark.rows.columns import (
    output_rows,
    packed_rows,
    partitions_of,
    raw_batch,
    unpacked_rows,
)
from streamlet.spark.rows.packing import Packed, Sender, pack_raw
from streamlet.spark.rows.refused_times import RefusedTimes
from streamlet.spark.rows.task_reports import TaskReport
from streamlet.state.task_state import TaskState
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


@attrs.frozen
class MapTasks:
    """Stateless subtopologies that nothing follows: rows of a source in, rows of outputs out.

    Rows in have the columns of ``columns.source_columns``, rows out these of ``schemas.OUTPUT``.

    Raises:
        ProcessingError: when called, a record failed under the policy ``fail``.
    """

    plan: SparkPlan
    columns: tuple[str, ...]

    @reported_rows
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the rows of one Spark partition."""
        tasks = _StatelessTasks(self.plan)
        for rows in batches:
            for where, some in partitions_of(rows):
                for output in tasks.process(raw_batch(where, some)):
                    yield output_rows(output, self.columns)


@attrs.frozen
class Pack:
    """The map in front of the stages: what stateless tasks write, and all other records as read.

    Rows in as for ``MapTasks``, rows out are of ``schemas.PACKED``.

    Raises:
        ProcessingError: when called, a record failed under the policy ``fail``.
        StateError: when called, a topic has more partitions than it had.
    """

    plan: SparkPlan

    @reported_rows
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of one Spark partition."""
        packer = Packer(self.plan)
        yield from packer.packed(batches, packer.as_read)


class Packer:
    """Packs records of one Spark partition, or what stateless tasks make of them.

    Args:
        plan: of the query.
    """

    def __init__(self, plan: SparkPlan) -> None:
        self._plan = plan
        self._tasks = _StatelessTasks(plan)
        self._written: Counter[str] = Counter()

    def packed(
        self,
        batches: Iterator[pa.RecordBatch],
        as_read: Callable[[TopicPartition, pa.RecordBatch], Iterator[Packed]],
    ) -> Iterator[pa.RecordBatch]:
        """Rows packed, batch by batch; ``as_read`` packs those that no stateless task reads.

        Raises:
            ProcessingError: a record failed under the policy ``fail``.
            StateError: a topic has more partitions than it had.
        """
        for rows in batches:
            packed: list[Packed] = []
            for where, some in partitions_of(rows):
                if self.maps(where.topic):
                    packed.extend(self.mapped(raw_batch(where, some)))
                else:
                    packed.extend(as_read(where, some))
            if packed:
                yield packed_rows(packed)
        if reports := self.reports():
            yield packed_rows(reports)

    def maps(self, topic: str) -> bool:
        """True if a stateless task reads the topic; what it writes is packed then."""
        return self._plan.readers[topic] in self._plan.mapped

    def mapped(self, raw: PartitionBatch) -> Iterator[Packed]:
        """The output of its stateless task.

        Raises:
            ProcessingError: a record failed under the policy ``fail``.
            StateError: the topic has more partitions than it had.
        """
        where = TopicPartition(raw.topic, raw.partition)
        self._plan.check(where)
        name = str(TaskId(self._plan.readers[where.topic], where.partition))
        sender = Sender(self._plan, 0, name)
        yield from sender.rows(self._tasks.process(raw), raw.offsets[0])
        self._written[name] += sender.records

    def reports(self) -> list[Packed]:
        """A row for each stateless task that had records: what it did, see ``TaskReport``."""
        return [
            TaskReport.of(
                task.task, task.counters, self._written[str(task.task)], took_ns, None
            ).row()
            for task, took_ns in self._tasks.each()
        ]

    def as_read(self, where: TopicPartition, rows: pa.RecordBatch) -> Iterator[Packed]:
        """The records themselves, for the task of their partition.

        Raises:
            StateError: the topic has more partitions than it had.
        """
        self._plan.check(where)
        return pack_raw(self._plan, where, rows)


@attrs.frozen
class Unpack:
    """The map behind the stages: rows of ``schemas.PACKED`` in, rows of outputs out."""

    columns: tuple[str, ...]

    @reported_rows
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the rows of one Spark partition."""
        for rows in batches:
            topics, records = rows["topic"].to_pylist(), rows["records"].to_pylist()
            for topic, packed in zip(topics, records, strict=True):
                yield unpacked_rows(topic, packed, self.columns)


class _StatelessTasks:
    """The stateless tasks that one call meets, one per partition of a topic."""

    def __init__(self, plan: SparkPlan) -> None:
        self._plan = plan
        app = resolve(plan.reference)
        self._topology, self._policy = query_topology(app), app.policy
        self._tasks: dict[TopicPartition, Task] = {}
        self._refused = RefusedTimes(plan.written, plan.inside, app.policy)
        self._clock = SystemClock()
        self._took_ns: Counter[TopicPartition] = Counter()

    def each(self) -> Iterator[tuple[Task, int]]:
        """Each task, and how many nanoseconds it took."""
        for where, task in self._tasks.items():
            yield task, self._took_ns[where]

    def process(self, raw: PartitionBatch) -> Sequence[Output]:
        """Let the batch's task process it."""
        where = TopicPartition(raw.topic, raw.partition)
        task = self._tasks.get(where)
        if task is None:
            task = self._tasks[where] = self._task(where, raw.offsets[0])
        began = self._clock.now_ns()
        outputs = self._refused.without(task.process(raw), task)
        self._took_ns[where] += self._clock.now_ns() - began
        return outputs

    def _task(self, where: TopicPartition, first: int) -> Task:
        part = self._topology.subtopology(self._plan.readers[where.topic])
        return Task(
            TaskId(part.id, where.partition),
            part,
            TaskState(None, (), 0),
            {where: first},  # its only input: nothing waits for another partition
            policy=self._policy,
            partition_counts=self._plan.out_counts,
            wall_ms=SystemClock().wall_ms,
            has_headers=False,
        )
