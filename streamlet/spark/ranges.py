"""The ranges of micro-batches that may not read all there is, and reading just so far."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import attrs

from streamlet.errors import BrokerError
from streamlet.kafka.ports import PartitionBatch
from streamlet.types import TopicPartition

_POLL_RECORDS = 10_000
_POLL_MS = 100
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


class Readable(Protocol):
    """A client that reads one partition from where a range begins."""

    def poll(self, max_records: int, timeout_ms: int) -> Sequence[PartitionBatch]:
        """Up to so many records, waiting at most so long for that many."""
        ...

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Next offset of each that has one, offsets without records included."""
        ...


def in_range(
    source: Readable, where: TopicPartition, begin: int, end: int
) -> Iterator[PartitionBatch]:
    """The records before ``end``; the last offsets may be no records but holes or markers.

    No more is asked for than there may be: at the end of the log that would be waited for.

    Raises:
        BrokerError: the partition gives nothing for a minute.
    """
    empty, at = 0, begin
    while at < end:
        batches = source.poll(min(_POLL_RECORDS, end - at), _POLL_MS)
        empty = 0 if batches else empty + 1
        if empty > _EMPTY_POLLS:
            raise BrokerError(f"{where} gives no records, though it has some before {end}")
        for batch in batches:
            count = bisect_left(batch.offsets, end)
            if count:
                yield batch if count == len(batch) else _first(batch, count)
        at = source.positions([where]).get(where, at)


def _first(batch: PartitionBatch, count: int) -> PartitionBatch:
    return attrs.evolve(
        batch,
        offsets=batch.offsets[:count],
        keys=batch.keys[:count],
        values=batch.values[:count],
        timestamps=batch.timestamps[:count],
    )
