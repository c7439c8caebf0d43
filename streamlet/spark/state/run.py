"""One stream task over one micro-batch: state taken up, records in order, changes kept.

The truth is Spark's state, which any worker of the executor reads row by row (``segments``). What a
worker keeps in memory from batch to batch is a cache: Spark gives a task to any worker it likes,
tries again what failed and stops what it likes, so the cache is believed only if it bears the mark
that Spark's own state has; else the task begins with an empty one. The mark is created again in
every attempt: what an attempt left that Spark did not count is never taken for the truth. A task
that Spark cancels sees a normal end of its input, so that end says nothing about the batch: state
and positions count when Spark commits them, never before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias
from zlib import crc32

import attrs
import msgspec

from streamlet.clock import SystemClock
from streamlet.errors import StateError
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.processing.task import Task
from streamlet.spark.kafka.ranges import Range
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.plan.reference import query_topology, resolve
from streamlet.spark.rows.merging import merged_by_record, merged_by_row
from streamlet.spark.rows.packing import HERE, Packed, as_batch
from streamlet.spark.rows.refused_times import RefusedTimes
from streamlet.spark.rows.task_reports import TaskReport
from streamlet.spark.state.changelogs import changelog_outputs
from streamlet.spark.state.segments import ROWS, Extent, Medium, SegmentLimits, Segments
from streamlet.state.backing import Backing, Columns
from streamlet.state.query_errors import InvalidStateStoreError
from streamlet.state.task_state import TaskState
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import StateNumber, TaskId, TopicPartition


class SegmentBacking:
    """One store of a task in Spark's state, good during a batch."""

    def __init__(self, segments: Segments, store: str) -> None:
        self._segments, self._store = segments, store

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        return self._segments.get(self._store, key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The values, in order; read by key, so that no block is read twice."""
        get, store = self._segments.get, self._store
        found = {key: get(store, key) for key in sorted(set(keys))}
        return [found[key] for key in keys]

    def scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries by key; nothing is written during a batch but at its end."""
        return self._segments.scan(self._store, low, high, backward=backward)


class SegmentEngine:
    """A storage engine whose medium is Spark's; its runs are kept in Spark's header of the task.

    Args:
        segments: of the task.
    """

    bulk_records = sys.maxsize

    def __init__(self, segments: Segments) -> None:
        self.segments = segments

    def backing(self, store: str) -> SegmentBacking:
        """The segments of one store."""
        return SegmentBacking(self.segments, store)

    def snapshot(self, store: str) -> Backing:
        """Refuse: stores on Spark are read by the batches that change them, and by no others."""
        raise InvalidStateStoreError(f"store {store} cannot be queried while it runs on Spark")

    def read_meta(self) -> bytes | None:
        """None: positions and marks are in the header."""
        return None

    def write(self, columns: Sequence[Columns], meta: bytes) -> None:
        """Append one batch's changes."""
        self.segments.append(columns)

    def write_ahead(self, columns: Columns) -> None:
        """Append as ``bulk`` does."""
        self.bulk(columns)

    def bulk(self, columns: Columns) -> None:
        """Append as ``write`` does."""
        self.segments.append([columns])

    def wipe(self) -> None:
        """Refuse: state is Spark's, and goes with its checkpoint.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Spark's state goes with its checkpoint")

    def close(self) -> None:
        """Do nothing: Spark closes its state itself."""


#: Memory that the stores of one task may use for objects, bytes.
CACHE_BYTES = 64 * 1024 * 1024

_MARK_BYTES = 12

#: Reads ranges of partitions, all of them.
ReadRanges: TypeAlias = Callable[[Sequence[Range]], Iterator[PartitionBatch]]


class TaskHeader(msgspec.Struct, array_like=True, frozen=True):
    """Spark's record of a task beside its segments."""

    task: str
    layout: bytes  # the subtopology's hash, and the form of rows
    partitions: int  # of the topics it reads: keys lie elsewhere with another number
    mark: bytes
    extent: Extent
    commits: int
    stream_time: int
    positions: dict[str, int]  # next offset, by topic
    latest: dict[str, int]  # time of the youngest row, by store


class KeptState(Medium, Protocol):
    """A task's state in Spark, as of the last batch that counts."""

    def head(self) -> bytes | None:
        """The header that ``set_head`` was given last; None before the first batch."""
        ...

    def set_head(self, head: bytes) -> None:
        """Replace the head."""
        ...


@attrs.define
class _Warm:
    """A task of this process with its stores, as of ``mark``."""

    task: Task
    segments: Segments
    mark: bytes
    batch: int
    #: Of the last batch, without what was written.
    report: TaskReport


class Runner:
    """The stream tasks of this process, warm from batch to batch.

    Args:
        plan: of the query.
        limits: when state is compacted.
        epoch: of a backfill, whose tasks write changelogs as native ones do; None: it is none.
        read: reads ranges that rows name in place of records; None: there are no such rows.
        by_time: merge senders by the time of each record, not of each row.
    """

    def __init__(
        self,
        plan: SparkPlan,
        limits: SegmentLimits,
        epoch: int | None = None,
        read: ReadRanges | None = None,
        *,
        by_time: bool = False,
    ) -> None:
        self._plan, self._limits, self._epoch, self._read = plan, limits, epoch, read
        self._merge = merged_by_record if by_time else merged_by_row
        app = resolve(plan.reference)
        self._topology, self._policy = query_topology(app), app.policy
        self._refused = RefusedTimes(plan.written, plan.inside, app.policy)
        self._warm: dict[TaskId, _Warm] = {}

    def run(
        self, which: TaskId, rows: Iterable[Packed], kept: KeptState, batch: int
    ) -> Iterator[list[Output]]:
        """Process a micro-batch's rows of one task, and keep its state at the end.

        Outputs come in order; only when all were taken is the state kept.

        Raises:
            ProcessingError: a record failed under the policy ``fail``.
            StateError: Spark's state is that of another task or topology, or has these records.
        """
        part = self._topology.subtopology(which.subtopology)
        raw = kept.head()
        head = self._new_head(which, part) if raw is None else _decode_head(raw)
        new = self._new_head(which, part)
        _check(head, new, part.former_hash + ROWS)
        clock = SystemClock()
        began = clock.now_ns()
        # Not there while it is worked on: whatever goes wrong now, it is no longer as marked.
        warm = self._warm.pop(which, None)
        if warm is None or warm.mark != head.mark:
            task, segments = self._opened(which, part, head, kept)
        else:
            task, segments = warm.task, warm.segments
            segments.medium = kept
        positions = dict(head.positions)
        task.counters.clear()
        for outputs in self._process(task, rows, positions):
            yield list(self._refused.without(outputs, task))
        mark = os.urandom(_MARK_BYTES)
        drained = task.state.drain()
        if self._epoch is not None:
            now_ms = SystemClock().wall_ms()
            yield changelog_outputs(part, which.partition, drained, self._epoch, now_ms)
        task.state.write(drained, StateNumber(1, head.commits + 1), {})
        changed = TaskHeader(
            head.task,
            new.layout,
            head.partitions,
            mark,
            segments.extent,
            head.commits + 1,
            task.stream_time,
            positions,
            {name: store.commits.latest for name, store in task.state.stores.items()},
        )
        kept.set_head(_encode_head(changed))
        size = sum(run.size for run in segments.extent.runs)
        report = TaskReport.of(which, task.counters, 0, clock.now_ns() - began, size)
        self._warm[which] = _Warm(task, segments, mark, batch, report)
        self._forget(batch)

    def _process(
        self, task: Task, rows: Iterable[Packed], positions: dict[str, int]
    ) -> Iterator[list[Output]]:
        """All rows of a task, in order; ``positions`` moves behind them."""
        alone = len(task.subtopology.input_topics) == 1
        for batch in self._batches(rows, positions):
            if batch.offsets[0] < positions.get(batch.topic, 0):
                raise StateError(
                    f"task {task.task} has had {batch.topic}-{batch.partition} up to offset "
                    f"{positions[batch.topic]} and got {batch.offsets[0]} again"
                )
            positions[batch.topic] = batch.offsets[-1] + 1
            # With several topics nothing is certain before the last row: their ends are unknown.
            yield task.process(batch) if alone else task.process(batch, 0, lambda _: None)
        if not alone:
            yield task.resume(0)
        yield task.settle()

    def _batches(
        self, rows: Iterable[Packed], positions: Mapping[str, int]
    ) -> Iterator[PartitionBatch]:
        """The records of rows in order, then those that are not in their row, which are read.

        A topic is in rows of one kind only, and the task puts records of several in order itself.
        """
        packed, ranges = [], []
        for row in rows:
            if row.until == HERE:
                packed.append(row)
            else:
                where = TopicPartition(row.topic, row.partition)
                ranges.append(Range(where, row.first, row.until))
        for row, records in self._merge(packed):
            yield as_batch(row, records, positions.get(row.topic, 0))
        if ranges:
            assert self._read is not None, f"{ranges[0].where} is to be read, and nothing can"
            yield from self._read(ranges)  # all at once: few of each wait for those of others

    def report(self, which: TaskId, written: int) -> TaskReport:
        """The report of a task's last ``run``, with the number of records that were sent on."""
        return msgspec.structs.replace(self._warm[which].report, written=written)

    def _new_head(self, which: TaskId, subtopology: Subtopology) -> TaskHeader:
        partitions = subtopology.task_count(self._plan.counts)
        return TaskHeader(
            str(which), subtopology.hash + ROWS, partitions, b"", Extent(), 0, -1, {}, {}
        )

    def _opened(
        self, which: TaskId, subtopology: Subtopology, head: TaskHeader, kept: KeptState
    ) -> tuple[Task, Segments]:
        phase = crc32(head.task.encode()) / (1 << 32)
        segments = Segments(kept, head.extent, self._limits, phase)
        engine = SegmentEngine(segments)
        state = TaskState(None, subtopology.stores, CACHE_BYTES, engine=engine)
        state.check_entries(None, {})
        for name, latest in head.latest.items():
            state.stores[name].commits.latest = latest
        positions = {
            tp: head.positions.get(tp.topic, 0)
            for tp in subtopology.inputs(which.partition, self._plan.counts)
        }
        task = Task(
            which,
            subtopology,
            state,
            positions,
            policy=self._policy,
            partition_counts=self._plan.out_counts,
            wall_ms=SystemClock().wall_ms,
            has_headers=False,
        )
        task.stream_time = head.stream_time
        return task, segments

    def _forget(self, batch: int) -> None:
        """Drop tasks that Spark gave to other workers."""
        for which in [w for w, warm in self._warm.items() if batch - warm.batch > _BATCHES_KEPT]:
            task = self._warm.pop(which).task
            task.close()
            task.state.close()


#: A task that had nothing to do in so many batches is built again when it has.
_BATCHES_KEPT = 20

_encode_head = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(TaskHeader)


def _decode_head(raw: bytes) -> TaskHeader:
    try:
        return _decoder.decode(raw)
    except (ValueError, RecursionError) as error:  # msgspec's errors, and those of UTF-8
        raise StateError(
            "the checkpoint's state was written by another version of streamlet, or is damaged: "
            "start again with a new checkpoint"
        ) from error


def _check(was: TaskHeader, now: TaskHeader, former_layout: bytes) -> None:
    if (was.task, was.partitions) != (now.task, now.partitions):
        raise StateError(
            f"the checkpoint has task {was.task} of {was.partitions} where {now.task} of "
            f"{now.partitions} is looked for: it is that of another topology, or of topics with "
            "other partition counts"
        )
    if was.layout not in (now.layout, former_layout):
        raise StateError(
            f"the checkpoint's state of task {now.task} is that of another version of the "
            "topology, whose nodes, stores or serdes have changed, or of streamlet"
        )
