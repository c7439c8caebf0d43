"""About how many bytes of memory a Python value takes; an estimate, for bounding caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from sys import getsizeof
from typing import Any

#: What a dict takes for one more entry, on average over its growth.
ENTRY_BYTES = 100
#: What a store's dicts take for a row, which is in the cache, and its time in another dict.
ROW_BYTES = 2 * ENTRY_BYTES
#: Entries that an estimate looks at, from either end.
SAMPLE = 16
_DEPTH = 4
_ITEMS = 32


def deep_size(value: Any, depth: int = _DEPTH) -> int:
    """Bytes of a value with what it holds, to a few levels and a few items each.

    Larger collections are extrapolated from their first items. What values share is counted for
    each of them.
    """
    size = getsizeof(value)
    if depth == 0 or isinstance(value, str | bytes | int | float):
        return size
    if isinstance(value, dict):
        pairs = [pair for pair, _ in zip(value.items(), range(_ITEMS), strict=False)]
        inside = sum(deep_size(k, depth - 1) + deep_size(v, depth - 1) for k, v in pairs)
        return size + _scaled(inside, len(pairs), len(value))
    if isinstance(value, list | tuple | set | frozenset):
        items = [item for item, _ in zip(value, range(_ITEMS), strict=False)]
        inside = sum(deep_size(item, depth - 1) for item in items)
        own = getattr(value, "__dict__", None)  # of a class of its own
        size += deep_size(own, 1) if own else 0
        return size + _scaled(inside, len(items), len(value))
    return size + sum(deep_size(part, depth - 1) for part in _parts(value))


def row_bytes(cache: Mapping[Any, Any], dirty: dict[Any, int]) -> float | None:
    """The mean size of a few rows, the oldest and the last written; None if there are none."""
    some = [*islice(cache, SAMPLE), *islice(reversed(dirty), SAMPLE)]
    total = sum(deep_size(ckey) + deep_size(cache[ckey]) for ckey in some)
    return ROW_BYTES + total / len(some) if some else None


class EntrySize:
    """The bytes that an entry of a cache takes: a sample, taken again when the cache has grown.

    Args:
        sample: measures a few entries; None if there are none.
    """

    def __init__(self, sample: Callable[[], float | None]) -> None:
        self._sample = sample
        self._bytes = float(ROW_BYTES)
        self._measured = 0  # entries when the sample was taken, less those that changed since

    def of(self, entries: int) -> float:
        """The estimate for a cache of so many entries."""
        if entries >= max(1, 2 * self._measured):
            self._measured = entries
            self._bytes = self._sample() or self._bytes
        return self._bytes

    def changed(self, entries: int) -> None:
        """Note that so many were written: their values may have grown."""
        self._measured = max(0, self._measured - entries)


def _parts(value: Any) -> list[Any]:
    """The objects that an object holds in its slots or its dict."""
    held = getattr(value, "__dict__", None)
    if held is not None:
        return list(held.values())
    names = [n for kind in type(value).__mro__ for n in _names(getattr(kind, "__slots__", ()))]
    return [getattr(value, name, None) for name in names if not name.startswith("__")]


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _scaled(size: int, seen: int, total: int) -> int:
    return size if seen == total else size * total // max(1, seen)
