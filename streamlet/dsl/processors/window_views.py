"""The stores of windows and sessions as processors and tests see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, overload

from streamlet.absent import explains_misuse
from streamlet.arguments import never_by_hand, rare_calls_told_by_form
from streamlet.dsl.processors.record import checked_time
from streamlet.dsl.processors.store_view import WHO_GIVES
from streamlet.dsl.processors.stored_windows import (
    WindowsView,
    end_of_times,
    items_of,
    replace_item,
)
from streamlet.errors import WrongValueError
from streamlet.kafka.ports import Headers
from streamlet.serdes import Serde
from streamlet.serdes.windowed import Windowed, windowed_of
from streamlet.state.bucket_store import BucketStore, Item
from streamlet.state.rows import NO_TIME
from streamlet.state.store_specs import WindowSpec
from streamlet.state.time_window_store import TimeWindowStore
from streamlet.state.window_reads import ALL_KEYS

K = TypeVar("K")
V = TypeVar("V")


@rare_calls_told_by_form
@explains_misuse
@never_by_hand(WHO_GIVES)
class WindowStore(WindowsView, Generic[K, V]):
    """A store of values by key and start of a window, ms since the epoch.

    Windows that begin longer than its retention before the latest one are not shown. Times and keys
    of a range are inclusive at both ends, and None is an open end. Windows come in the order of
    their starts, and those of one start in the order of their keys' bytes; ``backward_…`` reads are
    the exact reverse. What is put or deleted while windows are read may be seen or not.

    A store that retains duplicates (``window_store(retain_duplicates=True)``) has each value that
    was put under one key and start, in the order in which they came; nothing of it can be deleted.

    Raises:
        TypeError: a time is no int, or a key is None where one is needed.
        SerdeError: the serde refuses a key or a value.
        TopologyError: an operator keeps the store, and a processor writes it.
    """

    def __init__(
        self,
        store: TimeWindowStore | BucketStore,
        value: Serde[Any],
        read_only: str = "",
        *,
        retain_duplicates: bool = False,
    ) -> None:
        super().__init__(store, value, read_only)
        self._retain_duplicates = retain_duplicates

    def put(self, key: K, value: V | None, start: int) -> None:
        """Set the value of a key's window that begins at a time, ms, or delete it with None.

        One that has expired is not put, and counted as dropped.

        In a store that retains duplicates the value is added, and None does nothing, as in Kafka
        Streams.
        """
        start, stored = checked_time(start, "the start of a window"), self._stored(value)
        store, key = self._store, self._key(key)
        if start < store.shown_from:
            self._drop(f"a window that begins at {start}")
            return
        if not isinstance(store, BucketStore):
            store.put(windowed_of((key, start, start)), stored)
        elif not self._retain_duplicates:
            replace_item(store, key, start, NO_TIME, stored)
        elif stored is not None:
            (ckey,) = store.ckeys([key])
            there = items_of(store, ckey, start, start)
            replace_item(store, key, start, there[-1][1] + 1 if there else 0, stored)

    def timestamp(self, window: Windowed[K]) -> int | None:
        """The time of a window's value, ms since the epoch: the latest one of its records.

        None where there is no such window, and in a store of processors, which keeps no times.
        """
        store = self._store
        if isinstance(store, BucketStore):
            if self._retain_duplicates:
                return None
            found = self._item(store, self._key(window.key), window.start)
            return None if found is None or found[1] == NO_TIME else found[1]
        return None if window.start < store.shown_from else store.timestamp(window)

    def headers(self, window: Windowed[K]) -> Headers:
        """The headers of the record that changed a window last, as pairs of name and bytes.

        None for a window that is not there. Those of traces and of streamlet itself are left out.

        Raises:
            InvalidStateStoreError: the store keeps no headers (``Materialized(headers=True)``).
        """
        store = self._store
        if isinstance(store, BucketStore):
            self._check_headers()
            return store.headers(self._item(store, self._key(window.key), window.start))
        if self.keeps_headers and self._fetch_one(self._key(window.key), window.start) is None:
            return ()
        return self._headers(store.reads.row(window.key, window.start))

    @overload
    def fetch(self, key: K, start: int, /) -> V | None: ...
    @overload
    def fetch(self, key: K, first: int | None, last: int | None, /) -> Iterator[tuple[int, V]]: ...
    @overload
    def fetch(
        self, first_key: K | None, last_key: K | None, first: int | None, last: int | None, /
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    def fetch(self, key: Any, *more: Any) -> Any:
        """The value of one window, or the windows of a key or of a range of keys.

        - ``fetch(key, start)``: the value of the window that begins at this time, or None; of
          duplicates the last one put.
        - ``fetch(key, first, last)``: starts and values of the key's windows that begin from one
          time to another.
        - ``fetch(first_key, last_key, first, last)``: the same of all keys from one to another, by
          the order of their bytes, as ``Windowed`` keys with values.
        """
        if len(more) == 1:
            return self._fetch_one(self._key(key), checked_time(more[0], "the start of a window"))
        return self._fetch(key, more, backward=False)

    @overload
    def backward_fetch(
        self, key: K, first: int | None, last: int | None, /
    ) -> Iterator[tuple[int, V]]: ...
    @overload
    def backward_fetch(
        self, first_key: K | None, last_key: K | None, first: int | None, last: int | None, /
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    def backward_fetch(self, key: Any, *more: Any) -> Any:
        """The windows of ``fetch(key, first, last)`` or of a range of keys, the last one first."""
        return self._fetch(key, more, backward=True)

    def fetch_all(
        self, first: int | None = None, last: int | None = None
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Windows of all keys that begin from one time to another."""
        return self._found(ALL_KEYS, first, last, backward=False)

    def backward_fetch_all(
        self, first: int | None = None, last: int | None = None
    ) -> Iterator[tuple[Windowed[K], V]]:
        """The windows of ``fetch_all``, the last one first."""
        return self._found(ALL_KEYS, first, last, backward=True)

    def all(self) -> Iterator[tuple[Windowed[K], V]]:
        """All windows with their values."""
        return self.fetch_all()

    def backward_all(self) -> Iterator[tuple[Windowed[K], V]]:
        """All windows with their values, the last one first."""
        return self.backward_fetch_all()

    def _fetch(self, key: Any, more: tuple[Any, ...], *, backward: bool) -> Any:
        if len(more) == 2:
            found = self._of_key(key, *more, backward=backward)
            return ((window.start, value) for window, value in found)
        if len(more) != 3:
            raise TypeError(f"store {self.name}: fetch takes a key or two, and times behind them")
        last_key, first, last = more
        return self._found(self._range_of(key, last_key), first, last, backward=backward)

    def _fetch_one(self, key: Any, start: int) -> Any:
        store = self._store
        if not isinstance(store, BucketStore):
            return self._read(store.fetch(key, start))
        found = self._item(store, key, start)
        return self._read(found[2]) if found else None

    @staticmethod
    def _item(store: BucketStore, key: Any, start: int) -> Item | None:
        """A key's window that begins at a time, or None; of duplicates the last one put."""
        (ckey,) = store.ckeys([key])
        found = items_of(store, ckey, start, start)
        return found[-1] if found else None


