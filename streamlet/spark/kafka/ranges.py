"""The ranges of micro-batches that may not read all there is, and reading just so far."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import attrs

from streamlet.errors import BrokerError
from streamlet.kafka.ports import PartitionBatch
from streamlet.types import TopicPartition

_POLL_RECORDS = 10_000
_POLL_MS = 100
#: A Spark task costs what it costs to read about so many records.
_RECORDS_PER_TASK = 5_000
#: A range of so many records costs less where they are processed, with a client that begins there.
HANDED_ON = 5_000
#: Polls without a record before a partition that should have some is given up.
_EMPTY_POLLS = 600

#: Next offset by topic and partition, as JSON has it.
Ends = dict[str, dict[str, int]]


def capped(
    start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]], most: int | None
) -> Ends:
    """The ends to stop at: so that about ``most`` offsets lie before them.

    Each partition gets a share by what is left in it, and one with anything left at least one.
    Never before ``start``, though a topic may have been cut or created again: then nothing is read.
    """
    left = {
        (topic, partition): max(0, end[topic].get(partition, offset) - offset)
        for topic, partitions in start.items()
        for partition, offset in partitions.items()
    }
    total = sum(left.values())
    if most is not None and total > most:
        left = {where: -(-count * most // total) for where, count in left.items()}
    return {
        topic: {
            partition: offset + left[topic, partition] for partition, offset in partitions.items()
        }
        for topic, partitions in start.items()
    }


@attrs.frozen
class Range:
    """Records of one partition, ``begin`` to ``end`` (exclusive)."""

    where: TopicPartition
    begin: int
    end: int


def shared_out(ranges: Sequence[Range]) -> list[tuple[Range, ...]]:
    """Ranges by the Spark task that reads them: a task for each, or few tasks for few records."""
    tasks = min(len(ranges), -(-sum(one.end - one.begin for one in ranges) // _RECORDS_PER_TASK))
    return [tuple(ranges[at::tasks]) for at in range(tasks)]


class Readable(Protocol):
    """A client that reads partitions from where their ranges begin."""

    def poll(self, max_records: int, timeout_ms: int) -> Sequence[PartitionBatch]:
        """Up to so many records, waiting at most so long for that many."""
        ...

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Next offset of each that has one, offsets without records included."""
        ...

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read them no further."""
        ...


def in_ranges(source: Readable, ranges: Iterable[Range]) -> Iterator[PartitionBatch]:
    """The records of ranges; the last offsets of one may be no records but holes or markers.

    No more is asked for than there may be: at the end of the log that would be waited for. A
    partition that is read to its range's end is unassigned.

    Raises:
        BrokerError: the partitions give nothing for a minute.
    """
    ends = {one.where: one.end for one in ranges}
    at = {one.where: one.begin for one in ranges}
    empty = 0
    while at:
        left = sum(ends[where] - offset for where, offset in at.items())
        batches = source.poll(min(_POLL_RECORDS, left), _POLL_MS)
        empty = 0 if batches else empty + 1
        if empty > _EMPTY_POLLS:
            raise BrokerError(
                ", ".join(
                    f"{where} gives no records, though it has some before {ends[where]}"
                    for where in at
                )
            )
        for batch in batches:
            where = TopicPartition(batch.topic, batch.partition)
            count = bisect_left(batch.offsets, ends[where]) if where in at else 0
            if count:
                yield batch if count == len(batch) else batch.slice(0, count)
        at.update(source.positions(list(at)))
        done = [where for where, offset in at.items() if offset >= ends[where]]
        source.unassign(done)
        for where in done:
            del at[where]
