"""Records of one writer and one commit that are held together, in columns of bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

import attrs

from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.processing.edges.held_columns import ColumnRun, cut
from streamlet.processing.edges.held_records import (
    HEAD_BYTES,
    MARK,
    SEQUENCE_BYTES,
    Head,
    read_head,
    split_markers,
)
from streamlet.types import TopicPartition

#: Runs of at least so many records stay apart: it is cheaper than to copy them into one.
MANY = 256

_T = TypeVar("_T")


@attrs.define(eq=False)
class HeldRun:
    """Records in the order of the topic that one writer wrote for one commit, in columns.

    Their values have no prefix any more; ``sequences`` are those of their prefixes, one behind the
    other, until it is decided which of them count. Records that do not wait have ``writer`` -1, and
    none. ``rising``: each was written after the one before it, so that no record is there twice.
    ``done`` of them were processed. ``alone``: they stay a run of their own. ``again`` is the
    offset from which they are read again until all are processed; None: that of the first one not
    processed.
    """

    writer: int
    period: int
    number: int
    since_ms: int
    offsets: Sequence[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    headers: list[Headers | None] | None = None
    unreadable: dict[int, str] = attrs.field(factory=dict)
    sequences: bytes = b""
    rising: bool = True
    places: Sequence[int] = ()
    done: int = 0
    decided: bool = False
    alone: bool = False
    again: int | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def of(
        cls, head: Head, raw: PartitionBatch, run: ColumnRun, now_ms: int, *, alone: bool
    ) -> HeldRun:
        """The records of a run of this batch, which all have this head."""
        bodies, sequences = cut(raw.values, run.start, run.end)
        part = raw if len(bodies) == len(raw) else raw.slice(run.start, run.end)
        unreadable = {}
        if raw.unreadable:
            unreadable = {at: raw.unreadable[at] for at in part.offsets if at in raw.unreadable}
        return cls(
            *(head.writer, head.period, head.number, now_ms),
            part.offsets,
            part.keys,
            bodies,
            part.timestamps,
            part.headers,
            unreadable,
            sequences,
            run.rising,
            alone=alone,
        )

    @property
    def first(self) -> bytes:
        """The sequence of the first record."""
        return self.sequences[:SEQUENCE_BYTES]

    @property
    def last(self) -> bytes:
        """The sequence of the last one."""
        return self.sequences[-SEQUENCE_BYTES:]

    def split_sequences(self) -> list[bytes]:
        """The sequence of each record."""
        size, joined = SEQUENCE_BYTES, self.sequences
        return [joined[at : at + size] for at in range(0, len(joined), size)]

    def from_offset(self, offset: int) -> None:
        """Leave out the records before this offset."""
        if count := bisect_left(self.offsets, offset):
            self._keep(slice(count, None))

    def clear(self) -> None:
        """Leave out all records: it is decided that none of them counts."""
        self._keep(slice(0))
        self.decided = True

    def only(self, rows: Sequence[int]) -> None:
        """Leave out all but these rows."""
        self.offsets, self.timestamps = _at(self.offsets, rows), _at(self.timestamps, rows)
        self.keys, self.values = _at(self.keys, rows), _at(self.values, rows)
        self.headers = self.headers and _at(self.headers, rows)

    def batch(self, where: TopicPartition) -> PartitionBatch:
        """The records of this partition, at their places."""
        unreadable = None
        if self.unreadable:
            pairs = zip(self.offsets, self.places, strict=True)
            unreadable = {at: self.unreadable[old] for old, at in pairs if old in self.unreadable}
        keys, values, times = self.keys, self.values, self.timestamps
        return PartitionBatch(*where, self.places, keys, values, times, self.headers, unreadable)

    def given(self) -> None:
        """Keep the offsets only: the task has the records, and their next commit may be far off."""
        self.keys, self.values, self.timestamps, self.sequences = [], [], [], b""
        self.headers, self.unreadable = None, {}

    def _keep(self, part: slice) -> None:
        self.offsets, self.timestamps = self.offsets[part], self.timestamps[part]
        self.keys, self.values = self.keys[part], self.values[part]
        self.headers = None if self.headers is None else self.headers[part]

    def joins(self, more: HeldRun) -> bool:
        """True if these are to be one run with further records, of the same commit."""
        same = (self.period, self.number) == (more.period, more.number)
        return same and not self.alone and len(self) < MANY

    def extend(self, more: HeldRun) -> None:
        """Append records of the same commit."""
        if self.headers is not None or more.headers is not None:
            ours = self.headers or [None] * len(self)
            self.headers = [*ours, *(more.headers or [None] * len(more))]
        self.rising = self.rising and more.rising and self.last < more.first
        self.sequences += more.sequences
        self.offsets = [*self.offsets, *more.offsets]
        self.keys += more.keys
        self.values += more.values
        self.timestamps += more.timestamps
        self.unreadable |= more.unreadable


def leave_out_repeated(runs: Sequence[HeldRun]) -> None:
    """Leave out what is there twice, byte for byte, among all runs of one commit.

    Where there is any, the commit is read again from its first record on until it is processed: a
    repetition is seen only with what it repeats.
    """
    follow = all(one.last < more.first for one, more in pairwise(runs))
    if follow and all(run.rising for run in runs):
        return
    first = min(run.offsets[0] for run in runs)
    met: set[tuple[bytes, bytes | None, bytes | None, int]] = set()
    for run in runs:
        rows = []
        columns = run.split_sequences(), run.keys, run.values, run.timestamps
        for at, record in enumerate(zip(*columns, strict=True)):
            if record not in met:
                met.add(record)
                rows.append(at)
        run.only(rows)
        run.again = first


def joined(where: TopicPartition, parts: Iterable[PartitionBatch]) -> PartitionBatch:
    """Batches of one partition as one batch."""
    parts = [part for part in parts if len(part)]
    if len(parts) == 1:
        return parts[0]
    found = PartitionBatch(*where, [], [], [], [])
    if any(part.headers is not None for part in parts):
        found.headers = [one for part in parts for one in part.headers or [None] * len(part)]
    for part in parts:
        found.keys += part.keys
        found.values += part.values
        found.timestamps += part.timestamps
    found.offsets = _joined([part.offsets for part in parts])
    unreadable = {place: why for part in parts for place, why in (part.unreadable or {}).items()}
    found.unreadable = unreadable or None
    return found


def _joined(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    """Rising numbers, part behind part, as a range where they are one."""
    if not parts:
        return []
    found = range(parts[0][0], parts[-1][-1] + 1)
    return found if len(found) == sum(map(len, parts)) else [one for part in parts for one in part]


def _at(column: Sequence[_T], rows: Sequence[int]) -> list[_T]:
    return [column[at] for at in rows]


def waits(value: bytes | None) -> bool:
    """True for a record that waits, and for a marker."""
    return value is not None and value.startswith(MARK)


def markers_of(raw: PartitionBatch) -> Iterator[tuple[Head, PartitionBatch]]:
    """The markers of records that begin with one, each with a batch of its own."""
    for at, value in enumerate(raw.values):
        whole = raw.slice(at, at + 1)
        for marker in split_markers(value or b""):
            yield read_head(marker[:HEAD_BYTES]), attrs.evolve(whole, values=[marker])
