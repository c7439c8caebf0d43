"""The task: raw batches of its input partitions in, encoded output columns out.

Sans-IO. It knows its subtopology and its stores, no client, no thread, no clock; the worker, the
TopologyTestDriver and Spark drive the same class.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.errors import ProcessingError, error_text
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.runtime.edges.task_edges import TaskEdges
from streamlet.runtime.node_steps import NodeSteps
from streamlet.runtime.outputs import Output
from streamlet.runtime.partition_group import KnownEnd, PartitionGroup
from streamlet.runtime.policy import ErrorPolicy, reason_headers
from streamlet.runtime.record_decoder import RecordDecoder
from streamlet.state.progress_store import ProgressStore
from streamlet.state.task_state import TaskState
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TaskId, TopicPartition
from streamlet.user_code import raised_at

#: How often operators may act by the clock.
TICK_MS = 100


@attrs.define
class TaskCounters:
    """The counts of a task since it was made."""

    records: int = 0
    dropped: int = 0  # by rule: null keys, negative times from an extractor
    late: int = 0  # out of closed windows; a record counts for each of its windows
    skipped: int = 0  # by error policy, dead letters included
    dead_lettered: int = 0


@attrs.frozen
class _UnderWay:
    """A batch that was begun: what is still to be done, and the position once it is."""

    step: Iterator[None]
    partition: TopicPartition
    position: int


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
        in_parts: whether ``process`` and ``resume`` return between two parts of a large output;
            ``resume`` goes on with it then, and no other batch begins before it has ended.
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
        in_parts: bool = False,
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
        self._outputs: list[Output] = []
        self._decoder = RecordDecoder(self._failed, self.dropped)
        #: Batches as read, for dead letters; only those that may still be needed.
        self._raws: list[PartitionBatch] = []
        self._received = dict(positions)
        self._inputs = PartitionGroup(dict(positions), idle_ms) if len(positions) > 1 else None
        #: What came while a batch of the one input was under way: batches, and offsets to skip to.
        self._later: deque[PartitionBatch | int] = deque()
        self._in_parts = in_parts
        self._under_way: _UnderWay | None = None
        #: Time of the present step, by the clock of the caller.
        self.now_ms = self._tick_ms = 0
        self._ticked = False
        self._nodes = NodeSteps(subtopology, self, self, partition_counts or {})
        self._timed = self._nodes.timed
        self._sources = {
            topic: (source, self._nodes.behind(source.name))
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

    def late(self, operator: str, count: int, records: Callable[[], Batch]) -> None:
        """Count records left out of closed windows, and send them where they are wanted."""
        self.counters.late += count
        self._nodes.send_aside(operator, records)

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
        self.now_ms = now_ms
        received = raw.offsets[-1] + 1
        self._received[TopicPartition(raw.topic, raw.partition)] = received
        if self._inputs is None:
            self._later.append(raw)
        else:
            self._inputs.add(self._decode(raw), received)
        return self.resume(now_ms, known_end)

    def resume(self, now_ms: int, known_end: KnownEnd | None = None) -> list[Output]:
        """Process what waited for another partition and need not any more, and go on in parts.

        Where no record is there, operators act that do so by the clock.
        """
        self.now_ms, self._ticked = now_ms, not self._timed
        while self._advance() and self._begin_next(now_ms, known_end or (lambda _: 0)):
            pass
        return self._take_outputs()

    def settle(self) -> list[Output]:
        """Finish the batch under way, and send what waits for a commit: one is about to be made.

        Positions and stores then belong together.
        """
        while not self._advance():
            pass
        for _ in self._nodes.release():
            pass
        return self._take_outputs()

    def advance_stream_time(self, time_ms: int) -> list[Output]:
        """Move stream time on without a record, and send what is due then; for tests."""
        self.stream_time = max(self.stream_time, time_ms)
        for store in self.state.stores.values():
            if isinstance(store, ProgressStore):
                store.advance(time_ms)
        self._begin_tick()
        return self.resume(self.now_ms)

    def skip_to(self, partition: TopicPartition, offset: int) -> None:
        """Go on at a later offset of an input partition, once what waits was processed."""
        before = self._received[partition]
        self._received[partition] = offset
        if self._inputs is not None:
            if self.edges is not None and offset != before:
                self.edges.skip(partition, offset)
            self._inputs.skip_to(partition, offset)
            self._drained(self._inputs)
        elif self._under_way is not None or self._later:
            self._later.append(offset)
        else:
            self._skip(partition, offset)

    @property
    def received(self) -> dict[TopicPartition, int]:
        """Offset behind the last record taken of each input partition, processed or waiting."""
        return dict(self._received)

    @property
    def under_way(self) -> bool:
        """True if a batch was begun and not yet ended: there is more to come of it."""
        return self._under_way is not None

    def waits(self, now_ms: int) -> bool:
        """True if ``resume`` may find something to do."""
        begun = self._under_way is not None or bool(self._later)
        return begun or self._inputs is not None or (self._timed and now_ms >= self._tick_ms)

    def buffered(self) -> dict[TopicPartition, int]:
        """Records kept back, per input partition."""
        if self._inputs is not None:
            return self._inputs.buffered()
        kept = sum(len(one) for one in self._later if isinstance(one, PartitionBatch))
        return dict.fromkeys(self.positions, kept)

    # Going on.

    def _advance(self) -> bool:
        """Go on with the batch under way; False if it stopped between two parts."""
        batch = self._under_way
        if batch is None:
            return True
        for _ in batch.step:
            if self._in_parts:
                return False
        self._under_way = None
        self.positions[batch.partition] = batch.position
        return True

    def _begin_next(self, now_ms: int, known_end: KnownEnd) -> bool:
        """Begin with the next batch; False if there is none that need not wait."""
        if self._inputs is None:
            return self._begin_later() or self._begin_timed(now_ms, known_end)
        return self._begin_ready(now_ms, known_end) or self._begin_timed(now_ms, known_end)

    def _begin_later(self) -> bool:
        if not self._later:
            return False
        raw = self._later.popleft()
        if isinstance(raw, int):
            self._skip(next(iter(self.positions)), raw)
        else:
            self._begin(self._decode(raw), raw.offsets[-1] + 1)
        return True

    def _begin_ready(self, now_ms: int, known_end: KnownEnd) -> bool:
        assert self._inputs is not None
        batch = next(self._inputs.ready(now_ms, known_end), None)
        if batch is None:
            self._drained(self._inputs)
            return False
        self._begin(batch, batch.offsets[-1] + 1)
        return True

    def _begin_timed(self, now_ms: int, known_end: KnownEnd) -> bool:
        """Let operators act by the clock, if all there is was processed."""
        if self._ticked:
            return False
        self._ticked, self._tick_ms = True, now_ms + TICK_MS
        ends = [(known_end(tp), offset) for tp, offset in self._received.items()]
        if any(self.buffered().values()) or any(end is None or end > at for end, at in ends):
            return False
        self._begin_tick()
        return True

    def _begin_tick(self) -> None:
        where = min(self.positions)
        position = self.positions[where]
        at = Batch(*where, [max(0, position - 1)], [None], [None], [self.stream_time])
        self._under_way = _UnderWay(self._nodes.tick(at), where, position)

    def _begin(self, batch: Batch, position: int) -> None:
        where = TopicPartition(batch.topic, batch.partition)
        _, forward = self._sources[batch.topic]
        self._under_way = _UnderWay(forward(batch), where, position)
        if len(batch):
            self.counters.records += len(batch)
            self.stream_time = max(self.stream_time, max(batch.timestamps))

    def _skip(self, partition: TopicPartition, offset: int) -> None:
        if self.edges is not None and offset != self.positions[partition]:
            self.edges.skip(partition, offset)
        self.positions[partition] = offset

    def _drained(self, inputs: PartitionGroup) -> None:
        self.positions |= inputs.drained()
        if self.edges is not None:
            self.edges.advance(self.positions)

    def _take_outputs(self) -> list[Output]:
        outputs, self._outputs = self._outputs, []
        if self._raws:
            # The last one stays: results that wait for a commit are ascribed to its last record.
            self._raws = [raw for raw in self._raws if raw.offsets[-1] >= self._position(raw) - 1]
        return outputs

    def _position(self, raw: PartitionBatch) -> int:
        return self.positions[TopicPartition(raw.topic, raw.partition)]

    def _decode(self, raw: PartitionBatch) -> Batch:
        if self.edges is not None:
            raw = self.edges.take(raw)
        if self._policy.topic is not None and len(raw):
            self._raws.append(raw)
        return self._decoder.batch(self._sources[raw.topic][0], raw)

    # What its nodes tell (node_steps.Results).

    def emit(self, output: Output) -> None:
        """Queue an output, joined with the one before where that changes no order."""
        if self._outputs and self._outputs[-1].same_shape(output):
            self._outputs[-1].extend(output)
        else:
            self._outputs.append(output)

    def record_failed(
        self, batch: Batch, index: int, operator: str, cause: BaseException | None
    ) -> None:
        """Apply the error policy to a record that an operator failed on."""
        where = TopicPartition(batch.topic, batch.partition)
        self._failed("a record failed", where, batch.offsets[index], operator, cause)

    # Failing.

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
            self.emit(Output(self._policy.topic, [key], [value], [time], None, [letter], [origin]))

    def _as_read(
        self, where: TopicPartition, offset: int
    ) -> tuple[bytes | None, bytes | None, int, Headers | None]:
        """The record as it came from the topic, for its dead letter.

        That of a result by the clock may not be there any more: it has no key and value then.
        """
        for raw in self._raws:
            if (raw.topic, raw.partition) == where and offset in raw.offsets:
                i = raw.offsets.index(offset)
                headers = None if raw.headers is None else raw.headers[i]
                return raw.keys[i], raw.values[i], raw.timestamps[i], headers
        return None, None, max(0, self.stream_time), None
