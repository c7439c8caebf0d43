"""Bounds what the records of one poll hold, with their headers, which the client does not count.

librdkafka counts the values that it has queued, and a poll takes so many records. A header has a
few bytes on the wire and some hundred as objects: 3,000 records with 3,000 headers each took 50 MB
in the client's queue, and 1,900 MB where one poll returned them. So a poll ends before the first
record whose headers do not fit. That record and those behind it are read again, by polls of fewer
records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from streamlet.kafka.ports import PartitionBatch
from streamlet.types import TopicPartition

#: The client's error in place of a record: its topic if it has one, its partition, what is wrong.
Trouble: TypeAlias = tuple[str | None, int | None, Any]

#: What the headers of one poll hold at most, unless those of one record hold more.
HELD_BYTES = 32 * 1024 * 1024
#: A header beside its name and value: a tuple, the heads of a text and of bytes, and a place.
HEADER_BYTES = 200
#: Records of a poll at most.
_MOST = 1_000_000


@attrs.define
class Polled:
    """Records and errors of one poll; ``rest`` has the first offsets that did not fit."""

    batches: list[PartitionBatch] = attrs.field(factory=list)
    troubles: list[Trouble] = attrs.field(factory=list)
    held: int = 0
    rest: dict[TopicPartition, int] = attrs.field(factory=dict)

    def take(self, batch: PartitionBatch) -> None:
        """Take the records of a batch that fit; none, once there is a rest."""
        fits = self._fitting(batch)
        if fits < len(batch):
            where = TopicPartition(batch.topic, batch.partition)
            self.rest.setdefault(where, batch.offsets[fits])
            batch = batch.slice(0, fits)
        if fits:
            self.batches.append(batch)

    def _fitting(self, batch: PartitionBatch) -> int:
        if self.rest:
            return 0
        for index, headers in enumerate(batch.headers or ()):
            if headers:
                own = sum(HEADER_BYTES + len(name) + len(raw or b"") for name, raw in headers)
                if self.held and self.held + own > HELD_BYTES:
                    return index
                self.held += own
        return len(batch)


@attrs.define
class PollSize:
    """The number of records that a poll takes: fewer behind headers that did not fit."""

    _most: int = _MOST

    def of(self, wanted: int) -> int:
        """The records to ask for where so many are wanted."""
        return min(wanted, self._most)

    def adapt(self, polled: Polled) -> None:
        """Learn from what the headers of a poll held."""
        if polled.rest:
            self._most = max(sum(map(len, polled.batches)) // 2, 1)
        elif self._most < _MOST and polled.held < HELD_BYTES // 2:
            self._most = min(self._most + self._most // 8 + 1, _MOST)


def joined(batches: Sequence[PartitionBatch]) -> list[PartitionBatch]:
    """One batch of each partition, out of several in the order of offsets."""
    parts: dict[tuple[str, int], list[PartitionBatch]] = {}
    for batch in batches:
        parts.setdefault((batch.topic, batch.partition), []).append(batch)
    return [_one(part) for part in parts.values()]


def _one(part: Sequence[PartitionBatch]) -> PartitionBatch:
    first, last = part[0], part[-1]
    if first is last:
        return first
    count = sum(map(len, part))
    offsets: Sequence[int] = range(first.offsets[0], last.offsets[-1] + 1)
    if len(offsets) != count:
        offsets = [offset for batch in part for offset in batch.offsets]
    unreadable: Mapping[int, str] = {}
    for batch in part:
        unreadable = {**unreadable, **(batch.unreadable or {})}
    headers = None
    if any(batch.headers is not None for batch in part):
        headers = [one for batch in part for one in batch.headers or [None] * len(batch)]
    return PartitionBatch(
        first.topic,
        first.partition,
        offsets,
        [key for batch in part for key in batch.keys],
        [value for batch in part for value in batch.values],
        [time for batch in part for time in batch.timestamps],
        headers,
        unreadable or None,
    )
