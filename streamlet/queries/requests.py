"""Queries as values, with the words of Kafka Streams' interactive queries (version 2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import calls_told_by_form
from streamlet.dsl.processors.store_views import (
    KeyValueStore,
    TimestampedStore,
    ValueAndTimestamp,
    VersionedKeyValueStore,
)
from streamlet.dsl.processors.window_views import SessionStore, WindowStore
from streamlet.errors import WrongTypeError
from streamlet.queries.position import Position, PositionBound
from streamlet.serdes.windowed import Windowed
from streamlet.state.version_rows import VersionedRecord

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@explains_misuse
class Query(ABC, Generic[R_co]):
    """A question to one store; the classes below are all there are.

    ``kind`` is the class of the stores that answer it; None: any that has the method.
    """

    kind: ClassVar[Any] = None

    @property
    def partition_key(self) -> Any:
        """The key whose partition has the answer; None: each partition has a part of it."""
        return None

    @abstractmethod
    def read(self, store: Any) -> R_co:
        """The answer of the store of one task."""


class KeyedQuery(Query[R_co]):
    """A question about one key."""

    key: Any

    def __attrs_post_init__(self) -> None:
        if self.key is None:
            raise WrongTypeError(f"{type(self).__name__}(key=) expects a key, got None")

    @property
    def partition_key(self) -> Any:
        """The key."""
        return self.key


@calls_told_by_form
@attrs.frozen
class KeyQuery(KeyedQuery[V | None], Generic[K, V]):
    """The value of a key."""

    kind: ClassVar[Any] = KeyValueStore
    key: K

    def read(self, store: KeyValueStore[K, V]) -> V | None:
        """The value, or None."""
        return store.get(self.key)


@calls_told_by_form
@attrs.frozen
class TimestampedKeyQuery(KeyedQuery[ValueAndTimestamp[V] | None], Generic[K, V]):
    """The value of a key and its time."""

    kind: ClassVar[Any] = TimestampedStore
    key: K

    def read(self, store: TimestampedStore[K, V]) -> ValueAndTimestamp[V] | None:
        """The value and its time, or None."""
        return store.get(self.key)


@calls_told_by_form
@attrs.frozen
class RangeQuery(Query[Iterator[tuple[K, V]]], Generic[K, V]):
    """The entries from one key to another, both inclusive; None is an open end."""

    kind: ClassVar[Any] = KeyValueStore
    lower: K | None = None
    upper: K | None = None
    descending: bool = False

    def read(self, store: KeyValueStore[K, V]) -> Iterator[tuple[K, V]]:
        """Keys and values, in the order of key bytes."""
        scan = store.reverse_range if self.descending else store.range
        return scan(self.lower, self.upper)


@calls_told_by_form
@attrs.frozen
class TimestampedRangeQuery(Query[Iterator[tuple[K, ValueAndTimestamp[V]]]], Generic[K, V]):
    """The entries from one key to another with their times; as ``RangeQuery``."""

    kind: ClassVar[Any] = TimestampedStore
    lower: K | None = None
    upper: K | None = None
    descending: bool = False

    def read(self, store: TimestampedStore[K, V]) -> Iterator[tuple[K, ValueAndTimestamp[V]]]:
        """Keys with values and times, in the order of key bytes."""
        scan = store.reverse_range if self.descending else store.range
        return scan(self.lower, self.upper)


@calls_told_by_form
@attrs.frozen
class WindowKeyQuery(KeyedQuery[Iterator[tuple[int, V]]], Generic[K, V]):
    """The windows of a key that begin from one time to another, both inclusive, ms."""

    kind: ClassVar[Any] = WindowStore
    key: K
    first: int | None = None
    last: int | None = None

    def read(self, store: WindowStore[K, V]) -> Iterator[tuple[int, V]]:
        """Starts and values, the first window first."""
        return store.fetch(self.key, self.first, self.last)


@calls_told_by_form
@attrs.frozen
class WindowRangeQuery(Query[Iterator[tuple[Windowed[K], V]]], Generic[K, V]):
    """The windows of all keys that begin from one time to another, both inclusive, ms."""

    kind: ClassVar[Any] = WindowStore
    first: int | None = None
    last: int | None = None

    def read(self, store: WindowStore[K, V]) -> Iterator[tuple[Windowed[K], V]]:
        """Windows and values, the first window first."""
        return store.fetch_all(self.first, self.last)


@calls_told_by_form
@attrs.frozen
class SessionKeyQuery(KeyedQuery[Iterator[tuple[Windowed[K], V]]], Generic[K, V]):
    """The sessions of a key."""

    kind: ClassVar[Any] = SessionStore
    key: K

    def read(self, store: SessionStore[K, V]) -> Iterator[tuple[Windowed[K], V]]:
        """Sessions and values, in the order of their ends."""
        return store.fetch(self.key)


@calls_told_by_form
@attrs.frozen
class VersionedKeyQuery(KeyedQuery[VersionedRecord[V] | None], Generic[K, V]):
    """The newest version of a key, or the one that was valid at a time, ms."""

    kind: ClassVar[Any] = VersionedKeyValueStore
    key: K
    as_of: int | None = None

    def read(self, store: VersionedKeyValueStore[K, V]) -> VersionedRecord[V] | None:
        """The version, or None."""
        return store.get(self.key, as_of=self.as_of)


@calls_told_by_form
@attrs.frozen
class MultiVersionedKeyQuery(KeyedQuery[Iterator[VersionedRecord[V]]], Generic[K, V]):
    """The versions of a key that were valid at some time from one to another, inclusive, ms."""

    kind: ClassVar[Any] = VersionedKeyValueStore
    key: K
    first: int | None = None
    last: int | None = None
    descending: bool = False

    def read(self, store: VersionedKeyValueStore[K, V]) -> Iterator[VersionedRecord[V]]:
        """The versions, the oldest one first, or with ``descending`` the newest one."""
        found = store.get(self.key, self.first, self.last)
        return reversed([*found]) if self.descending else found


@explains_misuse
@calls_told_by_form
@attrs.frozen
class StateQueryRequest(Generic[R]):
    """A query of a store, and what its answer has to be like.

    Attributes:
        store: its name.
        query: what is asked.
        position_bound: the position that the answer contains at least.
        partitions: those that are asked; None: that of the key, or all that are here.
        newest: whether to read what is not committed yet.
        timeout: how long to wait for the task and the position, seconds or a ``timedelta``.
        max_staleness: by how much standbys and learners here may be behind, seconds or a
            ``timedelta``; None: only tasks that run here answer.
    """

    store: str
    query: Query[R]
    position_bound: PositionBound = attrs.field(factory=PositionBound)
    partitions: Collection[int] | None = None
    newest: bool = False
    timeout: timedelta | float = 1.0
    max_staleness: timedelta | float | None = None


@explains_misuse
@attrs.frozen
class QueryResult(Generic[R]):
    """The answer of one partition.

    Attributes:
        result: what was found.
        position: how far into its input the answer is.
        staleness_ms: since when there may be later commits; 0 for a task that runs here.
    """

    result: R
    position: Position
    staleness_ms: int = 0


@explains_misuse
@attrs.frozen
class StateQueryResult(Generic[R]):
    """The answers of a query by partition. No partition that was asked is missing."""

    partition_results: Mapping[int, QueryResult[R]]

    @property
    def only_partition_result(self) -> QueryResult[R]:
        """The answer of the one partition that was asked.

        Raises:
            ValueError: it was not one.
        """
        if len(self.partition_results) != 1:
            raise ValueError(f"{len(self.partition_results)} partitions answered, not one")
        return next(iter(self.partition_results.values()))

    @property
    def staleness_ms(self) -> int:
        """The staleness of the answer that is furthest behind, ms."""
        return max((one.staleness_ms for one in self.partition_results.values()), default=0)

    @property
    def position(self) -> Position:
        """The position of all answers; a next query with it as its bound never goes back."""
        found = Position()
        for one in self.partition_results.values():
            found = found.merged(one.position)
        return found
