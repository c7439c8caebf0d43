"""The tasks in front of Spark's aggregation, and the partial aggregates of a range.

The tasks are those of a native run with an operator in the aggregation's place that adds records up
and lets nothing through. What they write to a repartition topic is processed at once, or not even
written: which task of it a key belongs to does not matter, for Spark brings the keys together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.operators.columns import collect
from streamlet.dsl.operators.nulls import Skip, SkipNulls
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.processing.task import Task
from streamlet.serdes import ColumnError
from streamlet.spark.error_notes import reported_rows
from streamlet.spark.plan.folds import Fold, Slot, folds
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.plan.reference import Application, resolve
from streamlet.spark.plan.shortcuts import shortcuts
from streamlet.spark.rows.partial import Partial
from streamlet.state.task_state import TaskState
from streamlet.topology.nodes import ProcessorNode, SinkNode
from streamlet.topology.operator import Operator, TaskContext
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

#: Keys that are held back at most, to be added up before they travel.
_KEYS_HELD = 50_000

#: The one partition of records that went through a repartition topic.
_INSIDE = 0

Take = Callable[[int, list[Any], list[int], list[list[Any]]], None]


@attrs.frozen
class FoldRows:
    """The map in front of Spark's aggregation: rows of a source in, partial aggregates out.

    Raises:
        ProcessingError: when called, a record failed under the policy ``fail``.
        StateError: when called, a topic has more partitions than it had, or a value is not what it
            was declared to be.
    """

    plan: SparkPlan

    @reported_rows
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Aggregate the rows of one Spark partition."""
        from streamlet.spark.rows.columns import partitions_of, raw_batch

        folder = Folder(self.plan)
        for rows in batches:
            for where, some in partitions_of(rows):
                folder.take(raw_batch(where, some))
            yield from folder.rows(at_end=False)
        yield from folder.rows(at_end=True)


class Folder:
    """Adds up the records of one Spark partition.

    Args:
        plan: of the query.
    """

    def __init__(self, plan: SparkPlan) -> None:
        self._plan = plan
        self._app = resolve(plan.reference)
        self.folds = folds_of(self._app)
        self._shortcuts = shortcuts(self._app.topology(), self.folds)
        self._partials: dict[tuple[int, int], Partial] = {}
        self._parts = {
            part.id: self._cut(part, {fold.node.name: i for i, fold in enumerate(self.folds)})
            for part in self._app.topology().subtopologies
        }
        self._tasks: dict[TopicPartition, Task] = {}
        self._inside: dict[str, int] = {}

    def take(self, raw: PartitionBatch) -> None:
        """Add records of one partition of a source.

        Raises:
            ProcessingError: a record failed under the policy ``fail``.
            StateError: as ``FoldRows``.
        """
        self._plan.check(TopicPartition(raw.topic, raw.partition))
        waiting = deque([raw])
        while waiting:
            batch = waiting.popleft()
            waiting += map(self._moved, self._task(batch).process(batch))

    def rows(self, *, at_end: bool) -> Iterator[pa.RecordBatch]:
        """Partial aggregates, when there are enough of them or this is the end."""
        from streamlet.spark.rows.aggregate_rows import partial_rows

        if not at_end and sum(map(len, self._partials.values())) < _KEYS_HELD:
            return
        for (number, partition), partial in self._partials.items():
            if len(partial):
                yield partial_rows(self.folds, number, partition, partial)
        self._partials.clear()

    def _task(self, batch: PartitionBatch) -> Task:
        where = TopicPartition(batch.topic, batch.partition)
        task = self._tasks.get(where)
        if task is None:
            part = self._parts[self._plan.readers[where.topic]]
            task = self._tasks[where] = Task(
                TaskId(part.id, where.partition),
                part,
                TaskState(None, (), 0),
                {where: batch.offsets[0]},  # its only input: nothing waits for another partition
                policy=self._app.policy,
            )
        return task

    def _moved(self, output: Output) -> PartitionBatch:
        """The records of a repartition topic, as its reader takes them."""
        first = self._inside.get(output.topic, 0)
        self._inside[output.topic] = first + len(output.keys)
        offsets = range(first, first + len(output.keys))
        columns = output.keys, output.values, output.timestamps
        return PartitionBatch(output.topic, _INSIDE, offsets, *columns)

    def _cut(self, subtopology: Subtopology, numbers: Mapping[str, int]) -> Subtopology:
        """The part up to its aggregations, or up to the topic that is the way to one."""
        kept = (node.name for node in subtopology.processors if node.name not in numbers)
        return attrs.evolve(
            subtopology,
            processors=(
                *(
                    self._collecting(numbers[node.name], node) if node.name in numbers else node
                    for node in subtopology.processors
                ),
                *(
                    self._collecting(self._shortcuts[sink.topic], sink)
                    for sink in subtopology.sinks
                    if sink.topic in self._shortcuts
                ),
            ),
            sinks=tuple(sink for sink in subtopology.sinks if sink.topic not in self._shortcuts),
            stores=(),
            children={
                name: below
                for name in [*(one.name for one in subtopology.sources), *kept]
                if (below := subtopology.children(name))
            },
        )

    def _collecting(self, number: int, node: ProcessorNode | SinkNode) -> ProcessorNode:
        """A node in place of an aggregation, or of the sink before it, that collects its input."""
        fold, inside = self.folds[number], isinstance(node, SinkNode)

        def take(
            partition: int, keys: list[Any], times: list[int], columns: list[list[Any]]
        ) -> None:
            place = number, _INSIDE if inside else partition
            partial = self._partials.get(place)
            if partial is None:
                partial = self._partials[place] = Partial(fold)
            partial.add(keys, times, columns)

        def factory(context: TaskContext) -> Operator:
            return SkipNulls(Skip(node.name, context, values=True), _Collect(fold, take))

        return ProcessorNode(node.name, node.parents, factory)


@attrs.frozen
class _Collect:
    """Stands in an aggregation's place: what it would add is taken, and nothing goes on."""

    fold: Fold
    take: Take

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` where the aggregation would."""
        count = len(batch)
        error: BaseException | None = None
        try:
            keys = self.fold.key.encode_column(batch.keys)
        except ColumnError as failed:
            count, error = failed.index, failed.cause
            keys = self.fold.key.encode_column(batch.keys[:count])
        columns = []
        for slot in self.fold:
            values, failure = _values(slot, batch, count)
            if failure is not None:
                count, error = len(values), failure
            columns.append(values)
        self.take(
            batch.partition,
            keys[:count],
            batch.timestamps[:count],
            [values[:count] for values in columns],
        )
        if error is not None:
            raise OperatorFailed(count, batch.slice(0, 0)) from error
        return batch.slice(0, 0)


def _values(slot: Slot, batch: Batch, count: int) -> tuple[list[Any], BaseException | None]:
    if slot.of is None:
        return [], None
    return collect(map(slot.of, batch.keys[:count], batch.values[:count]), count)


def folds_of(app: Application) -> tuple[Fold, ...]:
    """The aggregations of an application that Spark SQL does.

    Raises:
        Unfit: it does none.
    """
    return folds(app.topology(), app.policy)
