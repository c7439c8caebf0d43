"""The task: raw batches of its input partitions in, encoded output columns out.

Sans-IO. It knows its subtopology and its stores, no client, no thread, no clock; the worker, the
TopologyTestDriver and Spark drive the same class. Nodes are compiled once into functions that hand
batches to their children, depth first and in order of creation, so that within one key things
happen in the order in which Kafka Streams would let them happen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.errors import ProcessingError, error_text
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.runtime.edges.task_edges import TaskEdges
from streamlet.runtime.encoding import encoded
from streamlet.runtime.outputs import Output
from streamlet.runtime.partition_group import KnownEnd, PartitionGroup
from streamlet.runtime.policy import ErrorPolicy, reason_headers
from streamlet.runtime.timestamps import Timestamps
from streamlet.serdes import ColumnError
from streamlet.state.task_state import TaskState
from streamlet.topology.nodes import ProcessorNode, SinkNode, SourceNode
from streamlet.topology.operator import Operator
from streamlet.topology.order import forks_to_cut
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TaskId, TopicPartition
from streamlet.user_code import raised_at

Step: TypeAlias = Callable[[Batch], None]


@attrs.define
class TaskCounters:
    """The counts of a task since it was made."""

    records: int = 0
    dropped: int = 0  # by rule: null keys, negative times from an extractor
    late: int = 0  # out of closed windows; a record counts for each of its windows
    skipped: int = 0  # by error policy, dead letters included
    dead_lettered: int = 0


class Task:
    """One partition of one subtopology.

    Args:
        task: which.
        subtopology: what it does.
        state: its stores, open and restored.
        positions: its input partitions with the offset each starts from.
        policy: what becomes of records that fail.
        partition_counts: of topics written with a partitioner of the user's.
        idle_ms: ``max.task.idle.ms``.
        edges: filters its inputs from exact repartition topics; None: they are plain.
    """

    def __init__(
        self,
        task: TaskId,
        subtopology: Subtopology,
        state: TaskState,
        positions: Mapping[TopicPartition, int],
        *,
        policy: ErrorPolicy | None = None,
        partition_counts: Mapping[str, int] | None = None,
        idle_ms: int = 0,
        edges: TaskEdges | None = None,
    ) -> None:
        self.task = task
        self.application = subtopology.application
        self.subtopology = subtopology
        self.state = state
        self.counters = TaskCounters()
        #: Highest timestamp met, ms since the epoch; -1 before the first record.
        self.stream_time = -1
        #: Offset behind the last processed record of each input partition: what a commit writes.
        self.positions = dict(positions)
        self.edges = edges
        self._policy = policy or ErrorPolicy()
        self._partition_counts = dict(partition_counts or {})
        self._outputs: list[Output] = []
        self._timestamps = Timestamps(self._failed, self.dropped)
        #: Batches as read, for dead letters; only those that may still be needed.
        self._raws: list[PartitionBatch] = []
        self._inputs = PartitionGroup(dict(positions), idle_ms) if len(positions) > 1 else None
        self._cut = forks_to_cut(subtopology)
        self._compiled: dict[str, Step] = {}
        self._sources = {
            topic: (source, self._forward(source.name))
            for source in subtopology.sources
            for topic in source.topics
        }

    # What operators may ask (topology.operator.TaskContext).

    def store(self, name: str) -> Any:
        """The task's own store of that name."""
        return self.state.stores[name]

    def dropped(self, operator: str, count: int) -> None:
        """Count records left out by rule."""
        self.counters.dropped += count

    def late(self, operator: str, count: int) -> None:
        """Count records left out of closed windows."""
        self.counters.late += count

    # What the driver asks.

    def process(
        self, raw: PartitionBatch, now_ms: int = 0, known_end: KnownEnd | None = None
    ) -> list[Output]:
        """Process a raw batch; outputs of what could be processed by now.

        A task with several input partitions may keep records back until it knows which is next;
        ``known_end`` tells where a partition ends, None means: nothing more is coming, do not wait.

        Raises:
            ProcessingError: a record failed under the policy ``fail``. The task must then be
                dropped without a commit: its stores may already hold later records.
        """
        received = raw.offsets[-1] + 1
        if self.edges is not None:
            raw = self.edges.take(raw)
        if self._inputs is None:
            source, forward = self._sources[raw.topic]
            self._run(forward, self._decode(source, raw))
            self.positions[TopicPartition(raw.topic, raw.partition)] = received
            return self._take_outputs()
        source, _ = self._sources[raw.topic]
        self._inputs.add(self._decode(source, raw), received)
        return self.resume(now_ms, known_end)

    def resume(self, now_ms: int, known_end: KnownEnd | None = None) -> list[Output]:
        """Process what waited for another partition and need not any more."""
        if self._inputs is None:
            return []
        for batch in self._inputs.ready(now_ms, known_end or (lambda _: 0)):
            _, forward = self._sources[batch.topic]
            self._run(forward, batch)
            self.positions[TopicPartition(batch.topic, batch.partition)] = batch.offsets[-1] + 1
        self._drained(self._inputs)
        return self._take_outputs()

    def _drained(self, inputs: PartitionGroup) -> None:
        self.positions |= inputs.drained()
        if self.edges is not None:
            self.edges.advance(self.positions)

    def skip_to(self, partition: TopicPartition, offset: int) -> None:
        """Go on at a later offset of an input partition, once what waits was processed."""
        if self.edges is not None and offset != self.received[partition]:
            self.edges.skip(partition, offset)
        if self._inputs is None:
            self.positions[partition] = offset
        else:
            self._inputs.skip_to(partition, offset)
            self._drained(self._inputs)

    @property
    def received(self) -> dict[TopicPartition, int]:
        """Offset behind the last record taken of each input partition, processed or waiting."""
        return self.positions if self._inputs is None else self._inputs.received()

    def buffered(self) -> dict[TopicPartition, int]:
        """Records kept back, per input partition; empty for a task with one."""
        return {} if self._inputs is None else self._inputs.buffered()

    def _run(self, forward: Step, batch: Batch) -> None:
        if not len(batch):
            return
        self.counters.records += len(batch)
        self.stream_time = max(self.stream_time, max(batch.timestamps))
        forward(batch)

    def _take_outputs(self) -> list[Output]:
        outputs, self._outputs = self._outputs, []
        if self._raws:
            self._raws = [raw for raw in self._raws if raw.offsets[-1] >= self._position(raw)]
        return outputs

    def _position(self, raw: PartitionBatch) -> int:
        return self.positions[TopicPartition(raw.topic, raw.partition)]

    # Decoding.

    def _decode(self, source: SourceNode, raw: PartitionBatch) -> Batch:
        if self._policy.topic is not None and len(raw):
            self._raws.append(raw)
        try:
            keys = source.key.decode_column(raw.keys)
            values = source.value.decode_column(raw.values)
        except ColumnError:
            return self._decode_one_by_one(source, raw)
        return self._timestamps.timed(
            source,
            Batch(raw.topic, raw.partition, raw.offsets, keys, values, raw.timestamps, raw.headers),
        )

    def _decode_one_by_one(self, source: SourceNode, raw: PartitionBatch) -> Batch:
        """The slow way through a batch with a record that cannot be decoded."""
        good: list[int] = []
        keys: list[Any] = []
        values: list[Any] = []
        for i, (key, value) in enumerate(zip(raw.keys, raw.values, strict=True)):
            try:
                keys += source.key.decode_column([key])
                values += source.value.decode_column([value])
                good.append(i)
            except ColumnError as failed:
                del keys[len(values) :]
                where = TopicPartition(raw.topic, raw.partition)
                self._failed("undecodable record", where, raw.offsets[i], source.name, failed.cause)
        return self._timestamps.timed(
            source,
            Batch(
                raw.topic,
                raw.partition,
                [raw.offsets[i] for i in good],
                keys,
                values,
                [raw.timestamps[i] for i in good],
                None if raw.headers is None else [raw.headers[i] for i in good],
            ),
        )

    # Compiling.

    def _forward(self, name: str) -> Step:
        """The step behind a node: its children, in order of creation."""
        steps = [self._step(child) for child in self.subtopology.children(name)]
        if not steps:
            return _nothing
        if name in self._cut:
            return _record_by_record(steps)
        if len(steps) == 1:
            return steps[0]

        def forward(batch: Batch) -> None:
            for step in steps:
                step(batch)

        return forward

    def _step(self, name: str) -> Step:
        step = self._compiled.get(name)
        if step is None:
            node = self.subtopology.node(name)
            assert not isinstance(node, SourceNode), name
            step = self._sink(node) if isinstance(node, SinkNode) else self._processor(node)
            self._compiled[name] = step
        return step

    def _processor(self, node: ProcessorNode) -> Step:
        operator: Operator = node.factory(self)
        process = operator.process
        forward = self._forward(node.name)

        def step(batch: Batch) -> None:
            while len(batch):
                try:
                    out = process(batch)
                except OperatorFailed as failed:
                    if len(failed.done):
                        forward(failed.done)
                    self._record_failed(batch, failed.index, node.name, failed.__cause__)
                    batch = batch.slice(failed.index + 1, len(batch))
                    continue
                if len(out):
                    forward(out)
                return

        return step

    def _sink(self, node: SinkNode) -> Step:
        if not node.by_record:
            return self._sink_to(node)
        steps: dict[str, Step] = {}

        def step(batch: Batch) -> None:
            chosen = batch.olds
            assert chosen is not None
            for topic in dict.fromkeys(chosen):
                if topic not in steps:
                    steps[topic] = self._sink_to(attrs.evolve(node, topic=topic), by_record=True)
                steps[topic](batch.select([one == topic for one in chosen]))

        return step

    def _sink_to(self, node: SinkNode, by_record: bool = False) -> Step:
        count = self._partition_counts.get(node.topic, 0)

        def step(batch: Batch) -> None:
            while len(batch):
                try:
                    self._emit(encoded(node, batch, count, by_record))
                    return
                except OperatorFailed as failed:
                    if failed.index:
                        self._emit(encoded(node, failed.done, count, by_record))
                    self._record_failed(batch, failed.index, node.name, failed.__cause__)
                    batch = batch.slice(failed.index + 1, len(batch))

        return step

    def _emit(self, output: Output) -> None:
        """Queue an output, joined with the one before where that changes no order."""
        if self._outputs and self._outputs[-1].same_shape(output):
            self._outputs[-1].extend(output)
        else:
            self._outputs.append(output)

    # Failing.

    def _record_failed(
        self, batch: Batch, index: int, operator: str, cause: BaseException | None
    ) -> None:
        where = TopicPartition(batch.topic, batch.partition)
        self._failed("a record failed", where, batch.offsets[index], operator, cause)

    def _failed(
        self,
        reason: str,
        where: TopicPartition,
        offset: int,
        operator: str,
        cause: BaseException | None,
    ) -> None:
        """Apply the error policy to one record.

        Raises:
            ProcessingError: under ``fail``.
        """
        if self._policy.action == "skip":
            self.counters.skipped += 1
            return
        raised = error_text(cause) if cause is not None and raised_at(cause) is not None else None
        detail = reason if raised is not None else f"{reason} ({type(cause).__name__}: {cause})"
        error = ProcessingError(detail, where.topic, where.partition, offset, operator, raised)
        error.__cause__ = cause
        if self._policy.action == "fail":
            raise error
        self.counters.skipped += 1
        if self._policy.topic is not None:
            self.counters.dead_lettered += 1
            key, value, time, headers = self._as_read(where, offset)
            letter = reason_headers(error, self.application, headers)
            origin = (1, where, [offset])
            self._emit(Output(self._policy.topic, [key], [value], [time], None, [letter], [origin]))

    def _as_read(
        self, where: TopicPartition, offset: int
    ) -> tuple[bytes | None, bytes | None, int, Headers | None]:
        """The record as it came from the topic, for its dead letter."""
        for raw in self._raws:
            if (raw.topic, raw.partition) == where and offset in raw.offsets:
                i = raw.offsets.index(offset)
                headers = None if raw.headers is None else raw.headers[i]
                return raw.keys[i], raw.values[i], raw.timestamps[i], headers
        raise AssertionError(f"no raw record for {where} offset {offset}")


def _nothing(batch: Batch) -> None:
    """The end of a branch."""


def _record_by_record(steps: Sequence[Step]) -> Step:
    """Send records one by one, where two branches meet again and records must keep their order."""

    def forward(batch: Batch) -> None:
        for i in range(len(batch)):
            one = batch.slice(i, i + 1)
            for step in steps:
                step(one)

    return forward
