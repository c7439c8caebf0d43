"""The stores as processors see them: Python keys and values, checked when they are put.

A value that can change in place is copied when it is put and when it is read, so a processor may
change what it has.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, Never, TypeVar, get_origin, overload

from streamlet.absent import explains_misuse
from streamlet.arguments import rare_calls_told_by_form, refuse_more
from streamlet.dsl.operators.pairs import pair
from streamlet.dsl.processors.record import checked_time
from streamlet.dsl.processors.store_view import StoreView
from streamlet.kafka.ports import Headers
from streamlet.serdes import SerdeLike
from streamlet.serdes import serde as serde_of
from streamlet.state.rows import NO_TIME
from streamlet.state.store import CachedStore
from streamlet.state.version_rows import VersionedRecord
from streamlet.state.versioned_store import NEWEST, NOT_PUT, VersionedStore
from streamlet.user_code import plain_hint, shown

K = TypeVar("K")
V = TypeVar("V")
E = TypeVar("E")
S = TypeVar("S")

#: What messages say of arguments that ``get`` and ``put`` do not have.
NO_DEFAULT = "it has no default, and gives None for a key that has no value"
NO_TIMES = "a store of streamlet.timestamped_store() keeps times"


@explains_misuse
class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A value with its timestamp, ms since the epoch."""

    value: V
    timestamp: int


def _pairs_of(entries: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """The entries to put, each checked: the two characters of a text are no key and value."""
    wanted = "put_all() expects pairs (key, value)"
    if isinstance(entries, Mapping):
        raise TypeError(f"{wanted}, got a {type(entries).__name__}; give its .items()")
    if not isinstance(entries, Iterable):
        raise TypeError(f"{wanted}, got {shown(entries)}")
    for entry in entries:
        key, value = pair(entry, wanted)
        yield key, value


@rare_calls_told_by_form
class _EntriesView(StoreView, Generic[K, E]):
    """The part that stores of values by key share; ``E`` is what they give of an entry."""

    _store: CachedStore

    @abstractmethod
    def _seen(self, key: Any, value: Any) -> E | None:
        """A stored value as the store gives it; None if there is none."""

    def get(self, key: K, *more: Never, **named: Never) -> E | None:
        """The value of a key, with its time if the store gives that, or None."""
        if more or named:
            refuse_more("get(key)", NO_DEFAULT)
        return self._seen(key, self._get(key))

    def delete(self, key: K) -> E | None:
        """Delete a key; what ``get`` gave of it, or None."""
        there = self.get(key)
        self._put(key, None, NO_TIME)
        return there

    def range(self, low: K | None = None, high: K | None = None) -> Iterator[tuple[K, E]]:
        """Keys with what ``get`` gives from ``low`` to ``high``, in the order of key bytes."""
        return self._made(self._store.range(low, high))

    def reverse_range(self, low: K | None = None, high: K | None = None) -> Iterator[tuple[K, E]]:
        """The entries of ``range``, the last one first."""
        return self._made(self._store.backward_range(low, high))

    def all(self) -> Iterator[tuple[K, E]]:
        """All keys with what ``get`` gives, in the order of key bytes."""
        return self.range()

    def reverse_all(self) -> Iterator[tuple[K, E]]:
        """The entries of ``all``, the last one first."""
        return self.reverse_range()

    def prefix_scan(
        self, prefix: Any, serde: SerdeLike[Any] | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, E]]:
        """Entries whose key bytes begin with the bytes of ``prefix``, in their order.

        ``serde`` writes the prefix; without one it is written as a key is. ``reverse``: the last
        one first.
        """
        given = None if serde is None else serde_of(serde)
        return self._made(self._store.prefix(self._key(prefix), given, backward=reverse))

    def _made(self, found: Iterable[tuple[Any, Any]]) -> Iterator[tuple[K, E]]:
        entries = ((key, self._seen(key, value)) for key, value in self._shown(found))
        return ((key, seen) for key, seen in entries if seen is not None)

    def timestamp(self, key: Any) -> int | None:
        """The time of a key's value, ms since the epoch; None if there is none."""
        return None if self._get(key) is None else self._store.timestamp(key)

    def headers(self, key: Any) -> Headers:
        """The headers of the record that changed a key's row last, as pairs of name and bytes.

        None for a key without a row. Those of traces and of streamlet itself are left out.

        Raises:
            InvalidStateStoreError: the store keeps no headers (``Materialized(headers=True)``).
        """
        if self._get(key) is None and self.keeps_headers:
            return ()
        (ckey,) = self._store.ckeys([self._key(key)])
        return self._headers(ckey)

    def approximate_num_entries(self) -> int:
        """The number of entries, for which all of them are read."""
        return sum(1 for _ in self._shown(self._store.range()))


