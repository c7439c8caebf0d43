"""Queries whose answers are records: with the times and headers that rows keep (KIP-1356)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Generic, TypeVar

import attrs

from streamlet.arguments import calls_told_by_form
from streamlet.dsl.processors.record import Record
from streamlet.dsl.processors.store_view import no_headers_kept
from streamlet.dsl.processors.store_views import TimestampedStore, VersionedKeyValueStore
from streamlet.dsl.processors.window_views import SessionStore, WindowStore
from streamlet.queries.requests import KeyedQuery, Query
from streamlet.serdes.windowed import Windowed
from streamlet.state.rows import NO_TIME

K = TypeVar("K")
V = TypeVar("V")


@calls_told_by_form
@attrs.frozen
class TimestampedKeyWithHeadersQuery(KeyedQuery[Record[K, V] | None], Generic[K, V]):
    """The value of a key, its time, and the headers of the record that changed it last."""

    kind: ClassVar[Any] = TimestampedStore
    key: K

    def read(self, store: Any) -> Record[K, V] | None:
        """The record, or None; ``InvalidStateStoreError``: the store keeps no headers."""
        found = store.get(self.key)
        entries = [] if found is None else [(self.key, found)]
        return next(_timed(store, entries), None)


@calls_told_by_form
@attrs.frozen
class TimestampedRangeWithHeadersQuery(Query[Iterator[Record[K, V]]], Generic[K, V]):
    """The entries from one key to another with times and headers; as ``TimestampedRangeQuery``."""

    kind: ClassVar[Any] = TimestampedStore
    lower: K | None = None
    upper: K | None = None
    descending: bool = False

    def read(self, store: Any) -> Iterator[Record[K, V]]:
        """Records in the order of key bytes; ``InvalidStateStoreError``: it keeps no headers."""
        scan = store.reverse_range if self.descending else store.range
        return _timed(store, scan(self.lower, self.upper))


@calls_told_by_form
@attrs.frozen
class TimestampedWindowKeyWithHeadersQuery(
    KeyedQuery[Iterator[Record[Windowed[K], V]]], Generic[K, V]
):
    """The windows of a key with times and headers; as ``WindowKeyQuery``."""

    kind: ClassVar[Any] = WindowStore
    key: K
    first: int | None = None
    last: int | None = None

    def read(self, store: Any) -> Iterator[Record[Windowed[K], V]]:
        """Records, the first window first; ``InvalidStateStoreError``: it keeps no headers."""
        return _windowed(store, store.fetch(self.key, self.key, self.first, self.last))


@calls_told_by_form
@attrs.frozen
class TimestampedWindowRangeWithHeadersQuery(
    Query[Iterator[Record[Windowed[K], V]]], Generic[K, V]
):
    """The windows of all keys with times and headers; as ``WindowRangeQuery``."""

    kind: ClassVar[Any] = WindowStore
    first: int | None = None
    last: int | None = None

    def read(self, store: Any) -> Iterator[Record[Windowed[K], V]]:
        """Records, the first window first; ``InvalidStateStoreError``: it keeps no headers."""
        return _windowed(store, store.fetch_all(self.first, self.last))


@calls_told_by_form
@attrs.frozen
class TimestampedSessionKeyWithHeadersQuery(
    KeyedQuery[Iterator[Record[Windowed[K], V]]], Generic[K, V]
):
    """The sessions of a key with times, which are their ends, and headers; as ``SessionKeyQuery``.

    In Kafka Streams it is a ``TimestampedWindowRangeWithHeadersQuery`` with a key.
    """

    kind: ClassVar[Any] = SessionStore
    key: K

    def read(self, store: Any) -> Iterator[Record[Windowed[K], V]]:
        """Records, by the ends; ``InvalidStateStoreError``: it keeps no headers."""
        return _windowed(store, store.fetch(self.key))


@calls_told_by_form
@attrs.frozen
class VersionedKeyWithHeadersQuery(KeyedQuery[Record[K, V] | None], Generic[K, V]):
    """The newest version of a key, or the one of a time, ms, with its headers.

    Its timestamp is from when on it is valid; as ``VersionedKeyQuery``. Kafka Streams has none.
    """

    kind: ClassVar[Any] = VersionedKeyValueStore
    key: K
    as_of: int | None = None

    def read(self, store: Any) -> Record[K, V] | None:
        """The record, or None; ``InvalidStateStoreError``: the store keeps no headers."""
        _check(store)
        found = store.get(self.key, as_of=self.as_of)
        if found is None:
            return None
        headers = store.headers(self.key, self.as_of)
        return Record(self.key, found.value, found.timestamp, headers)


def _timed(store: Any, found: Iterable[tuple[Any, Any]]) -> Iterator[Record[Any, Any]]:
    _check(store)
    return (Record(key, one.value, one.timestamp, store.headers(key)) for key, one in found)


def _windowed(store: Any, found: Iterable[tuple[Any, Any]]) -> Iterator[Record[Any, Any]]:
    _check(store)

    def record(window: Any, value: Any) -> Record[Any, Any]:
        time = store.timestamp(window)
        return Record(window, value, NO_TIME if time is None else time, store.headers(window))

    return (record(window, value) for window, value in found)


def _check(store: Any) -> None:
    if not store.keeps_headers:
        raise no_headers_kept(store.name)
