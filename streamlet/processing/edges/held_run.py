"""Records of one writer and one commit that are held together, in columns of bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

import attrs

from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.processing.edges.held_columns import bodies_of
from streamlet.processing.edges.held_records import (
    HEAD_BYTES,
    MARK,
    Head,
    read_head,
    sequences_of,
    split_markers,
)

_T = TypeVar("_T")


@attrs.define(eq=False)
class HeldRun:
    """Records in the order of the topic that one writer wrote for one commit, in columns.

    Their values have the prefix. Those that do not wait have ``writer`` -1, and none. ``first`` and
    ``last`` are sequences; ``rising``: each was written after the one before it, so that no record
    is there twice. ``done`` of them were processed.
    ``alone``: they stay a run of their own. ``again`` is the offset from which they are read again
    until all are processed; None: that of the first one not processed.
    """

    writer: int
    period: int
    number: int
    since_ms: int
    offsets: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    headers: list[Headers | None] | None = None
    unreadable: dict[int, str] = attrs.field(factory=dict)
    first: bytes = b""
    last: bytes = b""
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
        cls,
        head: Head,
        raw: PartitionBatch,
        values: list[bytes],
        now_ms: int,
        *,
        rising: bool,
        alone: bool,
    ) -> HeldRun:
        """The records of a batch, which all have this head; ``values`` are theirs."""
        unreadable = {}
        first, last = sequences_of((values[0], values[-1]))
        if raw.unreadable:
            unreadable = {at: raw.unreadable[at] for at in raw.offsets if at in raw.unreadable}
        return cls(
            *(head.writer, head.period, head.number, now_ms),
            list(raw.offsets),
            raw.keys,
            raw.values,
            raw.timestamps,
            raw.headers,
            unreadable,
            first,
            last,
            rising,
            alone=alone,
        )

    @property
    def bodies(self) -> list[bytes | None]:
        """The values without a prefix."""
        values: list[bytes] = self.values  # type: ignore[assignment]
        return self.values if self.writer < 0 else bodies_of(values)

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

    def given(self) -> None:
        """Keep the offsets only: the task has the records, and their next commit may be far off."""
        self.keys, self.values, self.timestamps = [], [], []
        self.headers, self.unreadable = None, {}

    def _keep(self, part: slice) -> None:
        self.offsets, self.timestamps = self.offsets[part], self.timestamps[part]
        self.keys, self.values = self.keys[part], self.values[part]
        self.headers = None if self.headers is None else self.headers[part]

    def joins(self, more: HeldRun) -> bool:
        """True if those are further records of the same commit, and may be processed with these."""
        same = (self.period, self.number) == (more.period, more.number)
        return same and not self.alone

    def extend(self, more: HeldRun) -> None:
        """Append records of the same commit."""
        if self.headers is not None or more.headers is not None:
            ours = self.headers or [None] * len(self)
            self.headers = [*ours, *(more.headers or [None] * len(more))]
        self.rising = self.rising and more.rising and self.last < more.first
        self.last = more.last
        self.offsets += more.offsets
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
        sequences = sequences_of(run.values)  # type: ignore[arg-type]
        columns = sequences, run.keys, run.bodies, run.timestamps
        for at, record in enumerate(zip(*columns, strict=True)):
            if record not in met:
                met.add(record)
                rows.append(at)
        run.only(rows)
        run.again = first


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
