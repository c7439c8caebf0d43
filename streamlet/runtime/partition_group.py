"""Merges the input partitions of one task by timestamp.

A task that reads several partitions (a stream and the table it joins) takes their records in the
order of their timestamps, as far as that order is known: while one partition is empty and more of
it is on its way, the others wait, at most ``max.task.idle.ms`` (Kafka Streams' rule). What comes
out are runs: consecutive records of one partition, cut where another's record is older.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import attrs

from streamlet.batch import Batch
from streamlet.types import TopicPartition

#: End of a partition as far as it is known; None: not known yet.
KnownEnd = Callable[[TopicPartition], int | None]


@attrs.define
class _Input:
    """One partition: batches that wait, and the offset behind the last record received."""

    partition: TopicPartition
    received: int
    waiting: deque[Batch] = attrs.field(factory=deque)
    records: int = 0

    def head(self) -> int:
        return self.waiting[0].timestamps[0]


class PartitionGroup:
    """The buffers of a task.

    Args:
        positions: the task's input partitions, each with the offset it starts from.
        idle_ms: how long to wait for a partition that is empty although it has more.
    """

    def __init__(self, positions: dict[TopicPartition, int], idle_ms: int) -> None:
        self._inputs = {tp: _Input(tp, offset) for tp, offset in sorted(positions.items())}
        self._idle_ms = idle_ms
        #: Since when a partition has been waited for; None while nothing is.
        self._waiting_since: int | None = None

    def add(self, batch: Batch, received: int) -> None:
        """Take decoded records; ``received`` is the offset behind the last one read.

        The two differ where records were dropped while they were decoded.
        """
        one = self._inputs[TopicPartition(batch.topic, batch.partition)]
        one.received = received
        if len(batch):
            one.waiting.append(batch)
            one.records += len(batch)

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

    def ready(self, now_ms: int, known_end: KnownEnd) -> Iterator[Batch]:
        """Runs in the order of their timestamps, as long as that order is certain enough."""
        while self._may_go(now_ms, known_end):
            filled = [one for one in self._inputs.values() if one.waiting]
            first = min(filled, key=_Input.head)  # of equal heads the first in order
            before = filled.index(first)
            limits = [one.head() - (i < before) for i, one in enumerate(filled) if one is not first]
            yield self._take(first, min(limits) if limits else None)

    def _may_go(self, now_ms: int, known_end: KnownEnd) -> bool:
        empty = [one for one in self._inputs.values() if not one.waiting]
        if len(empty) == len(self._inputs):
            self._waiting_since = None
            return False
        expected = [one for one in empty if _more_to_come(one, known_end)]
        if not expected:
            self._waiting_since = None
            return True
        if self._waiting_since is None:
            self._waiting_since = now_ms
        # With the default of 0 an order is waited for as long as records are known to be there.
        return self._idle_ms > 0 and now_ms - self._waiting_since >= self._idle_ms

    def _take(self, one: _Input, limit: int | None) -> Batch:
        """The longest run of the input's first batch that is not younger than ``limit``."""
        batch = one.waiting.popleft()
        count = len(batch) if limit is None else _not_after(batch.timestamps, limit)
        if count < len(batch):
            one.waiting.appendleft(batch.slice(count, len(batch)))
            batch = batch.slice(0, count)
        one.records -= len(batch)
        return batch


def _more_to_come(one: _Input, known_end: KnownEnd) -> bool:
    end = known_end(one.partition)
    return end is None or end > one.received


def _not_after(timestamps: Sequence[int], limit: int) -> int:
    """The number of leading timestamps that are ≤ limit; at least one."""
    if max(timestamps) <= limit:
        return len(timestamps)
    return max(1, next(i for i, time in enumerate(timestamps) if time > limit))
