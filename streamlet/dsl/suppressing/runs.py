"""Runs of updates that ``suppress`` keeps and sends in columns, each planned before it is kept.

A run is planned record by record, on the order of the buffer alone: which updates go out with each
record, because they are due then or because the buffer is full. Then the run is kept at once, and
all that goes with it is sent at once. It ends before a record that needs to know what was sent: one
whose key went in the same run, or one that comes before the last that went.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from typing import Any, TypeAlias

import attrs

from streamlet.batch import Batch
from streamlet.state.buffer_rows import PLACES
from streamlet.state.buffer_store import BufferStore
from streamlet.state.ordered_rows import Place
from streamlet.state.store_specs import BufferSpec

#: Later than all times, and more than any bound.
_NEVER = 1 << 63

#: A place in the order: buffer time, key bytes and cache key.
_Entry: TypeAlias = tuple[int, bytes, Any]


@attrs.frozen
class Arrivals:
    """A batch of updates in columns: cache keys, least buffer times, and bytes if those count.

    ``due`` is the buffer time up to which updates go out with each record.
    """

    batch: Batch
    ckeys: list[Any]
    times: list[int]
    due: list[int]
    sizes: list[int] | None


@attrs.frozen
class PlannedRun:
    """The records up to ``end`` and the updates that go out with them.

    ``records`` are the indexes of the records that send these. With the last record more may have
    to go than is planned.
    """

    end: int
    places: list[Place]
    records: list[int]

    def before(self, end: int) -> PlannedRun:
        """The part of it whose records come before an index."""
        most = bisect_left(self.records, end)
        return PlannedRun(end, self.places[:most], self.records[:most])


@attrs.define
class Planner:
    """The plan of one run, as it grows.

    Args:
        arrivals: the batch; the rows of its keys are in the cache.
        store: the buffer as it is before the run.
        rules: when updates are due, and when the buffer is full.
        most: updates that are planned to go, at most.
    """

    arrivals: Arrivals
    store: BufferStore
    rules: BufferSpec
    most: int
    _count: int = 0
    _size: int = 0
    #: Keys that came in this run, with the bytes of their values.
    _came: dict[Any, int] = attrs.field(factory=dict)
    #: Updates of keys that are new to the buffer: those that came lately, the others as a heap.
    _lately: list[Place] = attrs.field(factory=list)
    _new: list[_Entry] = attrs.field(factory=list)
    #: What goes, the last one of it, and how much of the front of the order has gone.
    _gone: set[Any] = attrs.field(factory=set)
    _places: list[Place] = attrs.field(factory=list)
    _records: list[int] = attrs.field(factory=list)
    _last: _Entry | None = None
    _taken: int = 0

    def run(self, start: int) -> PlannedRun:
        """The run that begins at this record; it has one record at least."""
        arrivals, rules, came, gone = self.arrivals, self.rules, self._came, self._gone
        self._count, self._size = self.store.order.count, self.store.order.size
        first = self.store.first_time
        low = _NEVER if first is None else first
        room = _NEVER if rules.max_records is None else rules.max_records
        if self._is_quiet(start, low, room):
            return PlannedRun(len(arrivals.ckeys), [], [])
        placed, cached = rules.until == "time limit", self.store.rows.cache
        most = _NEVER if rules.max_bytes is None else rules.max_bytes
        for index in range(start, len(arrivals.ckeys)):
            ckey, time = arrivals.ckeys[index], arrivals.times[index]
            if ckey in gone:
                return PlannedRun(index, self._places, self._records)
            is_new = cached.get((PLACES if placed else time, ckey)) is None and ckey not in came
            if is_new:
                if self._is_behind(time, ckey):
                    return PlannedRun(index, self._places, self._records)
                self._lately.append((time, ckey))
                self._count += 1
                came[ckey] = 0
                if time < low:
                    low = time
            if arrivals.sizes is not None:
                self._measure(index, is_new, placed)
            if arrivals.due[index] >= low or self._count > room or self._size > most:
                next_time = self._send(index)
                if next_time is None:
                    return PlannedRun(index + 1, self._places, self._records)
                low = next_time
        return PlannedRun(len(arrivals.ckeys), self._places, self._records)

    def _is_quiet(self, start: int, low: int, room: int) -> bool:
        """True if nothing goes out with any of the records from one on, whatever their keys are."""
        times, due = self.arrivals.times, self.arrivals.due
        if self.rules.max_bytes is not None or self._count + len(times) - start > room:
            return False
        return due[-1] < low and due[-1] < min(times[start:])

    def _is_behind(self, time: int, ckey: Any) -> bool:
        """True if a new update would come before one that has gone: a run sends the first ones."""
        last = self._last
        if last is None or time > last[0]:
            return False
        return (time, self.store.order.raw_key(ckey)) < last[:2]

    def _measure(self, index: int, is_new: bool, placed: bool) -> None:
        """Count a value's bytes in place of those of the buffered value of its key."""
        sizes, ckey, store = self.arrivals.sizes, self.arrivals.ckeys[index], self.store
        assert sizes is not None
        if is_new:
            self._size += store.order.key_bytes(ckey)
        elif ckey in self._came:
            self._size -= self._came[ckey]
        else:
            time = store.rows.cache[PLACES, ckey] if placed else self.arrivals.times[index]
            self._size -= store.rows.cache[time, ckey][3]
        self._size += sizes[index]
        self._came[ckey] = sizes[index]

    def _is_full(self) -> bool:
        records, size = self.rules.max_records, self.rules.max_bytes
        if records is not None and self._count > records:
            return True
        return size is not None and self._size > size

    def _send(self, index: int) -> int | None:
        """Plan the updates sent with a record; the next buffer time, or None to end the run."""
        for time, ckey in self._lately:
            heappush(self._new, (time, self.store.order.raw_key(ckey), ckey))
        self._lately.clear()
        early, due = self.rules.when_full == "emit_early", self.arrivals.due[index]
        while first := self._first():
            if first[0] > due and not (early and self._is_full()):
                return None if self._is_full() else first[0]
            if len(self._places) >= self.most:
                return None
            self._take(first, index)
        return _NEVER if self.store.order.front_is_all else None

    def _first(self) -> _Entry | None:
        """The first update; None if there is none, or it was not read yet."""
        front, new = self.store.order.front, self._new
        if self._taken == len(front):
            return new[0] if new and self.store.order.front_is_all else None
        return min(front[self._taken], new[0]) if new else front[self._taken]

    def _take(self, first: _Entry, index: int) -> None:
        time, _, ckey = first
        if self._new and first is self._new[0]:
            heappop(self._new)
        else:
            self._taken += 1
        self._count -= 1
        if self.rules.max_bytes is not None:
            length = self._came.get(ckey)
            if length is None:
                row = self.store.load((time, ckey))
                assert row is not None, "the order has a row that is not there"
                length = row[3]
            self._size -= self.store.order.key_bytes(ckey) + length
        self._gone.add(ckey)
        self._places.append((time, ckey))
        self._records.append(index)
        self._last = first
