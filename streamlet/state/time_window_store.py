"""The store of tumbling, hopping and unlimited windows: a row each, in the cache by window.

Its cache is a ``WindowCache``. Operators work on its windows in their
loops, by these rules.

1. ``rows`` gives a window, ``slots`` in it the slot of a cache key of a record key. A key that is
   not there is fetched with ``slot``, many at a time with ``load_windows``.
2. Who writes ``values[slot]`` writes ``times[slot]`` and calls ``changed`` where ``dirty[slot]`` is
   0, or always where the store has ``unmarked``. Who writes a time above ``commits.latest`` raises
   that as well.
3. A value is given to ``check`` before it is written, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, compress
from typing import Any

from streamlet.serdes import Serde, Windowed
from streamlet.state.backing import Backing
from streamlet.state.checked import EntryCheck
from streamlet.state.eviction import KEPT_AFTER_EVICTION
from streamlet.state.rows import NO_TIME, Changes, time_of_row
from streamlet.state.sizes import ENTRY_BYTES
from streamlet.state.store_commits import StoreCommits
from streamlet.state.store_specs import WindowSpec
from streamlet.state.window_cache import WindowCache, WindowRows
from streamlet.state.window_reads import ALL_KEYS, KeyRange, WindowReads
from streamlet.state.window_rows import row_keys
from streamlet.state.window_times import StoreOfWindows, WindowTimes

#: What a dirty row takes beside its entry in the cache: a key of a dict, which is a pair.
_DIRTY_BYTES = ENTRY_BYTES + 72


class Unmarked:
    """A column of marks in which no row ever counts as dirty: each write of one is noted."""

    def __getitem__(self, _slot: int) -> int:
        """No mark."""
        return 0


class TimeWindowStore(StoreOfWindows):
    """A store of windows, one in each row.

    Args:
        name: of the store.
        layout: keys, retention and size of the windows.
        value: serde of the rows' values.
        backing: where the bytes are.
    """

    dirty_row_bytes = _DIRTY_BYTES

    def __init__(self, name: str, layout: WindowSpec, value: Serde[Any], backing: Backing) -> None:
        self.name, self.layout = name, layout
        self.cache = WindowCache()
        self.times = times = WindowTimes(name, layout, backing, self._forget)
        keys = row_keys(layout.key)
        self.commits = StoreCommits(name, keys, value, backing, self, times.row, (times.steps,))
        self.dirty = self.commits.dirty
        self.reads = WindowReads(self.commits, times)
        self.observed, self.keep_expired = times.row.observed, times.keep_expired
        self.advance, self.observe = times.advance, times.observe
        self.ckeys, self.record_key = self.reads.ckeys, self.reads.record_key
        self.row_ids = self.reads.row_ids
        #: Refuses what cannot be written, by its cache key; None: takes all.
        self.check: EntryCheck | None = None
        #: In place of the marks of dirty rows where each write is noted; None: it is not.
        self.unmarked: Unmarked | None = None

    # The hot way.

    def rows(self, time: int) -> WindowRows:
        """The window of this time, which is in the cache afterwards."""
        rows = self.cache.windows.get(time)
        return self.cache.begin(time, self.times.row.is_new(time)) if rows is None else rows

    def emptied(self, time: int) -> WindowRows:
        """The window of this time, which has expired, without the rows that it had."""
        rows = self.cache.windows.get(time)
        if rows is not None:
            self._drop(rows, len(rows.values))
        return self.cache.begin(time, True)

    def slot(self, rows: WindowRows, key: Any) -> int:
        """The slot of a row, which is in the cache afterwards, also if there is none."""
        slot = rows.slots.get(key)
        if slot is not None:
            return slot
        raw = None if rows.whole else self.commits.stored((rows.time, key))
        if raw is None:
            return self.cache.add(rows, key)
        return self.cache.add(rows, key, self.commits.decoded(raw), time_of_row(raw))

    def changed(self, rows: WindowRows, key: Any, slot: int) -> None:
        """Take note that a row was written, which was not dirty."""
        rows.dirty[slot] = 1
        self.dirty[rows.time, self.cache.shared(key)] = NO_TIME  # the cache has its time

    def load(self, ckey: tuple[int, Any]) -> Any | None:
        """The value of a row by its cache key, or None; it is in the cache afterwards."""
        rows = self.rows(ckey[0])
        return rows.values[self.slot(rows, ckey[1])]

    def load_many(self, ckeys: Iterable[tuple[int, Any]]) -> None:
        """Fetch what may be on the medium only; one call to the medium for all."""
        pairs = list(ckeys)
        self.load_windows([time for time, _ in pairs], [key for _, key in pairs])

    def load_windows(self, times: list[int], keys: list[Any]) -> dict[int, WindowRows]:
        """Fetch windows by columns of times and keys, as ``load_many``; the windows by time."""
        windows = {time: self.rows(time) for time in set(times)}
        partial = {time: rows.slots for time, rows in windows.items() if not rows.whole}
        if not partial:
            return windows
        pairs = (pair for pair in zip(times, keys, strict=True) if pair[0] in partial)
        wanted = list(dict.fromkeys(pair for pair in pairs if pair[1] not in partial[pair[0]]))
        if not wanted:
            return windows
        raws = self.commits.stored_many(wanted)
        values = self.commits.decoded_all(raws)
        for (time, key), raw, value in zip(wanted, raws, values, strict=True):
            row_time = NO_TIME if raw is None else time_of_row(raw)
            self.cache.add(windows[time], key, value, row_time)
        return windows

    def time_of(self, ckey: Any) -> int:
        """The time of a row that is in the cache, ms; -1 if it has none."""
        found = self.cache.find(ckey)
        return NO_TIME if found is None else found[0].times[found[1]]

    def times_of(self, ckeys: list[Any]) -> list[int]:
        """The times of rows that are in the cache, ms; -1 of those that have none."""
        return list(map(self.time_of, ckeys))

    # The way for all stores.

    def get(self, key: Windowed[Any]) -> Any | None:
        """The value of a window, or None; errors as of ``fetch``."""
        return self.fetch(key.key, key.start)

    def fetch(self, key: Any, start_ms: int) -> Any | None:
        """The value of a key's window that begins at this time, or None.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the stored value cannot be decoded.
        """
        return None if start_ms < self.shown_from else self.load(self.reads.row(key, start_ms))

    def timestamp(self, key: Windowed[Any]) -> int | None:
        """The time of the row of a window, ms; None if there is no such row, or it has no time."""
        ckey = self.reads.row(key.key, key.start)
        time = NO_TIME if self.load(ckey) is None else self.time_of(ckey)
        return None if time == NO_TIME else time

    def range(
        self, low: int | None = None, high: int | None = None
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """All ``windows`` from one start to another."""
        return self.windows(low, high, ALL_KEYS)

    def windows(
        self, low: int | None, high: int | None, keys: KeyRange, *, backward: bool = False
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """Windows that begin from ``low`` to ``high`` (ms, both inclusive) with their values.

        In the order of their starts, then of the bytes of their keys, or the last one first.
        """
        found = self.reads.timed(low, high, keys, backward=backward)
        return ((key, value) for key, value, _ in found)

    def put(self, key: Any, value: Any | None, time_ms: int = NO_TIME) -> None:
        """Set the value of a ``Windowed`` key, or delete it with None.

        Raises:
            SerdeError: the key is of a wrong type.
        """
        time, ckey = self.reads.row(key.key, key.start)
        if self.check is not None:
            self.check((time, ckey), value)
        rows = self.rows(time)
        slot = rows.slots.get(ckey)
        if slot is None:
            slot = self.cache.add(rows, ckey)
        rows.values[slot] = value
        rows.times[slot] = time_ms
        self.changed(rows, ckey, slot)
        self.commits.reached(time_ms)
        self.advance(NO_TIME, key.start)

    # Expired rows.

    def _forget(self, most: int) -> None:
        """Take up to ``most`` expired rows out of the cache; their changes are never written."""
        windows, kept_from = self.cache.windows, self.times.kept_from
        expired = sorted(time for time in windows if time < kept_from)
        for time in expired:
            if most <= 0:
                break
            most -= self._drop(windows[time], most)
        if not expired or expired[-1] not in windows:
            self.times.forgotten = kept_from

    def _drop(self, rows: WindowRows, most: int) -> int:
        """Take up to so many rows of an expired window out of the cache; how many."""
        time, changed = rows.time, any(rows.dirty) or bool(self.commits.pinned)
        keys = self.cache.take(rows, most)
        if changed:
            self.commits.unmark([(time, key) for key in keys])
        self.times.row.left([(time, None)])
        return len(keys)

    # What its commits do with the rows in memory.

    def changes(self, olds: bool) -> Changes:
        """The rows that were written since the last commit, and if ``olds``, what they were then.

        All commits before must be on the medium.
        """
        return self.commits.changes(olds, self.reads.keys_of)

    def count(self) -> int:
        """Number of rows in the cache."""
        return len(self.cache)

    def entry(self, ckey: Any) -> tuple[Any, int] | None:
        """The value and the time of a row; None: it is not in the cache."""
        found = self.cache.find(ckey)
        if found is None:
            return None
        rows, slot = found
        return rows.values[slot], rows.times[slot]

    def columns(self, ckeys: Iterable[Any]) -> tuple[list[Any], list[int]]:
        """The values and the times of rows that are dirty."""
        values: list[Any] = []
        times: list[int] = []
        windows = self.cache.windows
        for time, key in ckeys:
            rows = windows[time]
            slot = rows.slots[key]
            values.append(rows.values[slot])
            times.append(rows.times[slot])
        return values, times

    def delete(self, ckey: Any) -> None:
        """Delete a row that has no bytes."""
        rows, slot = self.cache.windows[ckey[0]], self.cache.windows[ckey[0]].slots[ckey[1]]
        rows.values[slot] = None

    def drained(self) -> None:
        """Take the marks of dirty rows off."""
        for time in {time for time, _ in self.commits.pinned}:
            rows = self.cache.windows[time]
            rows.dirty = bytearray(len(rows.dirty))

    def undone(self) -> None:
        """Mark pinned rows as dirty again."""
        for ckey in self.commits.pinned:
            rows = self.cache.windows[ckey[0]]
            rows.dirty[rows.slots[ckey[1]]] = 1

    def written(self, done: dict[Any, int]) -> None:
        """Do nothing: the cache has the times of all rows."""

    def clear(self) -> None:
        """Empty the cache."""
        self.cache.clear()

    def evict(self, limit_bytes: int, recent: Iterable[Any]) -> None:
        """Drop clean entries until the cache is below the limit, window by window."""
        room = max(0.0, limit_bytes * KEPT_AFTER_EVICTION - self.commits.held_bytes)
        count = len(self.cache) - int(room / self.commits.row_bytes)
        pinned, windows = _by_time(self.commits.pinned), self.cache.windows
        for kept in (_by_time(chain(self.commits.pinned, recent)), pinned):
            for rows in list(windows.values()):
                if count <= 0:
                    return
                stay = rows.dirty.copy()
                for slot in map(rows.slots.get, kept.get(rows.time, ())):
                    if slot is not None:
                        stay[slot] = 1
                count -= self.cache.drop(rows, stay, count)
                if rows.time not in windows:
                    self.times.row.left([(rows.time, None)])

    def sampled_bytes(self) -> float | None:
        """Estimate of what a row takes, bytes; None without rows."""
        return self.cache.entry_bytes(reversed(self.dirty))

    def refuse(self, check: EntryCheck) -> None:
        """Refuse from now on rows that do not pass a check, when they are put."""
        self.check = check

    def check_invariants(self) -> None:
        """Assert what must hold between two calls; for tests."""
        self.cache.check_invariants()
        dirty = {
            (time, key)
            for time, rows in self.cache.windows.items()
            for key in compress(rows.slots, rows.dirty)
        }
        assert dirty == self.dirty.keys(), "the marks and the dirty rows differ"


def _by_time(ckeys: Iterable[tuple[int, Any]]) -> dict[int, list[Any]]:
    """Keys by the times of their windows."""
    found: dict[int, list[Any]] = {}
    for time, key in ckeys:
        found.setdefault(time, []).append(key)
    return found
