"""The cache of a store of windows: the rows of each window lie together.

A window has a dict from keys to *slots*, and what is known of its rows in columns by slot. So a row
takes no tuple and no time of its own in memory, and a batch, most of whose records are of one
window, finds its rows near each other. A key that is in several windows is one object, and so is
the number of a slot.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, compress, islice
from sys import getsizeof
from typing import Any

from streamlet.state.rows import NO_TIME
from streamlet.state.sizes import ENTRY_BYTES, SAMPLE, deep_size

#: What a window takes beside its columns: the object itself and its entry in a dict.
_WINDOW_BYTES = 100 + ENTRY_BYTES


class WindowRows:
    """The rows of one window that are in the cache.

    A slot is the same index in ``values``, ``times`` (ms) and ``dirty``, which tells with 1 that
    the store has the row among its dirty ones. A value None is a row that is not there. ``whole``:
    the medium has no row of this window that is not here.
    """

    __slots__ = ("dirty", "slots", "time", "times", "values", "whole")

    def __init__(self, time: int, whole: bool) -> None:
        self.time = time
        self.whole = whole
        self.slots: dict[Any, int] = {}
        self.values: list[Any] = []
        self.times = array("q")
        self.dirty = bytearray()

    def size(self) -> int:
        """Bytes of the columns, without keys and values."""
        columns = self.slots, self.values, self.times, self.dirty
        return _WINDOW_BYTES + sum(map(getsizeof, columns))


class WindowCache(Mapping[tuple[int, Any], Any]):
    """Values by time and key, as the dict ``CachedStore.cache``, and their windows."""

    def __init__(self) -> None:
        #: Windows by their times, those first that came into the cache first.
        self.windows: dict[int, WindowRows] = {}
        self._rows = 0
        self._keys: dict[Any, Any] = {}  # each key once, to be shared
        self._slots: list[int] = []  # numbers to be shared

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return ((rows.time, key) for rows in self.windows.values() for key in rows.slots)

    def __getitem__(self, ckey: tuple[int, Any]) -> Any:
        rows = self.windows[ckey[0]]
        return rows.values[rows.slots[ckey[1]]]

    def find(self, ckey: tuple[int, Any]) -> tuple[WindowRows, int] | None:
        """The window and the slot of a row, or None."""
        rows = self.windows.get(ckey[0])
        slot = None if rows is None else rows.slots.get(ckey[1])
        return None if rows is None or slot is None else (rows, slot)

    def begin(self, time: int, whole: bool) -> WindowRows:
        """Make a window that is not in the cache."""
        rows = self.windows[time] = WindowRows(time, whole)
        return rows

    def add(self, rows: WindowRows, key: Any, value: Any = None, time: int = NO_TIME) -> int:
        """Add a row that is not in the cache; its slot."""
        slot = len(rows.values)
        if slot == len(self._slots):
            self._slots.append(slot)
        rows.slots[self._keys.setdefault(key, key)] = self._slots[slot]
        rows.values.append(value)
        rows.times.append(time)
        rows.dirty.append(0)
        self._rows += 1
        return slot

    def shared(self, key: Any) -> Any:
        """The one object that windows have for a key."""
        return self._keys.get(key, key)

    def take(self, rows: WindowRows, most: int) -> list[Any]:
        """Remove up to so many rows of a window, the newest ones; their keys."""
        keys = [rows.slots.popitem()[0] for _ in range(min(most, len(rows.slots)))]
        left = len(rows.slots)
        del rows.values[left:], rows.times[left:], rows.dirty[left:]
        self._left(rows, len(keys))
        return keys

    def drop(self, rows: WindowRows, kept: bytearray, most: int) -> int:
        """Remove the first rows of a window, up to so many, whose byte is 0; their number."""
        gone = bytearray(not one for one in kept)
        if (count := sum(gone)) > most:
            last = next(islice((at for at, one in enumerate(gone) if one), most, None))
            gone[last:] = bytes(len(gone) - last)
            count = most
        if not count and rows.values:
            return 0
        stay = [not one for one in gone]
        # zip ends at the keys: slots may have numbers for more.
        rows.slots = dict(zip(compress(rows.slots, stay), self._slots, strict=False))
        rows.values = list(compress(rows.values, stay))
        rows.times = array("q", compress(rows.times, stay))
        rows.dirty = bytearray(compress(rows.dirty, stay))
        self._left(rows, count)
        return count

    def clear(self) -> None:
        """Remove everything."""
        self.windows, self._rows = {}, 0
        self._keys, self._slots = {}, []

    def entry_bytes(self, written: Iterable[tuple[int, Any]]) -> float | None:
        """Estimate of what a row takes, by a few windows and values; None without rows.

        ``written`` are rows that were written last; their values are among those that are measured.
        """
        windows = self.windows.values()
        some = [*islice(windows, SAMPLE), *islice(reversed(windows), SAMPLE)]
        rows = sum(len(one.values) for one in some)
        if not rows:
            return None
        values = [*map(self.__getitem__, islice(written, SAMPLE)), *some[0].values[:SAMPLE]]
        keys = list(islice(self._keys, SAMPLE))
        value = sum(map(_own_size, values)) / max(1, len(values))
        key = ENTRY_BYTES + sum(map(deep_size, keys)) / max(1, len(keys))
        return sum(one.size() for one in some) / rows + value + key * len(self._keys) / self._rows

    def check_invariants(self) -> None:
        """Assert what must hold between two calls; for tests."""
        assert self._rows == sum(len(rows.slots) for rows in self.windows.values())
        for time, rows in self.windows.items():
            places = list(range(len(rows.values)))
            assert list(rows.slots.values()) == places, "the slots are not in order"
            assert len(rows.times) == len(rows.dirty) == len(places), "columns differ in length"
            assert rows.time == time, "a window is at another one's time"

    def _left(self, rows: WindowRows, count: int) -> None:
        """Take note of rows that were removed."""
        self._rows -= count
        if not rows.values:
            del self.windows[rows.time]
        elif count:
            rows.whole = False
        if len(self._keys) > 2 * self._rows:  # most of them are in no window any more
            keys = chain.from_iterable(one.slots for one in self.windows.values())
            self._keys = {key: key for key in keys}


def _own_size(value: Any) -> int:
    """Bytes of a value; none of an integer that Python has once for all."""
    return 0 if type(value) is int and -5 <= value <= 256 else deep_size(value)
