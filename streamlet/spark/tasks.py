"""Stateless tasks inside ``mapInArrow``: no shuffle, no state, only the task.

Spark hands an operator the rows of one of its partitions; a task is made for each topic and
partition among them, and forgotten at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from streamlet.kafka.ports import PartitionBatch
from streamlet.runtime.task import Output, Task
from streamlet.spark.reference import Application, check_importable, resolve
from streamlet.state.task_state import TaskState
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


@attrs.frozen
class Stateless:
    """A subtopology without stores as a function for ``mapInArrow``.

    Rows in have the columns of ``columns.source_columns``, rows out those of
    ``columns.OUTPUT_SCHEMA``. What travels to the workers are the names and numbers below.

    Args:
        reference: ``module:attribute`` of the application.
        subtopology: number of the subtopology.
        counts: partitions of the topics that a partitioner of the user's writes.

    Raises:
        AppNotFoundError: the reference leads into ``__main__``.
        ProcessingError: when called, a record failed under the policy ``fail``.
    """

    reference: str = attrs.field()
    subtopology: int
    counts: dict[str, int] = attrs.field(factory=dict)

    @reference.validator
    def _check(self, _: object, reference: str) -> None:
        check_importable(reference)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the rows of one Spark partition."""
        from streamlet.spark.columns import output_rows, raw_batches

        app = resolve(self.reference)
        tasks = StatelessTasks(app, app.topology().subtopology(self.subtopology), self.counts)
        for rows in batches:
            for raw in raw_batches(rows):
                for output in tasks.process(raw):
                    yield output_rows(output)


class StatelessTasks:
    """The tasks of one stateless subtopology that one call meets, one per partition."""

    def __init__(self, app: Application, part: Subtopology, counts: dict[str, int]) -> None:
        assert not part.stateful, f"subtopology {part.id} has stores"
        self._app, self._part, self._counts = app, part, counts
        self._tasks: dict[TopicPartition, Task] = {}

    def process(self, raw: PartitionBatch) -> list[Output]:
        """Let the batch's task process it."""
        where = TopicPartition(raw.topic, raw.partition)
        task = self._tasks.get(where)
        if task is None:
            task = self._tasks[where] = self._task(where, raw.offsets[0])
        return task.process(raw)

    def _task(self, where: TopicPartition, first: int) -> Task:
        return Task(
            TaskId(self._part.id, where.partition),
            self._part,
            TaskState.open(None, (), 0),
            {where: first},  # its only input: nothing waits for another partition
            policy=self._app.policy,
            partition_counts=self._counts,
        )