@rare_calls_told_by_form
@explains_misuse
class SessionStore(WindowsView, Generic[K, V]):
    """A store of values by key, start and end of a session, ms since the epoch.

    Sessions that end longer than its retention before the latest end are not shown. Times and keys
    of a range are inclusive at both ends, and None is an open end. Sessions come in the order of
    their ends, then of their keys' bytes, then of their starts; ``backward_…`` reads are the exact
    reverse. What is put or deleted while sessions are read may be seen or not.

    Raises:
        TypeError: a time is no int, or a key is None where one is needed.
        ValueError: a session that is put would end before it begins.
        SerdeError: the serde refuses a key or a value.
        TopologyError: an operator keeps the store, and a processor writes it.
    """

    _store: BucketStore
    _by_start = False

    def put(self, session: Windowed[K], value: V | None) -> None:
        """Set the value of a session, or delete it with None.

        One that has expired is not put, and counted as dropped.
        """
        self._check_windowed(session)
        start, end = checked_time(session.start, "a start"), checked_time(session.end, "an end")
        if end < start:
            what = f"a session from {start} to {end}"
            raise WrongValueError(f"store {self.name}: {what} would end before it begins")
        key, stored = self._key(session.key), self._stored(value)
        if end < self._store.shown_from:
            self._drop(f"a session that ends at {end}")
            return
        replace_item(self._store, key, end, start, stored)

    def remove(self, session: Windowed[K]) -> None:
        """Delete a session."""
        self.put(session, None)

    def fetch_session(self, key: K, start: int, end: int) -> V | None:
        """The value of a session with this start and end, or None."""
        found = self._item(key, start, end)
        value: V | None = self._read(found[2]) if found else None
        return value

    def timestamp(self, session: Windowed[K]) -> int | None:
        """The time of a session's value, ms since the epoch: its end, the latest of its records.

        None where there is no such session.
        """
        self._check_windowed(session)
        found = self._item(session.key, session.start, session.end)
        return None if found is None else found[0]

    def headers(self, session: Windowed[K]) -> Headers:
        """The headers of the record that changed a session last, as pairs of name and bytes.

        None for a session that is not there. Those of traces and of streamlet itself are left out.

        Raises:
            InvalidStateStoreError: the store keeps no headers (``Materialized(headers=True)``).
        """
        self._check_headers()
        self._check_windowed(session)
        return self._store.headers(self._item(session.key, session.start, session.end))

    def _item(self, key: Any, start: int, end: int) -> Item | None:
        """A session as it is stored, or None."""
        (ckey,) = self._store.ckeys([self._key(key)])
        start, end = checked_time(start, "a start"), checked_time(end, "an end")
        found = (one for one in items_of(self._store, ckey, end, end) if one[1] == start)
        return next(found, None)

    @overload
    def find_sessions(
        self, earliest_end: int | None, latest_end: int | None, /
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    @overload
    def find_sessions(
        self, key: K, earliest_end: int | None, latest_start: int | None, /
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    @overload
    def find_sessions(
        self,
        first_key: K | None,
        last_key: K | None,
        earliest_end: int | None,
        latest_start: int | None,
        /,
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    def find_sessions(self, key: Any, *more: Any) -> Any:
        """Sessions that end at a time or later, and begin at a time or earlier.

        - ``find_sessions(key, earliest_end, latest_start)``: those of a key.
        - ``find_sessions(first_key, last_key, earliest_end, latest_start)``: those of all keys from
          one to another, by the order of their bytes.
        - ``find_sessions(earliest_end, latest_end)``: those of all keys that end from one time to
          another, whenever they begin.
        """
        return self._sessions(key, more, backward=False)

    @overload
    def backward_find_sessions(
        self, earliest_end: int | None, latest_end: int | None, /
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    @overload
    def backward_find_sessions(
        self, key: K, earliest_end: int | None, latest_start: int | None, /
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    @overload
    def backward_find_sessions(
        self,
        first_key: K | None,
        last_key: K | None,
        earliest_end: int | None,
        latest_start: int | None,
        /,
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    def backward_find_sessions(self, key: Any, *more: Any) -> Any:
        """The sessions of ``find_sessions``, the last one first."""
        return self._sessions(key, more, backward=True)

    @overload
    def fetch(self, key: K, /) -> Iterator[tuple[Windowed[K], V]]: ...
    @overload
    def fetch(
        self, first_key: K | None, last_key: K | None, /
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    def fetch(self, key: Any, *more: Any) -> Any:
        """All sessions of a key, or of all keys from one to another by the order of their bytes."""
        return self._sessions(key, (*more, None, None), backward=False)

    @overload
    def backward_fetch(self, key: K, /) -> Iterator[tuple[Windowed[K], V]]: ...
    @overload
    def backward_fetch(
        self, first_key: K | None, last_key: K | None, /
    ) -> Iterator[tuple[Windowed[K], V]]: ...
    def backward_fetch(self, key: Any, *more: Any) -> Any:
        """The sessions of ``fetch``, the last one first."""
        return self._sessions(key, (*more, None, None), backward=True)

    def all(self) -> Iterator[tuple[Windowed[K], V]]:
        """All sessions with their values."""
        return self._found(ALL_KEYS, None, None, backward=False)

    def backward_all(self) -> Iterator[tuple[Windowed[K], V]]:
        """All sessions with their values, the last one first."""
        return self._found(ALL_KEYS, None, None, backward=True)

    def _sessions(self, key: Any, more: tuple[Any, ...], *, backward: bool) -> Any:
        if len(more) == 1:
            return self._found(ALL_KEYS, key, more[0], backward=backward)
        if len(more) not in (2, 3):
            raise TypeError(
                f"store {self.name}: sessions are found by a key or two, the earliest end and the "
                "latest start, or by the earliest and the latest end"
            )
        *last_key, earliest_end, latest_start = more
        end_of_times(latest_start, "the latest start")
        if last_key:
            keys = self._range_of(key, last_key[0])
            found: Iterable[Any] = self._found(keys, earliest_end, None, backward=backward)
        else:
            found = self._of_key(key, earliest_end, None, backward=backward)
        if latest_start is None:
            return found
        return ((window, value) for window, value in found if window.start <= latest_start)


def window_view(
    store: TimeWindowStore | BucketStore, layout: WindowSpec, read_only: str = ""
) -> WindowStore[Any, Any] | SessionStore[Any, Any]:
    """The windows or the sessions that an operator keeps."""
    if layout.bucket_ms and layout.size_ms is None:
        return SessionStore(store, layout.value, read_only)
    return WindowStore(store, layout.value, read_only)
