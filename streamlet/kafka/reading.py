"""Reads partitions up to given ends. Over the ports; pure but for the clock it is given."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Protocol

from streamlet.clock import Clock
from streamlet.errors import OutOfRangeError, TimedOutError
from streamlet.kafka.ports import Admin, PartitionBatch
from streamlet.logs import get_logger
from streamlet.types import TopicPartition

log = get_logger(__name__)

#: Records of one poll at most, and how long it waits for as many as there may be.
POLL_RECORDS = 10_000
POLL_MS = 20
#: How long records that are there may not come, ms.
SILENT_MS = 30_000


class Readable(Protocol):
    """The part of a ``RecordSource`` that is needed to read to an end."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, each from its offset."""
        ...

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these partitions."""
        ...

    def poll(self, max_records: int, timeout_ms: int) -> list[PartitionBatch]:
        """Up to so many records, waiting at most so long for that many."""
        ...

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Next offset of each that has one, offsets without records included."""
        ...


def read_until(
    source: Readable,
    ends: Mapping[TopicPartition, int],
    *,
    begins: Mapping[TopicPartition, int],
    clock: Clock,
    silent_ms: float = SILENT_MS,
    most: int = POLL_RECORDS,
    admin: Admin | None = None,
    reads_on: bool = False,
    keep_going: Callable[[], bool] = lambda: True,
) -> Generator[PartitionBatch, None, None]:
    """The records of partitions below their ends; the last offsets of one may be no records.

    A partition that is read to its end is unassigned. No more is asked for than there may be: at
    the end of a log that would be waited for.

    Args:
        source: a consumer; these partitions are assigned to it.
        ends: where to stop in each partition.
        begins: where to begin in each.
        clock: the time.
        silent_ms: how long nothing may come.
        most: records of one poll at most.
        admin: asked where a partition begins whose records were deleted meanwhile; None: that is
            an error.
        reads_on: the caller reads on: records behind the ends that come along are not left out, and
            all partitions stay assigned.
        keep_going: asked before each poll; False ends the reading.

    Raises:
        TimedOutError: records that are there do not come.
        OutOfRangeError: there is no such offset, and there is no ``admin``.
        BrokerError: what the client reports as fatal.
    """
    source.assign(dict(begins) if reads_on else {tp: begins[tp] for tp in _open(begins, ends)})
    at = _open(begins, ends)
    heard_ms = clock.now_ms()
    try:
        while at and keep_going():
            left = sum(ends[tp] - offset for tp, offset in at.items())
            batches = poll_on(source, min(most, left), POLL_MS, admin)
            for batch in batches:
                tp = TopicPartition(batch.topic, batch.partition)
                below = len(batch) if reads_on else bisect_left(batch.offsets, ends.get(tp, 0))
                if below:
                    yield batch if below == len(batch) else batch.slice(0, below)
            reached = {**at, **source.positions(list(at))}
            if batches or reached != at:
                heard_ms = clock.now_ms()
            elif clock.now_ms() - heard_ms > silent_ms:
                where = ", ".join(f"{tp} up to offset {ends[tp]}" for tp in sorted(at))
                raise TimedOutError(f"no record came for {silent_ms / 1000:g} s; left are {where}")
            at = _open(reached, ends)
            if not reads_on:
                source.unassign(sorted(reached.keys() - at.keys()))
    finally:
        if at and not reads_on:
            source.unassign(sorted(at))


def poll_on(
    source: Readable, most: int, timeout_ms: int, admin: Admin | None
) -> list[PartitionBatch]:
    """The records of a poll; a partition whose records were deleted goes on where it begins now."""
    try:
        return source.poll(most, timeout_ms)
    except OutOfRangeError as error:
        if admin is None:
            raise
        start = admin.start_offsets([error.partition])
        log.warning("records of %s below offset %d were deleted", *next(iter(start.items())))
        source.assign(start)
        return []


def _open(
    at: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The partitions that are not read to their ends, with their positions."""
    return {tp: at[tp] for tp, end in ends.items() if tp in at and at[tp] < end}
