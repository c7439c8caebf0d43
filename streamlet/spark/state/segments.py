"""A task's state as Spark keeps it: sorted runs of blocks, the form of RocksDB's files.

    a batch's changes ──▶ run ──merge──▶ larger run ──merge──▶ … the oldest run

Spark asks some tens of microseconds per entry read or written, and as much again for each 10 KiB of
it, so an entry is a block of many rows, and not of too many: a batch that changes rows here and
there reads a block for each. A batch's changes are a run of their own, sorted by store and key. A
run is merged with all newer ones when those have become as large as it is: state is written again
some times while it doubles, and the oldest run, nearly all of the state, only then. Tombstones and
expired rows end with a merge that includes the oldest run.

A run of several blocks has an index behind them, a tree (``blocks``). A lookup goes through the
runs, the newest first, and reads a few nodes of each, and as good as only the block that has the
row, in whichever process it is made. So what a batch reads is bounded by what it asks for, not by
the size of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Protocol

import attrs
import msgspec

from streamlet.spark.state.blocks import (
    Block,
    Level,
    Node,
    Place,
    Row,
    decoded_block,
    decoded_node,
    encoded_blocks,
    fingerprint,
)
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
    """A sorted run: segments from ``first`` on, its blocks and behind them the levels of the index.

    ``levels`` are the number of blocks and that of the nodes of each level above, up to one that is
    alone. ``size`` is that of keys and values, bytes.
    """

    first: int
    levels: tuple[int, ...]
    size: int
    stores: tuple[str, ...]

    @property
    def end(self) -> int:
        """The number behind its last segment."""
        return self.first + sum(self.levels)

    def begin(self, level: int) -> int:
        """The number of the first segment of a level."""
        return self.first + sum(self.levels[:level])


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
    block_bytes: int = 4 << 10
    #: Decoded blocks that a task keeps, by the size of their keys and values.
    cache_bytes: int = 8 << 20


#: The form of segments; 4: sorted runs of rows that bear times (``state.rows``), with a tree.
ROWS = b"4"


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
        #: Decoded segments with their sizes; the one used last is last.
        self._decoded: dict[int, tuple[Block | Node, int]] = {}
        self._cached = 0

    def get(self, store: str, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        if self._has_expired(store, key):
            return None
        print_ = fingerprint(store, key)
        for run in reversed(self.extent.runs):
            if store not in run.stores:
                continue
            at = self._place(run, store, key, print_)
            if at >= 0:
                rows = self._block(run.first + at).get(store)
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
        stores = sorted({store for run in merged for store in run.stores})
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
                _, size = self._decoded.pop(number, ({}, 0))
                self._cached -= size

    def _add(self, older: tuple[SortedRun, ...], rows: Iterable[Row]) -> None:
        """Write a run behind others."""
        first = end = self.extent.end
        size, index, stores = 0, Level(self._limits.block_bytes), dict[str, None]()
        nodes: list[tuple[Place, bytes]] = []
        for entry, place, prints, block_size in encoded_blocks(
            _noting(rows, stores), self._limits.block_bytes
        ):
            self.medium.put(end, entry)
            end += 1
            size += block_size
            if full := index.add(place, prints):
                nodes.append(full)
        runs = older
        if index.count:
            levels = [index.count]
            if index.count > 1:
                nodes.append(index.finished())
                end = self._put_index(nodes, levels, end)
            runs = (*older, SortedRun(first, tuple(levels), size, tuple(stores)))
        self.extent = Extent(end, runs, self.extent.expired)

    def _put_index(self, nodes: list[tuple[Place, bytes]], levels: list[int], end: int) -> int:
        """Write the levels of an index, from the lowest on; the number behind them."""
        while True:
            levels.append(len(nodes))
            level, above = Level(self._limits.block_bytes), list[tuple[Place, bytes]]()
            for place, entry in nodes:
                self.medium.put(end, entry)
                end += 1
                if full := level.add(place):
                    above.append(full)
            if len(nodes) == 1:
                return end
            nodes = [*above, level.finished()]

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
        if store not in run.stores:
            return
        for at in range(max(0, self._place(run, store, low)), run.levels[0]):
            block = self._block(run.first + at, cached=cached)
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
        if store not in run.stores:
            return
        first = max(0, self._place(run, store, low))
        behind = (store + "\0", b"") if high is None else (store, high)
        for at in range(self._place(run, *behind), first - 1, -1):
            for key, value in reversed(self._block(run.first + at).get(store, {}).items()):
                if low <= key and (high is None or key < high):
                    yield key, age, value

    def _place(self, run: SortedRun, store: str, key: bytes, print_: int | None = None) -> int:
        """The block in which a row would be, counted in its run; -1 if in none.

        Also if no row of the block has the fingerprint, where one is given.
        """
        at = 0
        for level in reversed(range(1, len(run.levels))):
            node = self._node(run.begin(level) + at)
            at = node.child((store, key))
            if at < node.first or (
                level == 1 and print_ is not None and not node.may_have(at, print_)
            ):
                return -1
        return at

    def _node(self, number: int) -> Node:
        known = self._known(number)
        if known is None:
            entry = self.medium.get(number)
            known = decoded_node(entry)
            self._keep(number, known, len(entry))
        assert isinstance(known, Node)
        return known

    def _block(self, number: int, *, cached: bool = True) -> Block:
        known = self._known(number)
        if known is None:
            entry = self.medium.get(number)
            known = decoded_block(entry)
            if cached:
                self._keep(number, known, len(entry))
        assert isinstance(known, dict)
        return known

    def _known(self, number: int) -> Block | Node | None:
        """A segment that is decoded; it counts as the one used last."""
        found = self._decoded.pop(number, None)
        if found is None:
            return None
        self._decoded[number] = found
        return found[0]

    def _keep(self, number: int, segment: Block | Node, size: int) -> None:
        self._decoded[number] = segment, size
        self._cached += size
        while self._cached > self._limits.cache_bytes and len(self._decoded) > 1:
            _, size = self._decoded.pop(next(iter(self._decoded)))
            self._cached -= size

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


def _noting(rows: Iterable[Row], stores: dict[str, None]) -> Iterator[Row]:
    """Rows as they are; the names of their stores are noted."""
    for row in rows:
        stores[row[0]] = None
        yield row
