"""The rows of a store in the order of their times, of which the first ones are in memory.

A row is by a time and a key. What comes next is read from the front of the order some thousand rows
at a time, so the memory that the order takes does not grow with the store.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice, repeat
from typing import Any, TypeAlias

from streamlet.serdes import Serde
from streamlet.state.backing import Backing, Columns
from streamlet.state.buffer_rows import PLACES
from streamlet.state.record_keys import RecordKeys
from streamlet.state.rows import NO_TIME, TIME_BYTES
from streamlet.state.store import CachedStore
from streamlet.state.store_parts import Steps
from streamlet.state.store_times import EVER, StoreTimes
from streamlet.state.unreadable import rows_of_store
from streamlet.state.window_rows import row_keys, time_bytes

#: A row's cache key: buffer time and the cache key of the record key.
Place: TypeAlias = tuple[int, Any]

#: Rows of the front of the order in memory; twice as many at most.
FRONT = 4_096

_SIZES = struct.Struct(">qq")
_NOT_COUNTED = -1
#: The order of nothing that was read yet.
_UNREAD = (EVER, b"")


class OrderedRows:
    """Rows in the order of their times, and how much there is.

    Args:
        name: of the store.
        key: serde of the record keys.
        value: serde of the rows.
        backing: where the bytes are.
    """

    def __init__(self, name: str, key: Serde[Any], value: Serde[Any], backing: Backing) -> None:
        self.name, record = name, RecordKeys(key)
        self.ckeys, self.raw_key = record.ckeys, record.raw_key
        self.record_key, self.record_keys = record.record_key, record.record_keys
        self.times = StoreTimes(name, backing)
        steps = Steps(
            drained=self._drained,
            undone=self._undone,
            written=self._pinned_fresh_written,
            forgotten=self._forgotten,
            left=self.times.left,
            check_invariants=self._check_invariants,
        )
        keys, is_new = row_keys(key), self.times.is_new
        self.rows = CachedStore(name, keys, value, backing, self.times, (steps,), is_new)
        #: The first rows by time and key bytes, with their cache keys; all that are not above the
        #: limit. None: all there are.
        self._front: list[tuple[int, bytes, Any]] = []
        self._limit: tuple[int, bytes] | None = _UNREAD
        #: Rows above the limit that the medium may not have yet, and those that are on their way.
        self._fresh: list[tuple[int, bytes, Any]] = []
        self._pinned_fresh: list[tuple[int, bytes, Any]] = []
        self._sizes: tuple[int, int] | None = None

    # How much there is.

    @property
    def count(self) -> int:
        """Number of updates."""
        return self._counted()[0]

    @property
    def size(self) -> int:
        """Bytes of their keys and values, if those were counted from the first one on; else -1."""
        return self._counted()[1]

    def _counted(self) -> tuple[int, int]:
        if self._sizes is None:
            noted = self.times.progress.emitted
            with rows_of_store(self.name):
                self._sizes = _SIZES.unpack(noted) if noted else (0, 0)
        return self._sizes

    def count_bytes(self) -> None:
        """Count the bytes of all updates, in a store that did not while it had no such bound."""
        self._sizes = self.count, sum(self.size_of(place, row) for place, row in self.all())

    def size_of(self, place: Place, row: Any) -> int:
        """Bytes of the key and value of an update."""
        return self.key_bytes(place[1]) + int(row[3])

    def key_bytes(self, ckey: Any) -> int:
        """Bytes of a key."""
        return len(self.raw_key(ckey))

    # The order.

    @property
    def front(self) -> list[tuple[int, bytes, Any]]:
        """The first updates in the order of time and key bytes, with their cache keys.

        Not to be changed. ``first_time`` reads some if it is empty and there are any.
        """
        return self._front

    @property
    def front_is_all(self) -> bool:
        """True if no update is behind ``front``."""
        return self._limit is None

    # Adding and taking.

    def added(self, new: Sequence[Place], size: int | None) -> None:
        """Take note of new rows in the cache, and of how many bytes more there are, if counted."""
        self._add_sizes(len(new), size)
        if not new:
            return
        limit, raw = self._limit, self.raw_key
        entries = [(time, raw(ckey), ckey) for time, ckey in new]
        if limit is not None:
            self._fresh += [entry for entry in entries if entry[:2] > limit]
            entries = [entry for entry in entries if entry[:2] <= limit]
        if entries:  # only what is behind the first new one is to be sorted
            at = bisect_left(self._front, min(entries))
            behind = sorted(self._front[at:] + entries)
            self._front[at:] = behind
        if len(self._front) > 2 * FRONT:
            self._limit = self._front[FRONT - 1][:2]
            self._fresh += self._front[FRONT:]
            del self._front[FRONT:]

    @property
    def first_time(self) -> int | None:
        """The buffer time of the first update; None: there is none."""
        if not self._front and self._limit is not None:
            self._read_on()
        return self._front[0][0] if self._front else None

    def first(self, most: int, until: int | None = None) -> list[Place]:
        """Some of the first updates, at most so many, and up to a buffer time if one is given.

        An empty list: there is none.
        """
        if self.first_time is None:
            return []
        front = self._front
        end = len(front) if until is None else bisect_left(front, (until + 1,))
        return [(time, ckey) for time, _, ckey in islice(front, min(end, most))]

    def remove_first(self, places: Sequence[Place], placed: bool, size: int | None) -> None:
        """Delete the updates that ``first`` returned, of so many bytes, if those are counted.

        ``placed``: their keys have places.
        """
        del self._front[: len(places)]
        self._add_sizes(-len(places), None if size is None else -size)
        gone: list[Place] = list(places)
        if placed:
            gone += [(PLACES, ckey) for _, ckey in places]
        self.rows.cache.update(zip(gone, repeat(None)))
        self.rows.mark(gone, [NO_TIME] * len(gone))

    def _add_sizes(self, count: int, size: int | None) -> None:
        was_count, was_size = self._counted()
        now = was_count + count
        if not now:
            self._sizes = 0, 0
        elif size is None or was_size == _NOT_COUNTED:
            self._sizes = now, _NOT_COUNTED
        else:
            self._sizes = now, was_size + size

    def note(self, observed: int, highest: int) -> None:
        """Raise the stream time and the latest buffer time, and note how much there is."""
        self.times.advance(observed, highest, _SIZES.pack(*self._counted()))

    def _read_on(self) -> None:
        """Read the next rows of the order."""
        assert self._limit is not None
        low = time_bytes(0)
        if self._limit is not _UNREAD:
            low = time_bytes(self._limit[0]) + self._limit[1] + b"\x00"
        self._fresh += self._pinned_fresh
        self._pinned_fresh = []
        self._fresh.sort()
        found: dict[tuple[int, bytes], Any] = {}
        for time, raw, ckey in merge(self._fresh, self._stored(low)):
            if len(found) == FRONT:
                break
            if (
                self.rows.cache.get((time, ckey), ckey) is not None
            ):  # not removed since it was added
                found[time, raw] = ckey
        self._front = [(*order, ckey) for order, ckey in found.items()]
        self._limit = self._front[-1][:2] if len(found) == FRONT else None
        end = len(self._fresh)
        if self._limit is not None:
            end = bisect_right(self._fresh, self._limit, key=lambda entry: entry[:2])
        del self._fresh[:end]

    def _stored(self, low: bytes) -> Iterator[tuple[int, bytes, Any]]:
        """Rows of the medium from a key on, which are in the cache then."""
        cache, commits = self.rows.cache, self.rows.commits
        with rows_of_store(self.name):
            for key, raw in commits.backing.scan(low, None):
                place = time, ckey = commits.key.decode(key)
                if place not in cache:
                    self.rows.keep(place, raw)
                if cache[place] is not None:
                    yield time, key[TIME_BYTES:], ckey

    def remove(self, time: int, key: Any) -> None:
        """Delete one row, from the order too, where that was read."""
        self.rows.erase((time, key))
        self._add_sizes(-1, None)
        raw = self.raw_key(key)
        if self._limit is None or (time, raw) <= self._limit:
            del self._front[bisect_left(self._front, (time, raw, b""))]

    def all(self, low: int = 0, high: int | None = None) -> Iterator[tuple[Place, Any]]:
        """Rows by their places, from one time to another, both inclusive."""
        last = None if high is None else time_bytes(high + 1)
        return ((place, row) for place, row, _ in self.rows.commits.scan(time_bytes(low), last))

    # Commits.

    def _drained(self, columns: Columns) -> Columns:
        self._pinned_fresh, self._fresh = self._pinned_fresh + self._fresh, []
        return columns

    def _undone(self) -> None:
        self._fresh, self._pinned_fresh = self._pinned_fresh + self._fresh, []

    def _pinned_fresh_written(self) -> None:
        self._pinned_fresh = []

    def _forgotten(self) -> None:
        self._front, self._limit, self._sizes = [], _UNREAD, None
        self._fresh, self._pinned_fresh = [], []

    def _check_invariants(self) -> None:
        order = [(time, self.raw_key(ckey)) for (time, ckey), _ in self.all()]
        front = [entry[:2] for entry in self._front]
        limit = self._limit
        wanted = order if limit is None else [one for one in order if one <= limit]
        assert front == wanted, "the front is not that of the order"
        assert self.count == len(order), "the count is wrong"
