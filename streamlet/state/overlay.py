"""The keys written since the last write to the medium, in the order of their bytes.

Operators mark keys by writing a dict, without a call of ours, so nothing is kept in order at that
time. A scan brings this index up to date first; it looks only at keys marked since the last one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any


class Overlay:
    """An ordered index over two dicts of marked keys: pinned ones, and newer, dirty ones.

    The dicts only grow, but for two turns: ``drained``, when the dirty ones become the pinned ones,
    and ``written``, when the pinned ones are gone.

    Args:
        to_bytes: the bytes of a list of cache keys.
    """

    def __init__(self, to_bytes: Callable[[list[Any]], list[bytes]]) -> None:
        self._to_bytes = to_bytes
        self._order: list[bytes] = []
        self._ckeys: dict[bytes, Any] = {}
        # So many of each dict's keys, which keep their order, are in the index.
        self._seen_pinned = 0
        self._seen_dirty = 0

    def drained(self) -> None:
        """The dirty keys are the pinned ones now."""
        self._seen_pinned, self._seen_dirty = self._seen_dirty, 0

    def written(self) -> None:
        """The pinned keys are gone; dirty ones are looked at again at a scan."""
        self._order, self._ckeys = [], {}
        self._seen_pinned = self._seen_dirty = 0

    def index_some(
        self, pinned: Mapping[Any, object], dirty: Mapping[Any, object], most: int
    ) -> bool:
        """Look at up to ``most`` keys that were marked since the last time; False: at all now."""
        new = _some(pinned, self._seen_pinned, most)
        self._seen_pinned += len(new)
        newer = _some(dirty, self._seen_dirty, most - len(new))
        self._seen_dirty += len(newer)
        if new or newer:
            self._add(new + newer)
        return self._seen_pinned < len(pinned) or self._seen_dirty < len(dirty)

    def between(
        self,
        pinned: Mapping[Any, object],
        dirty: Mapping[Any, object],
        low: bytes | None,
        high: bytes | None,
        *,
        backward: bool = False,
    ) -> Iterator[tuple[bytes, Any]]:
        """Bytes and cache keys from ``low`` (inclusive) to ``high`` (exclusive), in order.

        ``backward``: the last one first.

        As they are now, whatever is marked before the iterator has come to its end.
        """
        self.index_some(pinned, dirty, len(pinned) + len(dirty))
        start = 0 if low is None else bisect_left(self._order, low)
        stop = len(self._order) if high is None else bisect_left(self._order, high)
        keys = self._order[start:stop]
        if backward:
            keys.reverse()
        return zip(keys, map(self._ckeys.__getitem__, keys), strict=True)

    def _add(self, new: list[Any]) -> None:
        known = self._ckeys
        added = {
            key: ckey
            for key, ckey in zip(self._to_bytes(new), new, strict=True)
            if key not in known
        }
        known.update(added)
        self._order += sorted(added)
        self._order.sort()  # two sorted runs: about one pass


def _some(marked: Mapping[Any, object], seen: int, most: int) -> list[Any]:
    """Up to ``most`` keys behind those that were seen, which are walked only if there are any."""
    return list(islice(marked, seen, seen + most)) if seen < len(marked) else []


def merged(
    older: Iterator[tuple[bytes, bytes]],
    newer: Iterator[tuple[bytes, Any]],
    ckey_of: Callable[[bytes], Any] | None,
    *,
    backward: bool,
) -> Iterator[tuple[bytes, Any, bytes | None]]:
    """Keys in order, each with its cache key, and its bytes on the medium or None.

    Args:
        older: keys and rows of the medium, in order.
        newer: keys and cache keys of what was written since, in the same order.
        ckey_of: the cache key of a key; None: the key itself.
        backward: the last key comes first.
    """
    fresh = next(newer, None)
    for key, raw in older:
        while fresh is not None and (fresh[0] > key if backward else fresh[0] < key):
            yield *fresh, None
            fresh = next(newer, None)
        if fresh is not None and fresh[0] == key:
            yield *fresh, raw
            fresh = next(newer, None)
        else:
            yield key, key if ckey_of is None else ckey_of(key), raw
    while fresh is not None:
        yield *fresh, None
        fresh = next(newer, None)
