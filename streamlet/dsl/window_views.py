"""The stores of windows and sessions as processors see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from streamlet.dsl.store_views import StoreView
from streamlet.serdes import Serde
from streamlet.serdes.windowed import Windowed
from streamlet.state.bucket_store import BucketStore, Item
from streamlet.state.rows import NO_TIME

K = TypeVar("K")
V = TypeVar("V")


class _BucketView(StoreView):
    """The part that stores of windows and of sessions share.

    Args:
        store: of the task.
        value: serde of the values.
    """

    def __init__(self, store: BucketStore, value: Serde[Any]) -> None:
        super().__init__(store, value)
        self._buckets = store

    def _ckey(self, key: Any) -> Any:
        (ckey,) = self._buckets.ckeys([self._key(key)])
        return ckey

    def _items(self, key: Any, low: int | None, high: int | None) -> list[Item]:
        """Windows of a key whose times are in a range, both inclusive, as far as they are kept."""
        store = self._buckets
        latest = store.progress.highest
        if latest == NO_TIME:
            return []
        first = max(store.shown_from, 0) if low is None else max(store.shown_from, low, 0)
        return store.items(self._ckey(key), first, latest if high is None else min(high, latest))

    def _replace(self, key: Any, time: int, other: int, value: Any) -> None:
        """Put a window in place of the one with its two times."""
        store, item = self._buckets, (time, other, value)
        there = [(one, two, old) for one, two, old in self._items(key, time, time) if two == other]
        store.replace(self._ckey(key), there, [item], NO_TIME)
        store.advance(NO_TIME, time)

    def _windows(self, found: Iterable[tuple[Item, Any]]) -> Iterator[tuple[Windowed[Any], Any]]:
        store = self._buckets
        for item, ckey in found:
            yield store.window(store.record_key(ckey), item), self._read(item[2])


def _time(given: Any, what: str) -> int:
    if type(given) is not int or given < 0:
        raise TypeError(f"expected {what} in ms since the epoch, got {given!r}")
    return given


class WindowedStore(_BucketView, Generic[K, V]):
    """A store of values by key and start of a window.

    Windows that begin longer than its retention before the latest one are not shown.
    """

    def put(self, key: K, value: V | None, start: int) -> None:
        """Set the value of a key's window that begins at a time, ms, or delete it with None."""
        start = _time(start, "the start of a window")
        self._replace(key, start, NO_TIME, self._stored(value))

    def fetch(self, key: K, start: int) -> V | None:
        """The value of the window that begins at this time, or None."""
        found = self._items(key, start, start)
        value: V | None = self._read(found[0][2]) if found else None
        return value

    def fetch_range(
        self, key: K, low: int | None = None, high: int | None = None
    ) -> Iterator[tuple[int, V]]:
        """Starts and values of a key's windows that begin from ``low`` to ``high``, in order.

        Both are inclusive; None is an open end.
        """
        return ((start, self._read(value)) for start, _, value in self._items(key, low, high))

    def fetch_all(
        self, low: int | None = None, high: int | None = None
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Windows of all keys that begin from ``low`` to ``high``, by start, then by key bytes."""
        first = max(self._buckets.shown_from, 0 if low is None else low, 0)
        return self._windows(self._buckets.scan(first, high))

    def all(self) -> Iterator[tuple[Windowed[K], V]]:
        """All windows with their values."""
        return self.fetch_all()


class SessionStore(_BucketView, Generic[K, V]):
    """A store of values by key, start and end of a session.

    Sessions that end longer than its retention before the latest end are not shown.
    """

    def put(self, session: Windowed[K], value: V | None) -> None:
        """Set the value of a session, or delete it with None."""
        start, end = _time(session.start, "a start"), _time(session.end, "an end")
        self._replace(session.key, end, start, self._stored(value))

    def remove(self, session: Windowed[K]) -> None:
        """Delete a session."""
        self.put(session, None)

    def fetch_session(self, key: K, start: int, end: int) -> V | None:
        """The value of a session with this start and end, or None."""
        found = [value for _, own, value in self._items(key, end, end) if own == start]
        value: V | None = self._read(found[0]) if found else None
        return value

    def find_sessions(
        self, key: K, earliest_end: int = 0, latest_start: int | None = None
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Sessions of a key that end at a time or later, and begin at a time or earlier, by end."""
        for end, start, value in self._items(key, earliest_end, None):
            if latest_start is None or start <= latest_start:
                yield Windowed(key, start, end), self._read(value)

    def fetch(self, key: K) -> Iterator[tuple[Windowed[K], V]]:
        """All sessions of a key, by end."""
        return self.find_sessions(key)

    def all(self) -> Iterator[tuple[Windowed[K], V]]:
        """All sessions with their values, by end, then by key bytes."""
        return self._windows(self._buckets.scan(max(self._buckets.shown_from, 0)))
