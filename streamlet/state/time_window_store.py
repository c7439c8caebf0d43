"""The store of tumbling, hopping and unlimited windows: a row each, in the cache by window.

It is a ``WindowRowStore`` whose cache is a ``WindowCache``. Operators work on its windows in their
loops, by these rules.

1. ``rows`` gives a window, ``slots`` in it the slot of a cache key of a record key. A key that is
   not there is fetched with ``slot``, many at a time with ``load_windows``.
2. Who writes ``values[slot]`` writes ``times[slot]`` and calls ``changed`` where ``dirty[slot]`` is
   0. Who writes a time above ``latest`` raises that as well.
3. A value is given to ``check`` before it is written, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, compress
from typing import Any

from streamlet.serdes import Serde
from streamlet.state.backing import Backing, Columns
from streamlet.state.checked import EntryCheck
from streamlet.state.eviction import KEPT_AFTER_EVICTION
from streamlet.state.rows import NO_TIME, time_of_row
from streamlet.state.sizes import ENTRY_BYTES
from streamlet.state.window_cache import WindowCache, WindowRows
from streamlet.state.window_rows import WindowLayout
from streamlet.state.window_store import WindowRowStore

#: What a dirty row takes beside its entry in the cache: a key of a dict, which is a pair.
_DIRTY_BYTES = ENTRY_BYTES + 72


class TimeWindowStore(WindowRowStore):
    """A store of windows, one in each row.

    Args:
        name: of the store.
        layout: keys, retention and size of the windows.
        value: serde of the rows' values.
        backing: where the bytes are.
    """

    cache: WindowCache  # type: ignore[assignment]

    def __init__(
        self, name: str, layout: WindowLayout, value: Serde[Any], backing: Backing
    ) -> None:
        super().__init__(name, layout, value, backing)
        self.cache = WindowCache()
        #: Refuses what cannot be written, by its cache key; None: takes all.
        self.check: EntryCheck | None = None

    # The hot way.

    def rows(self, time: int) -> WindowRows:
        """The window of this time, which is in the cache afterwards."""
        rows = self.cache.windows.get(time)
        return self.cache.begin(time, self._is_new(time)) if rows is None else rows

    def emptied(self, time: int) -> WindowRows:
        """The window of this time, which has expired, without the rows that it had."""
        rows = self.cache.windows.get(time)
        if rows is not None and self._drop(rows, len(rows.values))[1]:
            self._overlay.written()  # it counts on dicts that only grow
        return self.cache.begin(time, True)

    def slot(self, rows: WindowRows, key: Any) -> int:
        """The slot of a row, which is in the cache afterwards, also if there is none."""
        slot = rows.slots.get(key)
        if slot is not None:
            return slot
        raw = None if rows.whole else self._backing.get(self._key.encode((rows.time, key)))
        if raw is None:
            return self.cache.add(rows, key)
        return self.cache.add(rows, key, self._decoded(raw), time_of_row(raw))

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

    def load_windows(self, times: list[int], keys: list[Any]) -> None:
        """Fetch windows by columns of times and keys, as ``load_many``."""
        windows = {time: self.rows(time) for time in set(times)}
        partial = {time: rows.slots for time, rows in windows.items() if not rows.whole}
        if not partial:
            return
        pairs = (pair for pair in zip(times, keys, strict=True) if pair[0] in partial)
        wanted = list(dict.fromkeys(pair for pair in pairs if pair[1] not in partial[pair[0]]))
        if not wanted:
            return
        raws = self._backing.get_many(self._to_bytes(wanted))
        for (time, key), raw, value in zip(wanted, raws, self._decoded_all(raws), strict=True):
            row_time = NO_TIME if raw is None else time_of_row(raw)
            self.cache.add(windows[time], key, value, row_time)

    def time_of(self, ckey: Any) -> int:
        """The time of a row that is in the cache, ms; -1 if it has none."""
        found = self.cache.find(ckey)
        return NO_TIME if found is None else found[0].times[found[1]]

    def times_of(self, ckeys: list[Any]) -> list[int]:
        """The times of rows that are in the cache, ms; -1 of those that have none."""
        return list(map(self.time_of, ckeys))

    # The way for all stores.

    def put(self, key: Any, value: Any | None, time_ms: int = NO_TIME) -> None:
        """Set the value of a ``Windowed`` key, or delete it with None.

        Raises:
            SerdeError: the key is of a wrong type.
        """
        time, ckey = self._row(key.key, key.start)
        if self.check is not None:
            self.check((time, ckey), value)
        rows = self.rows(time)
        slot = rows.slots.get(ckey)
        if slot is None:
            slot = self.cache.add(rows, ckey)
        rows.values[slot] = value
        rows.times[slot] = time_ms
        self.changed(rows, ckey, slot)
        self.latest = max(self.latest, time_ms)
        self.advance(NO_TIME, key.start)

    def check_entries(self, most: int | None) -> None:
        """Refuse from now on what has no bytes, or makes a record of more than so many bytes."""
        self.check = EntryCheck(self.name, self._size, most)

    # What the task's state does with it.

    def drain(self, again: Iterable[bytes] = ()) -> Columns:
        """Encode the dirty entries, the progress and the range of rows that have expired."""
        columns = super().drain(again)
        for time in {time for time, _ in self._pinned}:
            rows = self.cache.windows[time]
            rows.dirty = bytearray(len(rows.dirty))
        return columns

    def undo_drain(self) -> None:
        """Take back a drain: the entries are dirty again."""
        for ckey in self._pinned:
            rows = self.cache.windows[ckey[0]]
            rows.dirty[rows.slots[ckey[1]]] = 1
        super().undo_drain()

    def _dirty_columns(self) -> tuple[list[Any], list[int]]:
        values: list[Any] = []
        times: list[int] = []
        windows = self.cache.windows
        for time, key in self.dirty:
            rows = windows[time]
            slot = rows.slots[key]
            values.append(rows.values[slot])
            times.append(rows.times[slot])
        return values, times

    def written(self) -> dict[Any, int]:
        """Note that a drain is on the medium; its cache keys need not stay in the cache."""
        done, self._pinned = self._pinned, {}  # the cache has their times
        super().written()
        return done

    def _forget_expired(self, most: int) -> None:
        """Take up to ``most`` expired rows out of the cache; their changes are never written."""
        windows, kept_from, gone = self.cache.windows, self.kept_from, False
        expired = sorted(time for time in windows if time < kept_from)
        for time in expired:
            if most <= 0:
                break
            count, changed = self._drop(windows[time], most)
            most, gone = most - count, gone or changed
        if not expired or expired[-1] not in windows:
            self._forgotten = kept_from
        if gone:
            self._overlay.written()  # it counts on dicts that only grow

    def _drop(self, rows: WindowRows, most: int) -> tuple[int, bool]:
        """Take up to so many rows of an expired window out; how many, and if any was changed."""
        time, gone = rows.time, False
        dirty = any(rows.dirty) or bool(self._pinned)
        keys = self.cache.take(rows, most)
        for key in keys if dirty else ():
            gone |= self.dirty.pop((time, key), None) is not None
            gone |= self._pinned.pop((time, key), None) is not None
        self._left_cache([(time, None)])
        return len(keys), gone

    def cache_bytes(self) -> int:
        """Estimate of what the cache takes in memory."""
        held = len(self.dirty) + len(self._pinned)
        return super().cache_bytes() + held * _DIRTY_BYTES

    def dirty_bytes(self) -> int:
        """Estimate of what the entries take that cannot be evicted."""
        held = len(self.dirty) + len(self._pinned)
        return super().dirty_bytes() + held * _DIRTY_BYTES

    def evict(self, limit_bytes: int, recent: Iterable[Any] = ()) -> None:
        """Drop clean entries, as ``CachedStore`` does, window by window."""
        if self.cache_bytes() <= limit_bytes:
            return
        held = (len(self.dirty) + len(self._pinned)) * _DIRTY_BYTES
        room = max(0.0, limit_bytes * KEPT_AFTER_EVICTION - held)
        count = len(self.cache) - int(room / self._entry_size.of(len(self.cache)))
        pinned, windows = _by_time(self._pinned), self.cache.windows
        for kept in (_by_time(chain(self._pinned, recent)), pinned):
            for rows in list(windows.values()):
                if count <= 0:
                    return
                stay = rows.dirty.copy()
                for slot in map(rows.slots.get, kept.get(rows.time, ())):
                    if slot is not None:
                        stay[slot] = 1
                count -= self.cache.drop(rows, stay, count)
                if rows.time not in windows:
                    self._left_cache([(rows.time, None)])

    def check_invariants(self) -> None:
        """Assert what must hold between two calls; for tests."""
        super().check_invariants()
        self.cache.check_invariants()
        dirty = {
            (time, key)
            for time, rows in self.cache.windows.items()
            for key in compress(rows.slots, rows.dirty)
        }
        assert dirty == self.dirty.keys(), "the marks and the dirty rows differ"

    # Inside.

    def _entry(self, key: bytes, ckey: Any, raw: bytes | None) -> Iterator[tuple[Any, Any, int]]:
        """The entry as it is now, unless it is deleted; scanned values do not fill the cache."""
        found = self.cache.find(ckey)
        if found is not None:
            rows, slot = found
            value, time = rows.values[slot], rows.times[slot]
        elif raw is not None:
            value, time = self._decoded(raw), time_of_row(raw)
        else:
            value, time = self.load(ckey), self.time_of(ckey)
        if value is not None:
            yield ckey, value, time

    def _sampled_bytes(self) -> float | None:
        return self.cache.entry_bytes(reversed(self.dirty))


def _by_time(ckeys: Iterable[tuple[int, Any]]) -> dict[int, list[Any]]:
    """Keys by the times of their windows."""
    found: dict[int, list[Any]] = {}
    for time, key in ckeys:
        found.setdefault(time, []).append(key)
    return found
