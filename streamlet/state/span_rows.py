"""Rows that have what one key has in a span of time: several windows, or records.

They are those of a ``CachedStore``, with an index of the cache keys of each time, by which rows
that expire leave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import groupby
from operator import itemgetter
from typing import Any

from streamlet.serdes import Serde
from streamlet.state.backing import Backing
from streamlet.state.store import CachedStore
from streamlet.state.store_parts import Steps
from streamlet.state.store_specs import WindowSpec
from streamlet.state.window_reads import WindowReads
from streamlet.state.window_rows import row_keys
from streamlet.state.window_times import WindowTimes

_time_of = itemgetter(0)


class SpanRows:
    """The rows of a store of windows or records, by span and key.

    Args:
        name: of the store.
        layout: keys, retention and span of the rows.
        value: serde of the rows' values.
        backing: where the bytes are.
    """

    def __init__(self, name: str, layout: WindowSpec, value: Serde[Any], backing: Backing) -> None:
        #: Cache keys of the rows in the cache by time, and those times as a heap.
        self._by_time: dict[int, list[Any]] = {}
        self._times_heap: list[int] = []
        self.times = times = WindowTimes(name, layout, backing, self._forget)
        own = Steps(
            forgotten=self._forgotten,
            came=self.index,
            left=self._left,
            check_invariants=self._check_invariants,
        )
        keys, steps = row_keys(layout.key), (own, times.steps)
        self.rows = CachedStore(name, keys, value, backing, times.row, steps, self._is_new)
        self.reads = WindowReads(self.rows.commits, times)

    def _is_new(self, time: int) -> bool:
        """True if the span is later than all: times of rows may lead beyond the latest in it."""
        return self.times.row.is_new(self.times.row_time(time))

    def load_old(self, ckeys: Iterable[Any]) -> None:
        """Fetch those rows that may be on the medium only; one call to the medium for all.

        ``CachedStore.load`` finds out about the others without the medium.
        """
        old = self.times.row.complete_above
        self.rows.load_many([ckey for ckey in ckeys if ckey[0] <= old])

    def index(self, ckeys: Iterable[Any]) -> None:
        """Take note of rows that came into the cache."""
        for time, some in groupby(ckeys, _time_of):
            if time not in self._by_time:
                self._by_time[time] = []
                heappush(self._times_heap, time)
            self._by_time[time].extend(some)

    def _forget(self, most: int) -> None:
        """Take up to ``most`` expired rows out of the cache; their changes are never written."""
        heap, kept_from = self._times_heap, self.times.kept_from
        while heap and heap[0] < kept_from and most > 0:
            rows = self._by_time[heap[0]]
            some = rows[-most:]
            del rows[-most:]
            self.times.row.left(some)
            most -= len(some)
            self.rows.drop(some)
            if not rows:
                del self._by_time[heappop(heap)]
        if not heap or heap[0] >= kept_from:
            self.times.forgotten = kept_from

    def _forgotten(self) -> None:
        self._by_time.clear()
        self._times_heap.clear()

    def _left(self, ckeys: Sequence[Any]) -> None:
        self.times.row.left(ckeys)
        for time in set(map(_time_of, ckeys)):
            self._by_time[time] = list(filter(self.rows.cache.__contains__, self._by_time[time]))

    def _check_invariants(self) -> None:
        indexed = [ckey for rows in self._by_time.values() for ckey in rows]
        assert set(indexed) == self.rows.cache.keys(), "the index and the cache differ"
        assert len(indexed) == len(self.rows.cache), "a row is twice in the index"
        assert sorted(self._times_heap) == sorted(self._by_time), "the heap and the index differ"