@rare_calls_told_by_form
@explains_misuse
class KeyValueStore(_EntriesView[K, V], Generic[K, V]):
    """A store of values by key.

    Keys of a range are inclusive at both ends, None is an open end, and the order is that of their
    bytes, as the serde writes them. What is put or deleted while entries are read may be seen or
    not; no entry that was deleted before it came is.

    Raises:
        TypeError: a key is None.
        SerdeError: the serde refuses a key or a value.
        TopologyError: an operator keeps the store, and a processor writes it.
    """

    def _seen(self, key: Any, value: Any) -> V | None:
        return self._read(value)  # type: ignore[no-any-return]

    def put(self, key: K, value: V | None, *more: Never, **named: Never) -> None:
        """Set the value of a key, or delete it with None."""
        if more or named:
            refuse_more("put(key, value)", NO_TIMES)
        time = NO_TIME if self._expiry is None else self._expiry.now()
        self._put(key, value, time)

    def put_if_absent(self, key: K, value: V) -> V | None:
        """Set the value of a key that has none; the value that it had, or None."""
        there = self.get(key)
        if there is None:
            self.put(key, value)
        return there

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """``put`` for each pair."""
        for key, value in _pairs_of(entries):
            self.put(key, value)


@rare_calls_told_by_form
@explains_misuse
class TimestampedStore(_EntriesView[K, ValueAndTimestamp[V]], Generic[K, V]):
    """A store of values with their timestamps by key.

    Ranges, order and errors as of ``KeyValueStore``; a timestamp is in ms since the epoch.
    """

    def _seen(self, key: Any, value: Any) -> ValueAndTimestamp[V] | None:
        if value is None:
            return None
        time = self._store.timestamp(key)
        return ValueAndTimestamp(self._read(value), NO_TIME if time is None else time)

    def put(self, key: K, value: V | None, timestamp: int) -> None:
        """Set the value of a key and its time (ms since the epoch), or delete it with None."""
        checked_time(timestamp, f"for store {self.name} a timestamp")
        self._put(key, value, timestamp)

    def put_if_absent(self, key: K, value: V, timestamp: int) -> ValueAndTimestamp[V] | None:
        """Set the value of a key that has none; the value that it had with its time, or None."""
        there = self.get(key)
        if there is None:
            self.put(key, value, timestamp)
        return there

    def put_all(self, entries: Iterable[tuple[K, ValueAndTimestamp[V] | None]]) -> None:
        """``put`` for each pair; a key with None is deleted."""
        for key, given in _pairs_of(entries):
            if given is None:
                self.delete(key)
            else:
                self.put(key, *given)


