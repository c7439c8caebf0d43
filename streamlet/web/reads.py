"""Queries of HTTP as reads of the store of one task: the entries that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, takewhile
from typing import Any, TypeAlias

import attrs

from streamlet.dsl.processors.store_faces import OperatorStore
from streamlet.dsl.processors.store_views import (
    KeyValueStore,
    TimestampedStore,
    VersionedKeyValueStore,
    seen_as,
)
from streamlet.dsl.processors.window_views import SessionStore, WindowStore
from streamlet.errors import SerdeError
from streamlet.queries.local import LocalStore
from streamlet.serdes.windowed import Windowed
from streamlet.state.query_errors import InvalidQueryError
from streamlet.state.rows import NO_TIME
from streamlet.web.asked import Asked
from streamlet.web.keys import key_of, packed, unpacked
from streamlet.web.pages import (
    Bounds,
    Cursor,
    Place,
    TaskPage,
    task_page,
)

#: Places and entries, in the order of a store.
Found: TypeAlias = Iterator[tuple[Place, dict[str, Any]]]


@attrs.frozen(eq=False)
class StoreRead:
    """A query with the store that it is about.

    ``key`` is the record key, None for all; ``read`` gives the entries of one task.
    """

    asked: Asked
    key: Any
    raw_key: bytes
    read: Callable[[Any], TaskPage]

    @property
    def path(self) -> str:
        """The address of the query, with the bytes of its key."""
        asked = self.asked
        if asked.what == "entries":
            return ""
        return f"/{packed(self.raw_key)}" + ("" if asked.what == "value" else f"/{asked.what}")

    @classmethod
    def of(cls, asked: Asked, store: LocalStore) -> StoreRead:
        """The query of a store.

        Raises:
            InvalidQueryError: the store has no such entries, or no such keys.
        """
        serde = store.spec.window.key if store.spec.window is not None else store.spec.record_key
        if asked.what == "entries":
            find = _Entries(asked, store, serde)
            return cls(asked, None, b"", find)
        key = key_of(serde, asked.key, asked.form)
        return cls(asked, key, serde.encode(key), _OfKey(asked, key))


@attrs.frozen(eq=False)
class _OfKey:
    """The entries of one key in the store of a task."""

    asked: Asked
    key: Any

    def __call__(self, store: Any) -> TaskPage:
        return task_page(self._found(store), self.asked.bounds)

    def _found(self, store: Any) -> Found:
        match self.asked.what, _timed(store):
            case "value", TimestampedStore() as values:
                return self._timed_value(values)
            case "value", KeyValueStore() as values:
                return self._value(values)
            case "value", VersionedKeyValueStore() as versions:
                return self._version(versions)
            case "versions", VersionedKeyValueStore() as versions:
                return self._versions(versions)
            case "windows", WindowStore() as windows:
                return self._windows(windows)
            case "sessions", SessionStore() as sessions:
                return self._sessions(sessions)
            case what, other:
                raise InvalidQueryError(
                    f"store {other.name!r} is a {type(other).__name__}, which has no {what} of a "
                    f"key; {_OFFERS.get(type(other), 'it cannot be queried')}"
                )

    def _value(self, store: Any) -> Found:
        self._newest_only(store)
        value = store.get(self.key)
        if value is not None:
            yield (), _headed(store, (self.key,), {"key": self.key, "value": value})

    def _timed_value(self, store: Any) -> Found:
        self._newest_only(store)
        found = store.get(self.key)
        if found is not None:
            entry = {"key": self.key, "value": found.value, "timestamp": _time(found.timestamp)}
            yield (), _headed(store, (self.key,), entry)

    def _version(self, store: Any) -> Found:
        found = store.get(self.key, as_of=self.asked.as_of)
        if found is not None:
            entry = {"key": self.key, **_versioned(found)}
            yield (), _headed(store, (self.key, self.asked.as_of), entry)

    def _versions(self, store: Any) -> Found:
        found = store.get(self.key, *self.asked.times())
        for one in reversed([*found]) if self.asked.bounds.reverse else found:
            yield (one.timestamp,), _headed(store, (self.key, one.timestamp), _versioned(one))

    def _windows(self, store: Any) -> Found:
        first, last = self.asked.times()
        scan = store.backward_fetch if self.asked.bounds.reverse else store.fetch
        for window, value in scan(self.key, self.key, *_resumed(first, last, self.asked.bounds)):
            yield (window.start,), _of_window(store, window, value)

    def _sessions(self, store: Any) -> Found:
        bounds = self.asked.bounds
        scan = store.backward_find_sessions if bounds.reverse else store.find_sessions
        for window, value in scan(self.key, *self.asked.times()):
            yield (window.end, window.start), _of_window(store, window, value)

    def _newest_only(self, store: Any) -> None:
        if self.asked.as_of is not None:
            raise InvalidQueryError(f"as_of: store {store.name!r} keeps no older values")


@attrs.frozen(eq=False)
class _Entries:
    """The entries of all keys in the store of a task."""

    asked: Asked
    of: LocalStore
    serde: Any

    def __call__(self, store: Any) -> TaskPage:
        return task_page(self._found(store), self.asked.bounds)

    def _found(self, store: Any) -> Found:
        match _timed(store):
            case TimestampedStore() | KeyValueStore() as values:
                return self._values(values)
            case WindowStore() as windows:
                return self._windows(windows)
            case SessionStore() as sessions:
                return self._sessions(sessions)
            case other:
                raise InvalidQueryError(
                    f"store {other.name!r} is a {type(other).__name__}, whose entries are not "
                    f"listed; {_OFFERS.get(type(other), 'it cannot be queried')}"
                )

    def _values(self, store: Any) -> Found:
        timed = isinstance(store, TimestampedStore)
        for key, found in self._scanned(store):
            entry = {"key": key, "value": found.value if timed else found}
            if timed:
                entry["timestamp"] = _time(found.timestamp)
            yield (self._hex(key),), _headed(store, (key,), entry)

    def _scanned(self, store: Any) -> Iterator[tuple[Any, Any]]:
        asked, bounds = self.asked, self.asked.bounds
        if asked.key_ends != (None, None):
            raise InvalidQueryError(f"from-key, to-key: from= and to= are keys of {store.name!r}")
        low, high = self._keys(("from", "to"), asked.ends)
        if asked.prefix is not None:
            if low is not None or high is not None:
                raise InvalidQueryError("prefix: neither from nor to goes with it")
            return self._with_prefix(store, asked.prefix)
        if bounds.after is not None:
            behind = self._key_at(bounds.after)
            low, high = (low, behind) if bounds.reverse else (behind, high)
        scan = store.reverse_range if bounds.reverse else store.range
        found: Iterator[tuple[Any, Any]] = scan(low, high)
        return found

    def _with_prefix(self, store: Any, prefix: str) -> Iterator[tuple[Any, Any]]:
        base64 = self.asked.form == "base64"
        raw = unpacked(prefix, "prefix") if base64 else prefix.encode()
        after, reverse = self.asked.bounds.after, self.asked.bounds.reverse
        if after is None:
            found: Iterator[tuple[Any, Any]] = store.prefix_scan(raw, bytes, reverse=reverse)
            return found
        key_bytes, key = self.of.key_bytes, self._key_at(after)
        rest = store.reverse_range(None, key) if reverse else store.range(key, None)
        return takewhile(lambda entry: key_bytes(entry[0]).startswith(raw), rest)

    def _keys(
        self, names: tuple[str, str], given: tuple[str | None, str | None]
    ) -> tuple[Any, Any]:
        """The keys that are given as the ends of a range; None is an open end."""
        form = self.asked.form
        first, last = (
            None if text is None else key_of(self.serde, text, form, name)
            for name, text in zip(names, given, strict=True)
        )
        return first, last

    def _key_range(self) -> tuple[Any, Any]:
        """The keys that windows or sessions are asked from and to."""
        if self.asked.prefix is not None:
            raise InvalidQueryError("prefix: windows and sessions have times, from-key and to-key")
        return self._keys(("from-key", "to-key"), self.asked.key_ends)

    def _windows(self, store: Any) -> Found:
        low, high = self._key_range()
        bounds, (first, last) = self.asked.bounds, self.asked.times()
        scan = store.backward_fetch if bounds.reverse else store.fetch
        after = bounds.after
        if after is None:
            found = scan(low, high, first, last)
        else:
            start, key = _number(after), self._key_at(after)
            keys = (low, key) if bounds.reverse else (key, high)
            times = (first, start - 1) if bounds.reverse else (start + 1, last)
            found = chain(scan(*keys, start, start), scan(low, high, *times))
        for window, value in found:
            place = window.start, self._hex(window.key), window.end
            yield place, _of_window(store, window, value)

    def _sessions(self, store: Any) -> Found:
        keys = self._key_range()
        by_key = keys != (None, None)  # the last time is that of a start, not of an end
        bounds, (first, last) = self.asked.bounds, self.asked.times()
        if bounds.after is not None:
            end = _number(bounds.after)
            if not bounds.reverse:
                first = end
            elif not by_key:
                last = end
        scan = store.backward_find_sessions if bounds.reverse else store.find_sessions
        for window, value in scan(*keys, first, last) if by_key else scan(first, last):
            place = window.end, self._hex(window.key), window.start
            yield place, _of_window(store, window, value)

    def _hex(self, key: Any) -> str:
        return self.of.key_bytes(key).hex()

    def _key_at(self, cursor: Cursor) -> Any:
        """The key at the end of a page."""
        text = next((part for part in cursor.place if isinstance(part, str)), "")
        try:
            return self.serde.decode(bytes.fromhex(text))
        except (ValueError, SerdeError) as error:
            raise InvalidQueryError("cursor: expected that of an answer of this query") from error


def _number(cursor: Cursor) -> int:
    first = cursor.place[0] if cursor.place else None
    if not isinstance(first, int):
        raise InvalidQueryError("cursor: expected that of an answer of this query")
    return first


def _resumed(first: int | None, last: int | None, bounds: Bounds) -> tuple[int | None, int | None]:
    """A range of times from the cursor on."""
    if bounds.after is None:
        return first, last
    time = _number(bounds.after)
    return (first, time) if bounds.reverse else (time, last)


def _timed(store: Any) -> Any:
    """The store, that of a table with the times of its rows."""
    if isinstance(store, KeyValueStore) and store._of_table:
        return seen_as(store, TimestampedStore[Any, Any])
    return store


def _time(timestamp: int) -> int | None:
    return None if timestamp == NO_TIME else timestamp


def _of_window(store: Any, window: Windowed[Any], value: Any) -> dict[str, Any]:
    """A window or a session with the time of its value."""
    entry: dict[str, Any] = {"key": window.key, "start": window.start, "end": window.end}
    entry |= {"value": value, "timestamp": store.timestamp(window)}
    return _headed(store, (window,), entry)


def _headed(store: Any, of: tuple[Any, ...], entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with the headers ``of`` its row, where the store keeps some."""
    return {**entry, "headers": store.headers(*of)} if store.keeps_headers else entry


def _versioned(one: Any) -> dict[str, Any]:
    return {"value": one.value, "timestamp": one.timestamp, "valid_to": one.valid_to}


_OFFERS: dict[type, str] = {
    KeyValueStore: "ask for /stores/NAME/KEY, or for /stores/NAME",
    TimestampedStore: "ask for /stores/NAME/KEY, or for /stores/NAME",
    WindowStore: "ask for /stores/NAME/KEY/windows, or for /stores/NAME",
    SessionStore: "ask for /stores/NAME/KEY/sessions, or for /stores/NAME",
    VersionedKeyValueStore: "ask for /stores/NAME/KEY or /stores/NAME/KEY/versions",
    OperatorStore: "its rows are the operator's affair",
}
