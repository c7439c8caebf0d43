"""The stores that a client of HTTP gives: the classes that processors have, to be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Never

import attrs

from streamlet.arguments import refuse_more
from streamlet.dsl.processors.queried_views import QUERIED
from streamlet.dsl.processors.store_view import StoreView
from streamlet.dsl.processors.store_views import (
    NO_DEFAULT,
    KeyValueStore,
    TimestampedStore,
    ValueAndTimestamp,
    VersionedKeyValueStore,
)
from streamlet.dsl.processors.window_views import SessionStore, WindowStore
from streamlet.kafka.ports import Headers
from streamlet.queries.position import Position
from streamlet.serdes import serde
from streamlet.serdes.windowed import Windowed
from streamlet.state.rows import NO_TIME
from streamlet.state.version_rows import VersionedRecord
from streamlet.web.client import RemoteReads, key_text


@attrs.frozen
class _Named:
    """The name of a store, in place of its rows."""

    name: str


class _Remote(StoreView):
    """The part that remote stores share."""

    def __init__(self, reads: RemoteReads) -> None:
        StoreView.__init__(self, _Named(reads.name), serde(bytes), QUERIED)
        self._reads = reads

    @property
    def position(self) -> Position:
        """The position that all answers so far contain."""
        return self._reads.at_least

    @property
    def staleness_ms(self) -> int:
        """The time since when there may be later commits than the last answer's, ms."""
        return self._reads.staleness_ms

    def _window(self, entry: dict[str, Any]) -> Windowed[Any]:
        return Windowed(self._reads.key_of(entry), entry["start"], entry["end"])

    def _windows(self, found: Iterator[dict[str, Any]]) -> Iterator[tuple[Windowed[Any], Any]]:
        return ((self._window(entry), self._reads.value_of(entry)) for entry in found)

    def _between(
        self, ends: dict[str, Any], *, reverse: bool, **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Entries of a range of keys, whose ends are parameters; None is an open one."""
        given = {name: key_text(key) for name, key in ends.items() if key is not None}
        form = "base64" if any(isinstance(key, bytes) for key in ends.values()) else "json"
        return self._reads.entries(form, **given, **more, reverse=reverse)


class _RemoteEntries(_Remote):
    """Reads of entries by key."""

    def get(self, key: Any, *more: Never, **named: Never) -> Any:
        """The entry of a key, or None."""
        if more or named:
            refuse_more("get(key)", NO_DEFAULT)
        found = self._reads.one(key)
        return None if found is None else self._entry_of(found)

    def timestamp(self, key: Any) -> int | None:
        """The time of a key's value, ms since the epoch; None if there is none."""
        found = self._reads.one(key)
        return None if found is None else found.get("timestamp")

    def headers(self, key: Any) -> Headers:
        """The headers of the record that changed a key's row last."""
        return self._reads.headers_of(self._reads.one(key))

    def range(self, low: Any = None, high: Any = None) -> Iterator[Any]:
        """The entries from one key to another."""
        return self._ranged(low, high, reverse=False)

    def reverse_range(self, low: Any = None, high: Any = None) -> Iterator[Any]:
        """The entries from one key to another, the last one first."""
        return self._ranged(low, high, reverse=True)

    def prefix_scan(self, prefix: Any, form: Any = None, *, reverse: bool = False) -> Iterator[Any]:
        """The entries whose key bytes begin with the bytes of a prefix."""
        raw = prefix if isinstance(prefix, bytes) else serde(form or type(prefix)).encode(prefix)
        return self._entries(self._reads.entries("base64", prefix=key_text(raw), reverse=reverse))

    def approximate_num_entries(self) -> int:
        """Number of entries. They are all read to count them."""
        return sum(1 for _ in self.range())

    def _ranged(self, low: Any, high: Any, *, reverse: bool) -> Iterator[Any]:
        return self._entries(self._between({"from": low, "to": high}, reverse=reverse))

    def _entries(self, found: Iterator[dict[str, Any]]) -> Iterator[tuple[Any, Any]]:
        return ((self._reads.key_of(entry), self._entry_of(entry)) for entry in found)

    def _entry_of(self, entry: dict[str, Any]) -> Any:
        return self._reads.value_of(entry)


class RemoteKeyValueStore(_RemoteEntries, KeyValueStore[Any, Any]):
    """The values by key of an application that runs elsewhere."""


class RemoteTimestampedStore(_RemoteEntries, TimestampedStore[Any, Any]):
    """The values by key, with their times, of an application that runs elsewhere."""

    def _entry_of(self, entry: dict[str, Any]) -> Any:
        time = entry.get("timestamp")
        return ValueAndTimestamp(self._reads.value_of(entry), NO_TIME if time is None else time)


class RemoteVersionedStore(_Remote, VersionedKeyValueStore[Any, Any]):
    """The versions of an application that runs elsewhere."""

    def get(self, key: Any, *times: Any, as_of: int | None = None) -> Any:
        """The newest version, the one of a time, or those from one time to another."""
        times = times if as_of is None else (*times, as_of)
        if len(times) > 2:
            raise TypeError(f"store {self.name}: get takes a key and up to two times")
        if len(times) == 2:
            ends = dict(zip(("from", "to"), times, strict=True))
            return map(self._version, self._reads.listed(key, "versions", **ends))
        found = self._reads.one(key, as_of=times[0] if times else None)
        return None if found is None else self._version(found)

    def headers(self, key: Any, as_of: int | None = None) -> Headers:
        """The headers of the record that put the newest version, or the one of a time."""
        if as_of is None:
            return self._reads.headers_of(self._reads.one(key))
        found = next(self._reads.listed(key, "versions", **{"from": as_of, "limit": 1}), None)
        began = found is not None and found["timestamp"] <= as_of
        return self._reads.headers_of(found if began else None)

    def _version(self, entry: dict[str, Any]) -> VersionedRecord[Any]:
        return VersionedRecord(self._reads.value_of(entry), entry["timestamp"], entry["valid_to"])


class RemoteWindowStore(_Remote, WindowStore[Any, Any]):
    """The windows of an application that runs elsewhere."""

    def get(self, window: Any) -> Any:
        """The value of a window, or None."""
        return self.fetch(window.key, window.start)

    def range(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """All windows with their values."""
        return self.fetch_all()

    def timestamp(self, window: Windowed[Any]) -> int | None:
        """The time of a window's value, ms since the epoch; None if there is none."""
        found = self._one(window)
        return None if found is None else found.get("timestamp")

    def headers(self, window: Windowed[Any]) -> Headers:
        """The headers of the record that changed a window last."""
        return self._reads.headers_of(self._one(window))

    def _one(self, window: Windowed[Any]) -> dict[str, Any] | None:
        ends = {"from": window.start, "to": window.start}
        return next(self._reads.listed(window.key, "windows", **ends), None)

    def fetch(self, key: Any, *more: Any) -> Any:
        """The value of one window, or the windows of a key or of a range of keys."""
        if len(more) == 1:
            found = self._reads.listed(key, "windows", **{"from": more[0], "to": more[0]})
            values = [self._reads.value_of(entry) for entry in found]
            return values[-1] if values else None
        return self._fetched(key, more, reverse=False)

    def backward_fetch(self, key: Any, *more: Any) -> Any:
        """The windows of a key or of a range of keys, the last one first."""
        return self._fetched(key, more, reverse=True)

    def fetch_all(
        self, first: int | None = None, last: int | None = None
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """The windows of all keys that begin from one time to another."""
        ends: dict[str, Any] = {"from": first, "to": last}
        return self._windows(self._reads.entries(**ends))

    def backward_fetch_all(
        self, first: int | None = None, last: int | None = None
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """The windows of ``fetch_all``, the last one first."""
        ends: dict[str, Any] = {"from": first, "to": last}
        return self._windows(self._reads.entries(**ends, reverse=True))

    def _fetched(self, key: Any, more: tuple[Any, ...], *, reverse: bool) -> Any:
        if len(more) not in (2, 3):
            raise TypeError(f"store {self.name}: fetch takes a key or two, and times behind them")
        *last_key, first, last = more
        times = {"from": first, "to": last}
        if last_key:
            keys = {"from-key": key, "to-key": last_key[0]}
            return self._windows(self._between(keys, **times, reverse=reverse))
        found = self._reads.listed(key, "windows", **times, reverse=reverse)
        return ((entry["start"], self._reads.value_of(entry)) for entry in found)


class RemoteSessionStore(_Remote, SessionStore[Any, Any]):
    """The sessions of an application that runs elsewhere."""

    def get(self, window: Any) -> Any:
        """The value of a session, or None."""
        return self.fetch_session(window.key, window.start, window.end)

    def range(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """All sessions with their values."""
        return self.all()

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        """The value of a session with this start and end, or None."""
        found = self._one(Windowed(key, start, end))
        return None if found is None else self._reads.value_of(found)

    def timestamp(self, session: Windowed[Any]) -> int | None:
        """The time of a session's value, ms since the epoch: its end; None if there is none."""
        found = self._one(session)
        return None if found is None else found["timestamp"]

    def headers(self, session: Windowed[Any]) -> Headers:
        """The headers of the record that changed a session last."""
        return self._reads.headers_of(self._one(session))

    def _one(self, session: Windowed[Any]) -> dict[str, Any] | None:
        bounds = session.start, session.end
        ends = {"from": session.end, "to": session.start}
        found = self._reads.listed(session.key, "sessions", **ends)
        return next((one for one in found if (one["start"], one["end"]) == bounds), None)

    def find_sessions(self, key: Any, *more: Any) -> Any:
        """The sessions of a key, of a range of keys, or of all keys by their ends."""
        return self._sessions_of(key, more, reverse=False)

    def backward_find_sessions(self, key: Any, *more: Any) -> Any:
        """The sessions of ``find_sessions``, the last one first."""
        return self._sessions_of(key, more, reverse=True)

    def fetch(self, key: Any, *more: Any) -> Any:
        """The sessions of a key or of a range of keys."""
        return self._sessions_of(key, (*more, None, None), reverse=False)

    def backward_fetch(self, key: Any, *more: Any) -> Any:
        """The sessions of a key or of a range of keys, the last one first."""
        return self._sessions_of(key, (*more, None, None), reverse=True)

    def all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """All sessions with their values."""
        return self._windows(self._reads.entries())

    def backward_all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """All sessions with their values, the last one first."""
        return self._windows(self._reads.entries(reverse=True))

    def _sessions_of(self, key: Any, more: tuple[Any, ...], *, reverse: bool) -> Any:
        if len(more) == 1:
            ends: dict[str, Any] = {"from": key, "to": more[0]}
            return self._windows(self._reads.entries(**ends, reverse=reverse))
        if len(more) not in (2, 3):
            raise TypeError(f"store {self.name}: sessions are found by a key or two, and times")
        *last_key, earliest_end, latest_start = more
        times = {"from": earliest_end, "to": latest_start}
        if not last_key:
            return self._windows(self._reads.listed(key, "sessions", **times, reverse=reverse))
        if (key, *last_key) == (None, None):  # of all keys the last time is that of an end
            every = self._windows(self._reads.entries(**{"from": earliest_end}, reverse=reverse))
            return (one for one in every if latest_start is None or one[0].start <= latest_start)
        keys = {"from-key": key, "to-key": last_key[0]}
        return self._windows(self._between(keys, **times, reverse=reverse))


#: The class of each kind of store.
REMOTE: dict[Any, Any] = {
    KeyValueStore: RemoteKeyValueStore,
    TimestampedStore: RemoteTimestampedStore,
    VersionedKeyValueStore: RemoteVersionedStore,
    WindowStore: RemoteWindowStore,
    SessionStore: RemoteSessionStore,
}
