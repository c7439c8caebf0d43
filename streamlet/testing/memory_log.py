"""A broker's log in memory; for tests without a broker, behind ``testing.memory_ports``.

It keeps what the runtime can observe of a real log: offsets that never come back, gaps left by
compaction and transaction markers, topic ids that change with a topic's re-creation, a start that
moves up. It keeps no replicas, no transactions and no groups.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import attrs

from streamlet.clock import Clock, ManualClock
from streamlet.errors import MissingTopicError, OutOfRangeError
from streamlet.kafka.ports import Headers, TopicInfo
from streamlet.types import TopicPartition


class StoredRecord(NamedTuple):
    """One record as the log keeps it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers | None


@attrs.define
class _Partition:
    records: list[StoredRecord] = attrs.field(factory=list)  # ascending offsets, with gaps
    start: int = 0
    end: int = 0


@attrs.define
class _Topic:
    topic_id: str
    config: dict[str, str]
    partitions: list[_Partition]


class MemoryLog:
    """The topics of a broker. Safe to use from several threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or ManualClock()
        self._topics: dict[str, _Topic] = {}
        self._made = 0
        self._lock = threading.RLock()

    def create(
        self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic with a new id; one that exists is left as it is."""
        with self._lock:
            if topic not in self._topics:
                rows, self._made = [_Partition() for _ in range(partitions)], self._made + 1
                self._topics[topic] = _Topic(f"id-{self._made}", dict(config or {}), rows)

    def delete(self, topic: str) -> None:
        """Delete a topic with its records; an unknown one is ignored."""
        with self._lock:
            self._topics.pop(topic, None)

    def append(
        self,
        partition: TopicPartition,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None = None,
        headers: Sequence[Headers | None] | None = None,
    ) -> int:
        """Append records and return the end offset behind them."""
        times = repeat(self._clock.wall_ms()) if timestamps is None else timestamps
        heads = repeat(None) if headers is None else headers
        with self._lock:
            row = self._row(partition)
            offsets = range(row.end, row.end + len(keys))
            columns = zip(offsets, keys, values, times, heads, strict=False)
            row.records.extend(map(StoredRecord._make, columns))
            row.end = offsets.stop
            return row.end

    def gap(self, partition: TopicPartition, count: int = 1) -> None:
        """Use up offsets without a record, as transaction markers do."""
        with self._lock:
            self._row(partition).end += count

    def compact(
        self, tp: TopicPartition, drop_tombstones: bool = False, end: int = 1 << 62
    ) -> None:
        """Keep each key's last record only, as the cleaner does to all records before ``end``."""
        with self._lock:
            row = self._row(tp)
            last = {record.key: record.offset for record in row.records if record.offset < end}
            gone = {r.offset for r in row.records if drop_tombstones and r.value is None}
            kept = set(last.values()) - gone
            row.records = [r for r in row.records if r.offset >= end or r.offset in kept]

    def lose_tail(self, partition: TopicPartition, end: int) -> None:
        """Forget the records from ``end`` on, as an unclean leader election does."""
        with self._lock:
            row = self._row(partition)
            row.records = [r for r in row.records if r.offset < end]
            row.end = end

    def records(self, partition: TopicPartition) -> list[StoredRecord]:
        """All records of a partition."""
        with self._lock:
            return list(self._row(partition).records)

    def infos(self) -> dict[str, TopicInfo]:
        """All topics by name."""
        with self._lock:
            return {
                name: TopicInfo(name, len(topic.partitions), topic.topic_id)
                for name, topic in sorted(self._topics.items())
            }

    def config(self, topic: str) -> dict[str, str]:
        """The settings a topic was created with."""
        with self._lock:
            return dict(self._topics[topic].config)

    def alter(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Change settings of topics."""
        for topic, own in settings.items():
            self._topics[topic].config.update(own)

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions, up to so many."""
        with self._lock:
            there = self._topics[topic].partitions
            there += [_Partition() for _ in range(len(there), partitions)]

    def start(self, partition: TopicPartition) -> int:
        """First offset that may still be read."""
        with self._lock:
            return self._row(partition).start

    def end(self, partition: TopicPartition) -> int:
        """Offset the next record will get."""
        with self._lock:
            return self._row(partition).end

    def raise_start(self, partition: TopicPartition, start: int) -> None:
        """Drop the records below ``start``."""
        with self._lock:
            row = self._row(partition)
            row.start = max(row.start, min(start, row.end))
            row.records = row.records[bisect_left(row.records, (row.start,)) :]

    def read(
        self, partition: TopicPartition, offset: int, limit: int
    ) -> tuple[list[StoredRecord], int]:
        """Up to ``limit`` records from ``offset`` on, and the offset to go on from.

        Raises:
            OutOfRangeError: there is no such offset.
            MissingTopicError: there is no such partition.
        """
        with self._lock:
            row = self._row(partition)
            if not row.start <= offset <= row.end:
                raise OutOfRangeError(f"reading {partition}: {offset} is out of range", partition)
            first = bisect_left(row.records, (offset,))
            found = row.records[first : first + limit]
            done = first + limit >= len(row.records)
            return found, row.end if done else found[-1].offset + 1

    def _row(self, partition: TopicPartition) -> _Partition:
        topic = self._topics.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            raise MissingTopicError(f"there is no partition {partition}", [partition.topic])
        return topic.partitions[partition.partition]
