"""A task's state as Spark keeps it: sorted runs of blocks, the form of RocksDB's files.

    a batch's changes ──▶ run ──merge──▶ larger run ──merge──▶ … the oldest run

Spark asks some tens of microseconds per entry read or written, whatever its size, so an entry is a
block of many rows. A batch's changes are a run of their own, sorted by store and key. A run is
merged with all newer ones when those have become as large as it is: state is written again some
times while it doubles, and the oldest run, nearly all of the state, only then. Tombstones and
expired rows end with a merge that includes the oldest run.

A run of several blocks has an index behind them, the first row of each. So a lookup reads an index
and one block per run at most, in whichever process it is made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Protocol

import attrs
import msgspec

from streamlet.state.backing import Columns


class Medium(Protocol):
    """The medium of segments; all that is done in one batch counts, or nothing."""

    def get(self, number: int) -> bytes:
        """A segment that was put."""
        ...

    def put(self, number: int, segment: bytes) -> None:
        """Keep a segment."""
        ...

    def remove(self, number: int) -> None:
        """Drop a segment."""
        ...


class SortedRun(msgspec.Struct, array_like=True, frozen=True):
    """A sorted run: segments from ``first`` on, its blocks and, behind several, their index."""

    first: int
    blocks: int
    size: int  # of keys and values, bytes

    @property
    def end(self) -> int:
        """The number behind its last segment."""
        return self.first + self.blocks + (self.blocks > 1)


class Extent(msgspec.Struct, array_like=True, frozen=True):
    """The runs of a task, the oldest first, and the keys that have expired in all of them."""

    end: int = 0  # number of the next segment
    runs: tuple[SortedRun, ...] = ()
    #: Per store one range of keys, to which nothing is put any more.
    expired: dict[str, tuple[bytes, bytes]] = {}


@attrs.frozen
class SegmentLimits:
    """The limits at which runs are merged, and the size of a block, bytes."""

    #: Runs of less than this together are merged only when they are too many.
    merge_bytes: int = 1 << 20
    #: More small runs than this make lookups slow.
    small_runs: int = 8
    block_bytes: int = 64 << 10
    #: Decoded blocks that a task keeps, by the size of their keys and values.
    cache_bytes: int = 8 << 20


#: The form of segments; 3: sorted runs of rows that bear times (``state.rows``).
ROWS = b"3"

_Parts = list[tuple[str, list[bytes], list[bytes | None]]]
#: Per store its rows, in the order of their keys; None is a tombstone.
Block = dict[str, dict[bytes, bytes | None]]
_Index = list[tuple[str, bytes]]

_encode = msgspec.msgpack.Encoder().encode
_decode_block = msgspec.msgpack.Decoder(_Parts).decode
_decode_index = msgspec.msgpack.Decoder(_Index).decode


class Segments:
    """Reads and writes the runs of one task; what it keeps in memory is as of ``extent``.

    Args:
        medium: of the batch under way; replaced for each batch.
        extent: as of the last batch.
        limits: when runs are merged.
        phase: 0 to 1, other ones for other tasks, so that they do not all merge in one batch.
    """

    def __init__(
        self, medium: Medium, extent: Extent, limits: SegmentLimits, phase: float = 0.0
    ) -> None:
        self.medium, self.extent = medium, extent
        self._limits, self._phase = limits, phase
        self._blocks: dict[int, tuple[Block, int]] = {}  # the one used last is last
        self._cached = 0
        self._indexes: dict[int, _Index] = {}

    def get(self, store: str, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        if self._has_expired(store, key):
            return None
        for run in reversed(self.extent.runs):
            number = self._number(run, store, key)
            if number >= run.first:
                rows = self._block(number).get(store)
                if rows is not None and key in rows:
                    return rows[key]
        return None

    def scan(
        self, store: str, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries by key from ``low`` (inclusive) to ``high`` (exclusive), or ``backward``."""
        for key, value in self._merged(self.extent.runs, store, low, high, backward=backward):
            if value is not None and not self._has_expired(store, key):
                yield key, value

    def append(self, changed: Sequence[Columns]) -> None:
        """Keep one batch's changes, and merge runs if that is due."""
        self._note_expired(changed)
        rows = (
            (part.store, key, value)
            for part in sorted(changed, key=lambda part: part.store)
            for key, value in sorted(zip(part.keys, part.values, strict=True), key=_key)
        )
        self._add(self.extent.runs, rows)
        first = self._first_to_merge()
        if first < len(self.extent.runs):
            self._merge(first)

    def _first_to_merge(self) -> int:
        """The first run to merge with all behind it, by number; past the last if none is due."""
        runs, newer, first = self.extent.runs, 0, len(self.extent.runs)
        for at in reversed(range(len(runs))):
            if at < len(runs) - 1 and runs[at].size * (0.75 + self._phase / 2) <= newer:
                first = at
            newer += runs[at].size
        some = runs[first:]
        many = len(some) > self._limits.small_runs * (1 + self._phase)
        large = sum(run.size for run in some) > self._limits.merge_bytes
        return first if many or large else len(runs)

    def _merge(self, first: int) -> None:
        """Make one run of all from this one on."""
        older, merged = self.extent.runs[:first], self.extent.runs[first:]
        stores = sorted({store for run in merged for store in self._stores(run)})
        rows = (
            (store, key, value)
            for store in stores
            for key, value in self._merged(merged, store, None, None, cached=False)
            if older or (value is not None and not self._has_expired(store, key))
        )
        self._add(older, rows)
        for run in merged:
            for number in range(run.first, run.end):
                self.medium.remove(number)
                _, size = self._blocks.pop(number, ({}, 0))
                self._cached -= size
            self._indexes.pop(run.first, None)

    def _stores(self, run: SortedRun) -> Iterator[str]:
        for number in range(run.first, run.first + run.blocks):
            yield from self._block(number, cached=False)

    def _add(
        self, older: tuple[SortedRun, ...], rows: Iterable[tuple[str, bytes, bytes | None]]
    ) -> None:
        """Write a run behind others."""
        first, index, size = self.extent.end, list[tuple[str, bytes]](), 0
        for block, block_size in _blocks(rows, self._limits.block_bytes):
            parts = [(store, list(some), list(some.values())) for store, some in block.items()]
            self.medium.put(first + len(index), _encode(parts))
            index.append((parts[0][0], parts[0][1][0]))
            size += block_size
        runs = older
        end = first
        if index:
            run = SortedRun(first, len(index), size)
            if run.blocks > 1:
                self.medium.put(first + run.blocks, _encode(index))
                self._indexes[first] = index
            runs, end = (*older, run), run.end
        self.extent = Extent(end, runs, self.extent.expired)

    def _merged(
        self,
        runs: Sequence[SortedRun],
        store: str,
        low: bytes | None,
        high: bytes | None,
        *,
        cached: bool = True,
        backward: bool = False,
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Rows of one store by key, each as the newest run has it; tombstones too."""
        keys, each = (low or b"", high), []
        for age, run in enumerate(reversed(runs)):
            if backward:
                each.append(self._rows_backward(run, -age, store, keys))
            else:
                each.append(self._rows(run, age, store, keys, cached))
        last = None
        for key, _, value in merge(*each, reverse=backward):
            if key != last:
                last = key
                yield key, value

    def _rows(
        self, run: SortedRun, age: int, store: str, keys: tuple[bytes, bytes | None], cached: bool
    ) -> Iterator[tuple[bytes, int, bytes | None]]:
        low, high = keys
        for number in range(max(run.first, self._number(run, store, low)), run.first + run.blocks):
            block = self._block(number, cached=cached)
            for key, value in block.get(store, {}).items():
                if high is not None and key >= high:
                    return
                if key >= low:
                    yield key, age, value
            if next(reversed(block)) > store:
                return

    def _rows_backward(
        self, run: SortedRun, age: int, store: str, keys: tuple[bytes, bytes | None]
    ) -> Iterator[tuple[bytes, int, bytes | None]]:
        low, high = keys
        first = max(run.first, self._number(run, store, low))
        behind = (store + "\0", b"") if high is None else (store, high)
        for number in range(self._number(run, *behind), first - 1, -1):
            for key, value in reversed(self._block(number).get(store, {}).items()):
                if low <= key and (high is None or key < high):
                    yield key, age, value

    def _number(self, run: SortedRun, store: str, key: bytes) -> int:
        """The block in which a key would be; one before the first if in none."""
        if run.blocks == 1:
            return run.first
        index = self._indexes.get(run.first)
        if index is None:
            index = _decode_index(self.medium.get(run.first + run.blocks))
            self._indexes[run.first] = index
        return run.first + bisect_right(index, (store, key)) - 1

    def _block(self, number: int, *, cached: bool = True) -> Block:
        known = self._blocks.pop(number, None)
        if known is not None:
            self._blocks[number] = known
            return known[0]
        segment = self.medium.get(number)
        parts = _decode_block(segment)
        block = {store: dict(zip(keys, values, strict=True)) for store, keys, values in parts}
        if cached:
            self._blocks[number] = block, len(segment)
            self._cached += len(segment)
            while self._cached > self._limits.cache_bytes and len(self._blocks) > 1:
                _, size = self._blocks.pop(next(iter(self._blocks)))
                self._cached -= size
        return block

    def _has_expired(self, store: str, key: bytes) -> bool:
        gone = self.extent.expired.get(store)
        return gone is not None and gone[0] <= key < gone[1]

    def _note_expired(self, changed: Sequence[Columns]) -> None:
        expired = dict(self.extent.expired)
        for part in changed:
            if part.expired is not None:
                low, high = expired.get(part.store, part.expired)
                expired[part.store] = min(low, part.expired[0]), max(high, part.expired[1])
        self.extent = Extent(self.extent.end, self.extent.runs, expired)


def _key(row: tuple[bytes, bytes | None]) -> bytes:
    return row[0]


def _blocks(
    rows: Iterable[tuple[str, bytes, bytes | None]], most: int
) -> Iterator[tuple[Block, int]]:
    """Sorted rows in blocks of about so many bytes, and the size of each."""
    block: Block = {}
    size = 0
    for store, key, value in rows:
        block.setdefault(store, {})[key] = value
        size += len(key) + len(value or b"")
        if size >= most:
            yield block, size
            block, size = {}, 0
    if block:
        yield block, size
