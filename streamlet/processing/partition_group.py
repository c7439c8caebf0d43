"""Merges the input partitions of one task by timestamp.

A task that reads several partitions (a stream and the table it joins) takes their records in the
order of their timestamps, as far as that order is known. While one partition is empty, the others
wait by Kafka Streams' rules: for records that are known to be on the broker, however long that
takes; for records that may still be written, ``max.task.idle.ms`` from the moment on in which the
partition was found empty and read to its end. With -1 nothing waits. What comes out are runs:
consecutive records of one partition, cut where another's record is older; or, where the task may
take records together, merged batches of several partitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.processing.merged_batch import (
    MergedBatch,
    WaitingBounds,
    merge_order,
    merged,
    until_change,
)
from streamlet.topology.subtopologies import Subtopology
from streamlet.topology.together import Together, WaitingRecords, together_of
from streamlet.types import TopicPartition

#: Setting with which nothing waits for an empty partition.
NO_WAIT = -1
#: Records of each partition that are taken together, at first and at most, and the outputs that
#: they should lead to: all of these are kept until the last of them is there.
FIRST_RECORDS, MOST_RECORDS = 500, 4_000
OUTPUTS = 10_000

#: End of a partition as far as it is known; None: not known yet.
KnownEnd = Callable[[TopicPartition], int | None]


@attrs.define
class _Input:
    """One partition: batches that wait, and the offset behind the last record received.

    ``begun`` records of the first batch were taken. ``deadline_ms`` is the end of the wait for
    more; None while it holds records, or has some on the broker.
    """

    partition: TopicPartition
    received: int
    waiting: deque[Batch] = attrs.field(factory=deque)
    begun: int = 0
    records: int = 0
    deadline_ms: int | None = None

    def head(self) -> int:
        return self.waiting[0].timestamps[self.begun]

    def take(self, limit: int | None, most: int) -> Batch:
        """The longest run of the first batch that is not younger than ``limit``, and not empty."""
        batch, start = self.waiting[0], self.begun
        stop = len(batch) if limit is None else _behind(batch.timestamps, start, limit)
        if most:
            stop = min(stop, start + most)
        return self.first(stop - start)

    def first(self, count: int) -> Batch:
        """Take so many records of the first batch."""
        batch, start = self.waiting[0], self.begun
        stop = start + count
        if stop == len(batch):
            self.waiting.popleft()
            self.begun = 0
        else:
            self.begun = stop
        self.records -= stop - start
        return batch if stop - start == len(batch) else batch.slice(start, stop)


class PartitionGroup:
    """The buffers of a task.

    Args:
        positions: the task's input partitions, each with the offset it starts from.
        idle_ms: how long to wait for more of a partition that is empty and read to its end;
            -1: for nothing, not even what is known to be there.
        together: the bounds on records that are taken together; None: there are only runs.
        store: gives the task's store of a name.
    """

    def __init__(
        self,
        positions: dict[TopicPartition, int],
        idle_ms: int,
        together: Together | None = None,
        store: Callable[[str], Any] | None = None,
    ) -> None:
        self._inputs = {tp: _Input(tp, offset) for tp, offset in sorted(positions.items())}
        self._idle_ms, self._together, self._store = idle_ms, together, store
        self._most = FIRST_RECORDS

    def add(self, batch: Batch, received: int) -> None:
        """Take decoded records; ``received`` is the offset behind the last one read.

        The two differ where records were dropped while they were decoded.
        """
        one = self._inputs[TopicPartition(batch.topic, batch.partition)]
        one.received = received
        if len(batch):
            one.waiting.append(batch)
            one.records += len(batch)
            one.deadline_ms = None

    def skip_to(self, partition: TopicPartition, offset: int) -> None:
        """Expect this offset next: the log holds nothing before it. What waits here stays."""
        self._inputs[partition].received = offset

    def buffered(self) -> dict[TopicPartition, int]:
        """Records that wait, per partition."""
        return {tp: one.records for tp, one in self._inputs.items()}

    def received(self) -> dict[TopicPartition, int]:
        """Offset behind the last record taken of each partition."""
        return {tp: one.received for tp, one in self._inputs.items()}

    def drained(self) -> dict[TopicPartition, int]:
        """Partitions with nothing waiting, and the offset up to which they are done."""
        return {tp: one.received for tp, one in self._inputs.items() if not one.waiting}

    def ready(
        self, now_ms: int, known_end: KnownEnd, most: int = 0
    ) -> Iterator[Batch | MergedBatch]:
        """Runs and merged batches by their timestamps, as long as that order is certain enough.

        Runs are of at most so many records, 0: of any number.
        """
        while self._may_go(now_ms, known_end):
            filled = [one for one in self._inputs.values() if one.waiting]
            if self._together is not None and len(filled) > 1:
                yield self._merged(filled, self._together)
                continue
            first = min(filled, key=_Input.head)  # of equal heads the first in order
            before = filled.index(first)
            limits = [one.head() - (i < before) for i, one in enumerate(filled) if one is not first]
            yield first.take(min(limits) if limits else None, most)

    def led_to(self, outputs: int, records: int) -> None:
        """Take note of how many outputs came of a merged batch."""
        wanted = OUTPUTS * records // max(1, outputs)
        self._most = max(1, min(MOST_RECORDS, 2 * self._most, wanted))

    def _merged(self, filled: list[_Input], together: Together) -> MergedBatch:
        """The records that come next, of all partitions together."""
        times = [one.waiting[0].timestamps[one.begun : one.begun + self._most] for one in filled]
        order = merge_order(times, together.spread_ms)
        for waiting in together.waiting:
            order = until_change(order, times, self._bounds(filled, waiting, together))
        taken = [one.first(order.count(at)) for at, one in enumerate(filled)]
        return merged(taken, order)

    def _bounds(
        self, filled: list[_Input], waiting: WaitingRecords, together: Together
    ) -> WaitingBounds:
        """The bounds that records which wait now set to changes of what they wait for."""
        assert self._store is not None
        kept = self._store(waiting.store)
        first, latest = kept.first_time, None
        if first is not None and together.spread_ms is not None:
            latest = first + together.spread_ms
        topics = [one.partition.topic for one in filled]
        return WaitingBounds(
            kept.progress.observed,
            waiting.grace_ms,
            latest,
            [topic in waiting.topics for topic in topics],
            [topic in waiting.changes for topic in topics],
        )

    def _may_go(self, now_ms: int, known_end: KnownEnd) -> bool:
        empty = [one for one in self._inputs.values() if not one.waiting]
        some = len(empty) < len(self._inputs)
        if self._idle_ms == NO_WAIT or not (some or self._idle_ms):
            return some
        # Each is asked, and also where nothing waits: their times run from now on.
        return all([self._waited_for(one, now_ms, known_end) for one in empty]) and some

    def _waited_for(self, one: _Input, now_ms: int, known_end: KnownEnd) -> bool:
        """True if the others need not wait for an empty partition any longer."""
        end = known_end(one.partition)
        if end is None or end > one.received:
            one.deadline_ms = None
            return False
        if one.deadline_ms is None:
            one.deadline_ms = now_ms + self._idle_ms
        return now_ms >= one.deadline_ms


def group_of(
    positions: Mapping[TopicPartition, int],
    idle_ms: int,
    subtopology: Subtopology,
    store: Callable[[str], Any],
) -> PartitionGroup | None:
    """The buffers of a task that begins at these positions; None: it has one input."""
    if len(positions) == 1:
        return None
    return PartitionGroup(dict(positions), idle_ms, together_of(subtopology), store)


def _behind(timestamps: Sequence[int], start: int, limit: int) -> int:
    """The end of the run from ``start`` whose times are ≤ limit, at least one record long."""
    for at in range(start + 1, len(timestamps)):
        if timestamps[at] > limit:
            return at
    return len(timestamps)
