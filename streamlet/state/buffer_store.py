"""The store of updates that ``suppress`` keeps back, in the order of their buffer times.

An update is a row by its buffer time and key. Where the buffer time is that of the first update of
a key, a second row says which it is (``buffer_rows.PLACES``). What comes next is read from the
front of the order some thousand rows at a time, so the memory that the order takes does not grow
with the buffer. Updates that were sent are deleted like any row, in the changelog too.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice, repeat
from typing import Any, TypeAlias

from streamlet.errors import StateError
from streamlet.serdes import Serde
from streamlet.state.backing import Backing, Columns
from streamlet.state.buffer_rows import PLACES, Buffered
from streamlet.state.progress_store import EVER, ProgressStore
from streamlet.state.rows import NO_TIME, TIME_BYTES, time_of_row
from streamlet.state.unreadable import rows_of_store
from streamlet.state.window_rows import time_bytes

#: A row's cache key: buffer time and the cache key of the record key.
Place: TypeAlias = tuple[int, Any]

#: Rows of the front of the order in memory; twice as many at most.
FRONT = 4_096

_SIZES = struct.Struct(">qq")
_NOT_COUNTED = -1
#: The order of nothing that was read yet.
_UNREAD = (EVER, b"")


class BufferStore(ProgressStore):
    """A store of updates that are to be sent later.

    Args:
        name: of the store.
        key: serde of the record keys.
        value: serde of the rows (``buffer_rows``).
        backing: where the bytes are.
    """

    def __init__(self, name: str, key: Serde[Any], value: Serde[Any], backing: Backing) -> None:
        super().__init__(name, key, value, backing)
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
            noted = self.progress.emitted
            with rows_of_store(self.name):
                self._sizes = _SIZES.unpack(noted) if noted else (0, 0)
        return self._sizes

    def count_bytes(self) -> None:
        """Count the bytes of all updates, in a store that did not while it had no such bound."""
        self._sizes = self.count, sum(self.size_of(place, row) for place, row in self._rows())

    def size_of(self, place: Place, row: Buffered) -> int:
        """Bytes of the key and value of an update."""
        return self.key_bytes(place[1]) + row[3]

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
        self.cache.update(zip(gone, repeat(None)))
        self.mark(gone, [NO_TIME] * len(gone))

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
        self.advance(observed, highest, _SIZES.pack(*self._counted()))

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
            if self.cache.get((time, ckey), ckey) is not None:  # not removed since it was added
                found[time, raw] = ckey
        self._front = [(*order, ckey) for order, ckey in found.items()]
        self._limit = self._front[-1][:2] if len(found) == FRONT else None
        end = len(self._fresh)
        if self._limit is not None:
            end = bisect_right(self._fresh, self._limit, key=lambda entry: entry[:2])
        del self._fresh[:end]

    def _stored(self, low: bytes) -> Iterator[tuple[int, bytes, Any]]:
        """Rows of the medium from a key on, which are in the cache then."""
        cache, keep = self.cache, self._keep or self.cache.__setitem__
        with rows_of_store(self.name):
            for key, raw in self._backing.scan(low, None):
                place = time, ckey = self._key.decode(key)
                if place not in cache:
                    keep(place, self._decoded(raw))
                    self._times[place] = time_of_row(raw)
                if cache[place] is not None:
                    yield time, key[TIME_BYTES:], ckey

    def raw_key(self, ckey: Any) -> bytes:
        """The bytes of a record key."""
        return ckey if self._record_key.exact is None else self._record_key.encode(ckey)

    def record_keys(self, ckeys: list[Any]) -> list[Any]:
        """The record keys of a column of cache keys."""
        return (
            ckeys if self._record_key.exact is not None else self._record_key.decode_column(ckeys)
        )

    def sent_value(self, placed: bool) -> Callable[[Any, Any], Any]:
        """A function ``(key, value) -> value`` that makes a table's value the one sent last.

        ``placed``: keys have places.
        """

        def sent(key: Any, value: Any) -> Any:
            (ckey,) = self.ckeys([key])
            time = self.load((PLACES, ckey)) if placed else key.end
            row = None if time is None else self.load((time, ckey))
            return value if row is None else row[1]

        return sent

    # The way for all stores.

    def range(self, low: Any | None = None, high: Any | None = None) -> Iterator[tuple[Any, Any]]:
        """Keys and values of the updates from one buffer time to another (ms, both inclusive)."""
        for (_, ckey), row in self._rows(low or 0, high):
            yield self.record_key(ckey), row[0]

    def put(self, key: Any, value: Any | None, time_ms: int = NO_TIME) -> None:
        """Raises ``StateError``: only ``suppress`` writes it."""
        raise StateError(f"store {self.name}: it is a buffer of suppress(), which alone writes it")

    def _rows(self, low: int = 0, high: int | None = None) -> Iterator[tuple[Place, Buffered]]:
        return self._scan(time_bytes(low), None if high is None else time_bytes(high + 1))

    # What the task's state does with it.

    def drain(self, again: Iterable[bytes] = ()) -> Columns:
        """Encode the dirty entries and the progress."""
        columns = super().drain(again)
        self._pinned_fresh, self._fresh = self._pinned_fresh + self._fresh, []
        return columns

    def undo_drain(self) -> None:
        """Take back a drain: the entries are dirty again."""
        self._fresh, self._pinned_fresh = self._pinned_fresh + self._fresh, []
        super().undo_drain()

    def written(self) -> dict[Any, int]:
        """Note that a drain is on the medium; its cache keys need not stay in the cache."""
        self._pinned_fresh = []
        return super().written()

    def forget(self) -> None:
        """Empty the cache: what is on the medium has changed."""
        super().forget()
        self._front, self._limit, self._sizes = [], _UNREAD, None
        self._fresh, self._pinned_fresh = [], []

    def check_invariants(self) -> None:
        """Assert what must hold between two calls; for tests."""
        super().check_invariants()
        order = [(time, self.raw_key(ckey)) for (time, ckey), _ in self._rows()]
        front = [entry[:2] for entry in self._front]
        limit = self._limit
        wanted = order if limit is None else [one for one in order if one <= limit]
        assert front == wanted, "the front is not that of the order"
        assert self.count == len(order), "the count is wrong"
