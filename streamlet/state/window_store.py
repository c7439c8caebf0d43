"""The window store of one task: rows by time and key, which expire by their times.

It is a ``ProgressStore`` whose times are those of windows, so a record that was late stays late on
any host. What it adds:

- Windows older than the retention are not shown. They leave the cache, and the medium with the next
  commit, by one range deletion. Nothing about them is written to the changelog: a reader deletes
  them by the times in the progress row.

What lies in the cache differs: a ``TimeWindowStore`` has the rows of each window together, a
``SpanStore`` a plain dict.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import attrs

from streamlet.serdes import Serde
from streamlet.serdes.windowed import NO_END, Windowed, windowed_of
from streamlet.state.backing import Backing, Columns
from streamlet.state.progress_store import EVER, ProgressStore
from streamlet.state.rows import NO_TIME
from streamlet.state.window_rows import (
    FIRST_KEY,
    PROGRESS_KEY,
    WindowLayout,
    WindowProgress,
    time_bytes,
)

#: The bytes of the first and the last record key of a range, both inclusive; None: an open end.
KeyRange: TypeAlias = tuple[bytes | None, bytes | None]
ALL_KEYS: KeyRange = (None, None)

#: Expired rows that leave the cache in one call, at most; a later call takes the next.
FORGET_ROWS = 5_000


class WindowRowStore(ProgressStore):
    """A store of rows by time; its methods for all stores take a row for a window.

    Args:
        name: of the store.
        layout: keys, retention and size of the windows.
        value: serde of the rows' values.
        backing: where the bytes are.
    """

    def __init__(
        self, name: str, layout: WindowLayout, value: Serde[Any], backing: Backing
    ) -> None:
        super().__init__(name, layout.key, value, backing)
        self.layout = layout
        #: Rows below this time are out of the cache; those of the medium below the next one are
        #: deleted.
        self._forgotten = EVER
        self._deleted = EVER
        self._pinned_deleted: int | None = None
        #: Rows from this time on must be kept although they have expired; None: there are none.
        self.needed_from: int | None = None

    # Times.

    @property
    def shown_from(self) -> int:
        """The earliest time of a window that may be shown, ms; all earlier ones have expired."""
        return self._shown_from(self.progress)

    @property
    def kept_from(self) -> int:
        """The time below which rows hold nothing that is shown or needed, ms."""
        return self._row_time(self._items_from())

    @property
    def drained_highest(self) -> int:
        """The latest window put before the last drain, ms."""
        return self._progress.drained.highest

    def advance(self, observed: int, highest: int = NO_TIME, emitted: bytes | None = None) -> None:
        """Raise the stream time and the latest window that was put, and note what was emitted."""
        super().advance(observed, highest, emitted)
        if self.kept_from > self._forgotten:
            self._forget_expired(FORGET_ROWS)

    def _shown_from(self, progress: WindowProgress) -> int:
        retention = self.layout.retention_ms
        if retention is None or progress.highest == NO_TIME:
            return EVER
        return progress.highest - retention + 1

    def _items_from(self) -> int:
        """Windows before this time are neither shown nor needed."""
        kept, needed = self._kept(self.progress), self.needed_from
        return kept if needed is None else min(kept, needed)

    def _row_time(self, time: int) -> int:
        """The time in the key of the row that a window of this time is in."""
        bucket = self.layout.bucket_ms
        return time if bucket == 0 or time == EVER else time - time % bucket

    @abstractmethod
    def _forget_expired(self, most: int) -> None:
        """Take up to ``most`` expired rows out of the cache; their changes are never written."""

    # The way for all stores.

    def get(self, key: Any) -> Any | None:
        """The value of a ``Windowed`` key, or None.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the stored value cannot be decoded.
        """
        return self.fetch(key.key, key.start)

    def fetch(self, key: Any, start_ms: int) -> Any | None:
        """The value of a key's window that begins at this time, or None.

        Raises:
            SerdeError: the key is of a wrong type.
            StateError: the stored value cannot be decoded.
        """
        return None if start_ms < self.shown_from else self.load(self._row(key, start_ms))

    def timestamp(self, key: Any) -> int | None:
        """The time of the row of a ``Windowed`` key, ms; None if there is no such row."""
        ckey = self._row(key.key, key.start)
        time = NO_TIME if self.load(ckey) is None else self.time_of(ckey)
        return None if time == NO_TIME else time

    def range(self, low: Any | None = None, high: Any | None = None) -> Iterator[tuple[Any, Any]]:
        """Windows that begin from ``low`` to ``high`` (ms, both inclusive) with their values.

        In the order of their starts, then of the bytes of their keys.
        """
        return self.windows(low, high, ALL_KEYS)

    def windows(
        self, low: int | None, high: int | None, keys: KeyRange, *, backward: bool = False
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """The windows of ``range`` whose record keys are in a range, or the last one first."""
        found = self._timed_windows(low, high, keys, backward=backward)
        return ((key, value) for key, value, _ in found)

    def timed_range(
        self, low: int | None = None, high: int | None = None
    ) -> Iterator[tuple[Windowed[Any], Any, int]]:
        """The windows of ``range``, each with the time of its row, ms."""
        return self._timed_windows(low, high, ALL_KEYS, backward=False)

    def to_send(self, low: int, high: int) -> Iterator[tuple[Windowed[Any], Any, int]]:
        """The windows of ``timed_range``, also those that are not shown any more."""
        return self._timed_windows(low, high, ALL_KEYS, backward=False, first=low)

    def _timed_windows(
        self,
        low: int | None,
        high: int | None,
        keys: KeyRange,
        *,
        backward: bool,
        first: int | None = None,
    ) -> Iterator[tuple[Windowed[Any], Any, int]]:
        if first is None:
            first = max(self.shown_from, EVER if low is None else low)
        last = None if high is None else time_bytes(high + 1)
        for (start, ckey), value, time in self._rows(time_bytes(first), last, keys, backward):
            yield windowed_of((self.record_key(ckey), start, self._end(start))), value, time

    def _rows(
        self, first: bytes, last: bytes | None, keys: KeyRange, backward: bool
    ) -> Iterator[tuple[Any, Any, int]]:
        """Rows of these keys, from one time to another, with the times of the rows."""
        if keys == ALL_KEYS:
            yield from self._timed_scan(first, last, backward=backward)
            return
        while (found := self._next_row(first, last, backward)) is not None:
            (time, _), _, _ = found
            low, high = rows_between(time, keys)
            yield from self._timed_scan(low, high, backward=backward)
            if backward:
                last = time_bytes(time)
            else:
                first = time_bytes(time + 1)

    def _next_row(self, first: bytes, last: bytes | None, backward: bool) -> Any:
        return next(self._timed_scan(first, last, backward=backward), None)

    def key_bytes(self, key: Any) -> bytes:
        """The bytes of a record key; raises ``SerdeError`` if it is of a wrong type."""
        return self._record_key.encode(key)

    def index_some(self, most: int) -> bool:
        """Do a part of what the next range read does first; False: nothing is left to do.

        ``most`` is a number of rows that were written since the last range read.
        """
        return self._overlay.index_some(self._pinned, self.dirty, most)

    def _end(self, start: int) -> int:
        size, end_of = self.layout.size_ms, self.layout.end_of
        if end_of is not None:
            return end_of(start)
        return NO_END if size is None else start + size

    def _row(self, key: Any, time: int) -> tuple[int, Any]:
        (ckey,) = self.ckeys([key])
        return self._row_time(time), ckey

    # What the task's state does with it.

    def row_ids(self, keys: list[Any]) -> list[Any]:
        """Keys of a dict that tell windows apart, for their keys."""
        ckeys = self.ckeys([key.key for key in keys])
        return [(ckey, key.start, key.end) for ckey, key in zip(ckeys, keys, strict=True)]

    def keep_expired(self, keep: bool) -> None:
        """Have ``changes`` tell of rows that expire from now on, or no more."""
        if not keep:
            self.needed_from = None
        elif self.needed_from is None:
            self.needed_from = self.shown_from

    def _keys_of(self, ckeys: list[Any]) -> list[Any]:
        windows = ((self.record_key(ckey), start, self._end(start)) for start, ckey in ckeys)
        return list(map(windowed_of, windows))

    def drain(self, again: Iterable[bytes] = ()) -> Columns:
        """Encode the dirty entries, the progress and the range of rows that have expired."""
        self._forget_expired(len(self.cache))
        columns = super().drain(again)
        kept_from = self.kept_from
        if columns.keys and kept_from > self._deleted:
            columns = attrs.evolve(columns, expired=_range(self._deleted, kept_from))
            self._pinned_deleted = kept_from
        return columns

    def undo_drain(self) -> None:
        """Take back a drain: the entries are dirty again."""
        self._pinned_deleted = None
        super().undo_drain()

    def written(self) -> dict[Any, int]:
        """Note that a drain is on the medium; its cache keys need not stay in the cache."""
        if self._pinned_deleted is not None:
            self._deleted = self._pinned_deleted
        self._pinned_deleted = None
        return super().written()

    def with_expired(self, columns: Columns) -> Columns:
        """Entries from the changelog with the range of rows that expire with them."""
        row = dict(zip(columns.keys, columns.values, strict=True)).get(PROGRESS_KEY)
        kept_from = self._kept(WindowProgress.from_row(row))
        if kept_from == EVER:
            return columns
        return attrs.evolve(columns, expired=_range(EVER, self._row_time(kept_from)))

    def _kept(self, progress: WindowProgress) -> int:
        """The time from which on windows are shown, or still to be sent."""
        shown = self._shown_from(progress)
        return min(shown, progress.sent + 1) if self.layout.final else shown

    def reset(self, backing: Backing) -> None:
        """Forget everything that is not on the medium, which is this one now."""
        self._pinned_deleted = None
        super().reset(backing)

    def forget(self) -> None:
        """Empty the cache: what is on the medium has changed."""
        super().forget()
        self._forgotten = self._deleted = EVER


def rows_between(time: int, keys: KeyRange) -> tuple[bytes, bytes]:
    """The bytes of the row keys of one time and a range of record keys."""
    head, (low, high) = time_bytes(time), keys
    return head + (low or b""), time_bytes(time + 1) if high is None else head + high + b"\0"


def _range(low: int, high: int) -> tuple[bytes, bytes]:
    """The rows from one time to another (exclusive); never the progress row."""
    return FIRST_KEY if low == EVER else time_bytes(low), time_bytes(high)
