"""A store whose rows have what one key has in a span of time: several windows, or records.

It is a ``WindowRowStore`` with a plain dict as its cache. Rows that expire leave that by an index
of the cache keys of each time.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any

from streamlet.serdes import Serde
from streamlet.state.backing import Backing
from streamlet.state.window_rows import WindowLayout
from streamlet.state.window_store import WindowRowStore


class SpanStore(WindowRowStore):
    """A window store with an index of its cache by time.

    Args:
        name: of the store.
        layout: keys, retention and span of the rows.
        value: serde of the rows' values.
        backing: where the bytes are.
    """

    def __init__(
        self, name: str, layout: WindowLayout, value: Serde[Any], backing: Backing
    ) -> None:
        super().__init__(name, layout, value, backing)
        #: Cache keys of the rows in the cache by time, and those times as a heap.
        self._by_time: dict[int, list[Any]] = {}
        self._times_heap: list[int] = []

    def _index(self, ckeys: Iterable[Any]) -> None:
        """Take note of rows that came into the cache."""
        by_time = self._by_time
        for ckey in ckeys:
            time = ckey[0]
            try:
                by_time[time].append(ckey)
            except KeyError:
                by_time[time] = [ckey]
                heappush(self._times_heap, time)

    def _forget_expired(self, most: int) -> None:
        """Take up to ``most`` expired rows out of the cache; their changes are never written."""
        heap, kept_from, gone = self._times_heap, self.kept_from, False
        while heap and heap[0] < kept_from and most > 0:
            rows = self._by_time[heap[0]]
            some = rows[-most:]
            del rows[-most:]
            self._left_cache(some)
            most -= len(some)
            for ckey in some:
                self.cache.pop(ckey, None)
                self._times.pop(ckey, None)
                gone |= self.dirty.pop(ckey, None) is not None
                gone |= self._pinned.pop(ckey, None) is not None
            if not rows:
                del self._by_time[heappop(heap)]
        if not heap or heap[0] >= kept_from:
            self._forgotten = kept_from
        if gone:
            self._overlay.written()  # it counts on dicts that only grow

    def forget(self) -> None:
        """Empty the cache: what is on the medium has changed."""
        super().forget()
        self._by_time.clear()
        self._times_heap.clear()

    def _evicted(self, ckeys: list[Any]) -> None:
        super()._evicted(ckeys)
        for time in set(map(itemgetter(0), ckeys)):
            self._by_time[time] = list(filter(self.cache.__contains__, self._by_time[time]))

    def check_invariants(self) -> None:
        """Assert what must hold between two calls; for tests."""
        super().check_invariants()
        indexed = [ckey for rows in self._by_time.values() for ckey in rows]
        assert set(indexed) == self.cache.keys(), "the index and the cache differ"
        assert len(indexed) == len(self.cache), "a row is twice in the index"
        assert sorted(self._times_heap) == sorted(self._by_time), "the heap and the index differ"