@rare_calls_told_by_form
@explains_misuse
class VersionedKeyValueStore(StoreView, Generic[K, V]):
    """A store of the values that a key had, each with the time from which on it was valid.

    As far back from the latest time that was put as its history goes; what a key has newest stays.
    """

    _store: VersionedStore

    #: What ``put`` gives for a value that is the newest one: no later one ends it.
    VALID_TO_UNDEFINED: ClassVar[int] = -1
    #: What ``put`` gives for a time that is out of the history: nothing was put.
    NOT_PUT: ClassVar[int] = -(1 << 63)

    @overload
    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None: ...
    @overload
    def get(
        self, key: K, first: int | None, last: int | None, /
    ) -> Iterator[VersionedRecord[V]]: ...
    def get(self, key: K, *times: int | None, as_of: int | None = None) -> Any:
        """The newest value of a key, the one that it had at a time, or all from one to another.

        - ``get(key)``: the newest one, or None.
        - ``get(key, as_of)``: the one that was valid at a time, ms since the epoch. None if there
          was none, or the time is out of the history and the newest one came later.
        - ``get(key, first, last)``: those that were valid at some time from one to another, both
          inclusive, the oldest one first; None is an open end. Times that are out of the history
          count for the newest one only.
        """
        store = self._store
        times = times if as_of is None else (*times, as_of)
        if len(times) > 2:
            raise TypeError(f"store {self.name}: get takes a key and up to two times")
        for time in times:
            if time is not None and (isinstance(time, bool) or not isinstance(time, int)):
                expected = f"for store {self.name} a time in ms since the epoch as an int"
                raise TypeError(f"expected {expected}, got {shown(time)}{plain_hint(time)}")
        if len(times) == 2:
            low, high = times
            ends = (0 if low is None else low), (NEWEST if high is None else high)
            records = store.between(self._key(key), *ends)
            return (one._replace(value=self._read(one.value)) for one in records)
        found: VersionedRecord[V] | None = store.get(self._key(key), *times)
        return None if found is None else found._replace(value=self._read(found.value))

    def headers(self, key: K, as_of: int | None = None) -> Headers:
        """The headers of the record that put the newest value of a key, or the one of a time.

        Pairs of name and bytes; none where ``get`` gives no value. Those of traces and of streamlet
        itself are left out.

        Raises:
            InvalidStateStoreError: the store keeps no headers (``Materialized(headers=True)``).
        """
        self._check_headers()
        return self._store.headers(self._key(key), as_of)

    def put(self, key: K, value: V | None, timestamp: int) -> int:
        """Set the value that a key has from a time on, until the next one begins.

        None deletes it from then on. As in Kafka Streams it gives the time at which the next one
        begins, ms since the epoch, ``VALID_TO_UNDEFINED`` if this one is the newest, or ``NOT_PUT``
        if the time is out of the history.
        """
        checked_time(timestamp, f"for store {self.name} a timestamp")
        (head,) = self._store.ckeys([self._key(key)])
        valid_to = self._store.put_version(head, self._stored(value), timestamp)
        if valid_to == NOT_PUT:
            self._drop(f"a version of {timestamp}")
        special = {NEWEST: self.VALID_TO_UNDEFINED, NOT_PUT: self.NOT_PUT}
        return special.get(valid_to, valid_to)

    def delete(self, key: K, timestamp: int) -> VersionedRecord[V] | None:
        """Delete a key from a time on; the value that it had then, or None.

        A time that is out of the history deletes nothing, and gives None.
        """
        there = self.get(key, timestamp)
        return None if self.put(key, None, timestamp) == self.NOT_PUT else there


def seen_as(found: Any, kind: type[S]) -> S:
    """A store that was asked for with its kind, such as ``WindowStore[str, int]``.

    The rows of a table are a ``KeyValueStore`` or a ``TimestampedStore``, as they are asked for.

    Raises:
        TypeError: it is of another kind.
    """
    wanted: Any = get_origin(kind) or kind
    if isinstance(found, wanted):
        return found  # type: ignore[no-any-return]
    if isinstance(found, _EntriesView) and found._of_table and wanted in _OF_TABLES:
        how = found._store, found._value, found._read_only, found._expiry
        return wanted(*how, of_table=True)  # type: ignore[no-any-return]
    name = f"store {found.name}" if isinstance(found, StoreView) else "the store"
    raise TypeError(
        f"{name} is a {type(found).__name__}, not a {getattr(wanted, '__name__', wanted)}"
    )


#: The kinds that the rows of a table can be seen as.
_OF_TABLES = KeyValueStore, TimestampedStore
