"""The task: raw batches of its input partitions in, encoded output columns out.

Sans-IO. It knows its subtopology and its stores, no client, no thread, no clock; the worker, the
TopologyTestDriver and Spark drive the same class.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from streamlet.batch import Batch
from streamlet.clock import pause
from streamlet.columnwise import highest_time
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.edges.plan import TaskEdges
from streamlet.processing.merged_batch import MergedBatch
from streamlet.processing.node_meters import NodeMeters
from streamlet.processing.node_steps import NodeSteps, UnderWay
from streamlet.processing.output_order import OutputQueue
from streamlet.processing.outputs import Output
from streamlet.processing.partition_group import KnownEnd, PartitionGroup, group_of
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.record_decoder import RecordDecoder, Undecoded
from streamlet.processing.record_failures import RecordCounters, RecordFailures, RetryPause
from streamlet.processing.row_notes import RowNotes
from streamlet.processing.stream_times import StreamTimes
from streamlet.processing.task_calls import TaskCalls
from streamlet.state.store_commits import TimedStore
from streamlet.state.task_state import TaskState
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TaskId, TopicPartition

#: How often operators may act by the clock.
TICK_MS = 100


class Task:
    """One partition of one subtopology.

    Args:
        task: which.
        subtopology: what it does.
        state: its stores, open and restored.
        positions: its input partitions with the offset each starts from.
        policy: what becomes of records that fail.
        partition_counts: of topics that are written.
        idle_ms: ``max.task.idle.ms``.
        edges: filters its inputs from exact repartition topics; None: they are plain.
        in_parts: whether a step may end between two parts of a large output; the next one goes on.
        wall_ms: the time of day, ms since the epoch; None: the ``now_ms`` of the present step.
        now_ns: measures how long nodes take; None: that is not measured.
        global_stores: those of global tables, by name, which all tasks of a process share.
        has_headers: whether headers of records are read and written.
        pause: blocks for some ms, where a retry cannot be left for a later ``resume``.
        epoch: of the present active period; 0 where there are none.
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
        wall_ms: Callable[[], int] | None = None,
        now_ns: Callable[[], int] | None = None,
        global_stores: Mapping[str, Any] | None = None,
        has_headers: bool = True,
        pause: Callable[[int], None] = pause,
        epoch: int = 0,
    ) -> None:
        self.task, self.application = task, subtopology.application
        self.epoch, self.has_headers = epoch, has_headers
        self.state: TaskState = state
        self.subtopology = subtopology = RowNotes(state).hooked(subtopology)
        self._global_stores, self._in_parts = global_stores or {}, in_parts
        self.counters: RecordCounters = RecordCounters()
        #: Highest timestamp met, ms since the epoch; -1 before the first record.
        self.stream_time = -1
        #: Offset behind the last processed record of each input partition: what a commit writes.
        self.positions, self._received = dict(positions), dict(positions)
        self.edges: TaskEdges | None = edges
        self._outputs, self._stream_times = OutputQueue(), StreamTimes()
        #: Before a record is processed again, and before one is decoded again.
        self._pause, self._undecoded = RetryPause(in_parts, pause), RetryPause(in_parts, pause)
        self.failures: RecordFailures = RecordFailures(
            *(policy or ErrorPolicy(), self.application, task, self.counters, self._outputs.emit),
            lambda: self.stream_time,
            self._pause,
        )
        self._inputs = group_of(positions, idle_ms, subtopology, self.store)
        #: What came and was not begun, nor put into the group: batches, and offsets to skip to.
        self._later: deque[PartitionBatch | Undecoded | tuple[TopicPartition, int, bool]] = deque()
        self._under_way: UnderWay | None = None
        #: Time of the present step, by the caller's clock; and the time of day since the epoch.
        self.now_ms = self._tick_ms = 0
        self.wall_ms = wall_ms or (lambda: self.now_ms)
        #: ``commit_requested``: an operator wants a commit before the next one is due.
        self._ticked = self.commit_requested = False
        nodes = self._nodes = NodeSteps(subtopology, self, self.failures, partition_counts or {})
        known = nodes.unread.serdes, subtopology.own_topics
        self._decoder = RecordDecoder(self.failures, self.dropped, *known)
        #: ``calls`` are of operators at which records wait; None: there are none.
        self.calls: TaskCalls | None = nodes.calls
        self._timed, self._punctuated = nodes.timed, nodes.punctuated
        self.meters: NodeMeters = nodes.meters
        self._sources = {
            topic: (source := subtopology.source_of(topic), nodes.behind(source.name))
            for topic in {tp.topic for tp in positions}
        }
        nodes.begin(now_ns)

    # What operators may ask (topology.operator.TaskContext).

    def store(self, name: str) -> Any:
        """The task's own store of that name, or that of a global table."""
        found = self._global_stores.get(name)
        return self.state.stores[name] if found is None else found

    def dropped(self, operator: str, count: int) -> None:
        """Count records left out by rule."""
        self.counters.dropped += count

    def late(self, operator: str, count: int, records: Callable[[], Batch]) -> None:
        """Count records left out of closed windows, and send them where they are wanted."""
        self.counters.late += count
        self._nodes.send_aside(operator, records)

    def failed(self, operator: str, at: Batch, error: BaseException) -> None:
        """Apply the error policy to what an operator did without a record of its own."""
        self.failures.without_record(operator, at, error)

    def request_commit(self) -> None:
        """Ask for a commit before the next one is due."""
        self.commit_requested = True

    def stream_time_at(self, offset: int) -> int:
        """The stream time once the record at an offset of this batch was taken, ms."""
        return self._stream_times.at(offset)

    def stream_time_reached(self, time_ms: int, offset: int) -> tuple[int, int] | None:
        """The first record of this batch, from ``offset`` on, with which stream time is so high."""
        return self._stream_times.reached(time_ms, offset)

    def process(
        self, raw: PartitionBatch, now_ms: int = 0, known_end: KnownEnd | None = None
    ) -> list[Output]:
        """Process a raw batch; outputs of what could be processed by now.

        A task with several input partitions may keep records back until it knows which is next.
        ``known_end`` tells where a partition ends; None: do not wait, nothing more is coming.

        Raises:
            ProcessingError: a record failed under the policy ``fail``. The task must then be
                dropped without a commit: its stores may already hold later records.
        """
        self._received[TopicPartition(raw.topic, raw.partition)] = raw.offsets[-1] + 1
        self._later.append(raw)
        return self.resume(now_ms, known_end)

    def resume(self, now_ms: int, known_end: KnownEnd | None = None) -> list[Output]:
        """Process what waited for another partition and need not any more, and go on in parts.

        Where no record is there, operators act that do so by the clock.
        """
        self.now_ms = self._pause.now_ms = self._undecoded.now_ms = now_ms
        self._ticked = not self._timed
        known_end = known_end or (lambda _: 0)
        if self.edges is not None:
            known_end = self.edges.at(now_ms, known_end)
            self._later.extend(self.edges.more())
        while not self._pause.lasts and self._advance() and not self._undecoded.lasts:
            if not self._begin_next(now_ms, known_end):
                break
        return self._take_outputs()

    def settle(self, *, release: bool = True) -> list[Output]:
        """Finish the batch under way and its calls; ``release`` what waits for a commit to come.

        Positions and stores then belong together. Pauses before retries are waited for.
        """
        self._pause.sit_out()
        while not self._advance():
            self._pause.sit_out()
        for _ in self._nodes.release() if release else self._nodes.end_calls():
            self._pause.sit_out()
        self.commit_requested = False
        return self._take_outputs()

    def close(self) -> None:
        """Close processors and other user code of the operators; what these send is lost."""
        self._nodes.end()

    def advance_stream_time(self, time_ms: int) -> list[Output]:
        """Move stream time on without a record, and send what is due then; for tests."""
        self.stream_time = max(self.stream_time, time_ms)
        for store in self.state.stores.values():
            if isinstance(store, TimedStore):
                store.advance(time_ms)
        self._begin_without_record(self._moved_on)
        return self.resume(self.now_ms)

    def _moved_on(self, at: Batch) -> Iterator[None]:
        yield from self._nodes.tick(at)
        yield from self._nodes.by_stream_time(at)

    def skip_to(self, partition: TopicPartition, offset: int, *, lost: bool = True) -> None:
        """Go on at a later offset once what waits was processed; records were ``lost``, or none."""
        self._received[partition] = offset
        if self._later or (self._inputs is None and self._under_way is not None):
            self._later.append((partition, offset, lost))
        else:
            self._skip(partition, offset, lost)

    @property
    def received(self) -> dict[TopicPartition, int]:
        """Offset behind the last record taken of each input partition, processed or waiting."""
        return dict(self._received)

    @property
    def under_way(self) -> bool:
        """True if a batch was begun and not yet ended: there is more to come of it."""
        return self._under_way is not None or self.calling

    @property
    def calling(self) -> bool:
        """True if records wait for calls of async functions, or for others of their batch."""
        return self.calls is not None and self.calls.in_flight > 0

    def waits(self, now_ms: int) -> bool:
        """True if a batch or results wait for ``resume``."""
        pause = self._undecoded if self._under_way is None else self._pause
        if pause.due_ms is not None:
            return now_ms >= pause.due_ms
        begun = self._under_way is not None or bool(self._later) or self._inputs is not None
        begun |= self.calls is not None and self.calls.arrived
        begun |= self.edges is not None and self.edges.may_go_on
        return begun or (self._timed and now_ms >= self._tick_ms) or self._punctuates()

    def buffered(self) -> dict[TopicPartition, int]:
        """Records kept back, per input partition."""
        buffered = self._inputs.buffered() if self._inputs else dict.fromkeys(self.positions, 0)
        for later in self._later:
            raw = later.raw if isinstance(later, Undecoded) else later
            if isinstance(raw, PartitionBatch):
                buffered[TopicPartition(raw.topic, raw.partition)] += len(raw)
        return buffered

    @property
    def pausing(self) -> bool:
        """True if a record is to be tried again."""
        return not (self._pause.due_ms is None and self._undecoded.due_ms is None)

    @property
    def retrying(self) -> bool:
        """True if one is amid a batch, so that a commit would have to wait for it."""
        return self._pause.due_ms is not None

    # Going on.

    def _advance(self) -> bool:
        """Go on with the batch under way; False if it stopped between two parts."""
        if (batch := self._under_way) is None:
            return True
        for _ in batch.step:
            if self._in_parts:
                return False
            self._pause.sit_out()
        self._under_way = None
        self.positions |= batch.positions
        return True

    def _begin_next(self, now_ms: int, known_end: KnownEnd) -> bool:
        """Begin with the next batch; False if there is none that need not wait."""
        if self.calls is not None:
            if self.calls.arrived:
                self._begin_without_record(self.calls.send)
                return True
            if self.calls.full:
                return False
        if self.edges is not None and self.edges.blocked:
            return False
        if self._punctuates():
            self._begin_without_record(self._nodes.by_clock)
            return True
        if self._later:
            self._take_later()
            return True
        return self._begin_ready(now_ms, known_end) or self._begin_timed(now_ms, known_end)

    def _take_later(self) -> None:
        """Begin, or put into the group of inputs, the first of what has come."""
        if isinstance(later := self._later.popleft(), tuple):
            self._skip(*later)
        elif self._inputs is None:
            if self.calls is not None:
                later = self.calls.some_of(later, self._later)
            self._begin(*self._decode(later))
        else:
            self._inputs.add(*self._decode(later))

    def _begin_ready(self, now_ms: int, known_end: KnownEnd) -> bool:
        if self._inputs is None:
            return False
        most = 0 if self.calls is None else self.calls.most_begun
        batch = next(self._inputs.ready(now_ms, known_end, most), None)
        if batch is None:
            self._drained(self._inputs)
            return False
        if isinstance(batch, Batch):
            self._begin(batch, batch.offsets[-1] + 1)
        else:
            self._begin_merged(batch, self._inputs)
        return True

    def _begin_timed(self, now_ms: int, known_end: KnownEnd) -> bool:
        """Start what operators have due by the clock, once all received records are processed."""
        if self._ticked:
            return False
        self._ticked, self._tick_ms = True, now_ms + TICK_MS
        ends = [(known_end(tp), offset) for tp, offset in self._received.items()]
        if any(self.buffered().values()) or any(end is None or end > at for end, at in ends):
            return False
        self._begin_without_record(self._nodes.tick)
        return True

    def _punctuates(self) -> bool:
        """True if an operator has something due by the wall clock, with or without records."""
        if not self._punctuated:
            return False
        due = self._nodes.clock_due_ms
        return due is not None and self.wall_ms() >= due

    def _begin_without_record(self, step: Callable[[Batch], Iterator[None]]) -> None:
        where, position = min(self.positions.items())
        at = Batch(*where, [max(0, position - 1)], [None], [None], [self.stream_time])
        self._stream_times.begin(at, self.stream_time)
        self._under_way = UnderWay(step(at), {where: position})

    def _begin(self, batch: Batch, position: int) -> None:
        where = TopicPartition(batch.topic, batch.partition)
        step = self._sources[batch.topic][1](batch)
        if self._punctuated and len(batch):
            self._stream_times.begin(batch, self.stream_time)
            step = chain(step, self._nodes.by_stream_time(batch.slice(len(batch) - 1, len(batch))))
        self._under_way = UnderWay(step, {where: position})
        if len(batch):
            self.counters.records += len(batch)
            self.stream_time = max(self.stream_time, highest_time(batch.timestamps))

    def _begin_merged(self, merged: MergedBatch, inputs: PartitionGroup) -> None:
        self._under_way = UnderWay(self._through(merged, inputs), merged.positions)
        self.counters.records += len(merged)
        self.stream_time = max(self.stream_time, merged.highest_time)

    def _through(self, merged: MergedBatch, inputs: PartitionGroup) -> Iterator[None]:
        self._outputs.gather()
        steps = (self._sources[one.topic][1](one) for one in merged.batches)
        yield from self._nodes.ordered.through(steps, merged.places)
        inputs.led_to(self._outputs.arrange(merged.places), len(merged))

    def _skip(self, partition: TopicPartition, offset: int, lost: bool) -> None:
        received = self.positions if self._inputs is None else self._inputs.received()
        if self.edges is not None and offset != received[partition]:
            offset = self.edges.skip(partition, offset, lost=lost)
        if self._inputs is None:
            self.positions[partition] = offset
        else:
            self._inputs.skip_to(partition, offset)
            self._drained(self._inputs)

    def _drained(self, inputs: PartitionGroup) -> None:
        self.positions |= inputs.drained()
        if self.edges is not None:
            self.edges.advance(self.positions)

    def _take_outputs(self) -> list[Output]:
        calls, positions = self.calls, self.positions
        if self.edges is not None and self.edges.silent:
            return []
        self.failures.processed(positions if calls is None else calls.before(positions))
        return self._outputs.take()

    def _decode(self, raw: PartitionBatch | Undecoded) -> tuple[Batch, int]:
        """Decode a batch, and the offset up to which it was; the rest comes first of what waits."""
        topic = (raw.raw if isinstance(raw, Undecoded) else raw).topic
        decoded = self._decoder.next(self._sources[topic][0], raw, self.edges)
        rest = self._decoder.undecoded
        if rest is not None:
            self._later.appendleft(rest)
            self._undecoded.begin(rest.pause_ms)
        return decoded
