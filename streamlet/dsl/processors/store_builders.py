"""The stores that processors keep: what ``stores=`` takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import attrs

from streamlet.absent import explains_misuse
from streamlet.arguments import never_by_hand, told_by_form
from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.durations import Duration, milliseconds
from streamlet.dsl.graph.functions import check_takes
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import Materialized
from streamlet.dsl.graph.row_expiry import timers_of
from streamlet.dsl.graph.versioned_stores import table_store
from streamlet.dsl.processors.custom_stores import LruStore, MakeStore, object_of
from streamlet.dsl.processors.store_expiry import StoreExpiry
from streamlet.dsl.processors.store_faces import is_operators_own, kept_face
from streamlet.dsl.processors.store_views import (
    KeyValueStore,
    TimestampedStore,
    VersionedKeyValueStore,
)
from streamlet.dsl.processors.window_views import SessionStore, WindowStore
from streamlet.errors import TopologyError
from streamlet.serdes import Serde, SerdeLike
from streamlet.state.bucket_store import bucket_rows
from streamlet.state.store_specs import StoreSpec, WindowSpec
from streamlet.state.timer_store import timer_rows
from streamlet.state.window_rows import row_keys
from streamlet.topology.nodes import GlobalTableSpec
from streamlet.topology.operator import TaskContext
from streamlet.user_code import shown

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")

#: Kinds of stores, by how processors see them.
StoreType: TypeAlias = Literal[
    "key-value", "timestamped", "versioned", "window", "session", "lru", "custom"
]
#: Makes the view of a task's store, given the services of the task and the time of a punctuator.
MakeView: TypeAlias = Callable[[TaskContext, Callable[[], int]], Any]

#: So many rows hold the windows of one key, about: each look-up of a range reads that many at most.
_BUCKETS = 8
#: Why processors may not write a store that they name.
_KEPT = "an operator keeps it"


@explains_misuse
@never_by_hand("key_value_store(), window_store() and their like make it", at=1)
@attrs.frozen(eq=False)
class StoreBuilder(Generic[S]):
    """A store that processors keep, as Kafka Streams' ``StoreBuilder``.

    ``StoreBuilder[KeyValueStore[str, int]]`` is that of a store which processors see so.

    Made by ``key_value_store`` and its like. Processors that name the same one share it; their
    records are processed by one task then. ``retention_ms`` and ``size_ms`` are those of windows;
    entries expire ``ttl_ms`` after their times, None: never.
    """

    type: StoreType
    how: Materialized
    key: Serde[Any]
    value: Serde[Any]
    retention_ms: int = 0
    size_ms: int | None = None
    ttl_ms: int | None = None
    retain_duplicates: bool = False
    max_entries: int = 0
    make: MakeStore | None = None

    @property
    def name(self) -> str:
        """Its name."""
        assert self.how.name is not None
        return self.how.name

    @property
    def names(self) -> tuple[str, ...]:
        """Its name, and that of the store of timers beside it, if entries expire."""
        return (self.name,) if self.ttl_ms is None else (self.name, timers_of(self.name))

    def added(self, builder: Builder) -> StoreSpec:
        """Add it to a topology."""
        for name in self.names[1:]:
            how = attrs.evolve(self.how, name=name, headers=False)
            builder.store(how, "", self.key, timer_rows(), timers=True)
        if self.type not in ("window", "session"):
            call = f"{self.type} store {shown(self.name)}"
            serdes = self.key, self.value
            return table_store(builder, call, self.how, "", serdes, shown=self.view)
        text = f"{self.type} store" + (" with duplicates" if self.retain_duplicates else "")
        bucket_ms = max(1, self.retention_ms // _BUCKETS)
        window = WindowSpec(self.key, text, self.retention_ms, self.size_ms, 0, bucket_ms)
        key = attrs.evolve(row_keys(self.key), name=f"{text} of {self.key.name}")
        rows = bucket_rows(self.value)
        return builder.store(self.how, "", key, rows, window=window, shown=self.view)

    def view(self, task: TaskContext, called_at: Callable[[], int]) -> Any:
        """The store of a task as processors see it.

        Raises:
            StreamletError: it is one of the user's own, and could not be made.
        """
        store, value, make = task.store(self.name), self.value, self.make
        if make is not None:
            rows = KeyValueStore[Any, Any](store, value)
            return object_of(task, self.name, lambda: make(rows))
        if self.type == "lru":
            most = self.max_entries
            return object_of(task, self.name, lambda: LruStore(store, value, most))
        if self.type == "window":
            return WindowStore[Any, Any](store, value, retain_duplicates=self.retain_duplicates)
        if self.type == "session":
            return SessionStore[Any, Any](store, value)
        if self.type == "versioned":
            return VersionedKeyValueStore[Any, Any](store, value)
        expiry = None
        if self.ttl_ms is not None:
            timers = task.store(self.names[1])
            expiry = StoreExpiry(store, timers, self.key, self.ttl_ms, called_at)
        if self.type == "timestamped":
            return TimestampedStore[Any, Any](store, value, expiry=expiry)
        return KeyValueStore[Any, Any](store, value, expiry=expiry)


def reader_of(spec: StoreSpec) -> MakeView:
    """A function that shows processors a store that an operator keeps.

    Raises:
        TopologyError: it is an operator's own, with neither rows of a table nor windows.
    """
    if is_operators_own(spec):
        raise TopologyError(
            f"store {spec.name!r} has neither keys and values nor windows, to be read here"
        )
    return lambda task, called_at: kept_face(spec, task, TimestampedStore, called_at, _KEPT)


def global_reader_of(table: GlobalTableSpec) -> MakeView:
    """A function that shows processors the rows of a global table, whatever their task is."""
    why = f"it has the rows of topic {table.topic!r}; send a record there to change one"
    return lambda task, called_at: kept_face(table.store, task, TimestampedStore, called_at, why)


#: What ``stores=`` takes: stores, or names of those that the topology has already.
Stores: TypeAlias = Sequence[StoreBuilder[Any] | str]


@told_by_form
def key_value_store(
    name: str,
    *,
    key: SerdeLike[K],
    value: SerdeLike[V],
    persistent: bool = True,
    logged: bool = True,
    ttl: Duration | None = None,
    headers: bool = False,
) -> StoreBuilder[KeyValueStore[K, V]]:
    """A store of values by key: ``KeyValueStore``.

    ``persistent``, ``logged`` and ``headers`` as of ``Materialized``. With ``ttl`` an entry is not
    shown any more once stream time is so far past that at which it was put, and deleted later; then
    there is a second store, ``NAME-ttl``. Stream time is the highest timestamp of the records that
    the processors of the store were given, kept over restarts.

    Raises:
        TopologyError: there is no serde for the types.
    """
    how = Materialized(name, persistent, logged, headers=headers)
    return _expiring(_built("key_value_store", "key-value", how, key, value), ttl)


@told_by_form
def timestamped_store(
    name: str,
    *,
    key: SerdeLike[K],
    value: SerdeLike[V],
    persistent: bool = True,
    logged: bool = True,
    ttl: Duration | None = None,
    headers: bool = False,
) -> StoreBuilder[TimestampedStore[K, V]]:
    """A store of values with timestamps by key: ``TimestampedStore``.

    ``persistent``, ``logged`` and ``headers`` as of ``Materialized``. With ``ttl`` an entry is not
    shown any more once stream time is so far past its timestamp, and deleted later; then there is a
    second store, ``NAME-ttl``. Stream time is as of ``key_value_store``.

    Raises:
        TopologyError: there is no serde for the types.
    """
    how = Materialized(name, persistent, logged, headers=headers)
    return _expiring(_built("timestamped_store", "timestamped", how, key, value), ttl)


@told_by_form
def versioned_store(
    name: str,
    *,
    key: SerdeLike[K],
    value: SerdeLike[V],
    history: Duration,
    persistent: bool = True,
    logged: bool = True,
    headers: bool = False,
) -> StoreBuilder[VersionedKeyValueStore[K, V]]:
    """A store of the values that a key had, each from a time on: ``VersionedKeyValueStore``.

    ``history`` is how far back from the latest timestamp it can be asked, as of ``tumbling``.
    ``persistent``, ``logged`` and ``headers`` as of ``Materialized``.

    Raises:
        TopologyError: there is no serde for the types, or the history is no duration.
    """
    history_ms = milliseconds(f"versioned_store({shown(name)}): history", history)
    how = Materialized(name, persistent, logged, history=history_ms, headers=headers)
    return _built("versioned_store", "versioned", how, key, value)


@told_by_form
def window_store(
    name: str,
    *,
    key: SerdeLike[K],
    value: SerdeLike[V],
    size: Duration,
    retention: Duration,
    retain_duplicates: bool = False,
    persistent: bool = True,
    logged: bool = True,
    headers: bool = False,
) -> StoreBuilder[WindowStore[K, V]]:
    """A store of values by key and start of a window: ``WindowStore``.

    ``size`` is that of the windows, for the ends in their keys. Windows are kept until one begins
    that is ``retention`` later. ``retain_duplicates``: each value that is put under one key and
    start is kept, in place of the last one; none of them has headers. ``persistent``, ``logged``
    and ``headers`` as of ``Materialized``.

    Raises:
        TopologyError: there is no serde for the types, the retention is shorter than the size, or
            duplicates are to have headers.
    """
    call = f"window_store({shown(name)})"
    size_ms = milliseconds(f"{call}: size", size, 1)
    retention_ms = milliseconds(f"{call}: retention", retention, 1)
    if retention_ms < size_ms:
        raise TopologyError(f"{call}: a retention shorter than the size of {size_ms} ms")
    if headers and retain_duplicates:
        raise TopologyError(f"{call}: headers= is of one value for each start, not of duplicates")
    how = Materialized(name, persistent, logged, headers=headers)
    built = _built("window_store", "window", how, key, value)
    return attrs.evolve(
        built,
        retention_ms=retention_ms,
        size_ms=size_ms,
        retain_duplicates=retain_duplicates,
    )


@told_by_form
def session_store(
    name: str,
    *,
    key: SerdeLike[K],
    value: SerdeLike[V],
    retention: Duration,
    persistent: bool = True,
    logged: bool = True,
    headers: bool = False,
) -> StoreBuilder[SessionStore[K, V]]:
    """A store of values by key, start and end of a session: ``SessionStore``.

    Sessions are kept until one ends that is ``retention`` later. ``persistent``, ``logged`` and
    ``headers`` as of ``Materialized``.

    Raises:
        TopologyError: there is no serde for the types, or the retention is no duration.
    """
    retention_ms = milliseconds(f"session_store({shown(name)}): retention", retention, 1)
    how = Materialized(name, persistent, logged, headers=headers)
    built = _built("session_store", "session", how, key, value)
    return attrs.evolve(built, retention_ms=retention_ms)


@told_by_form
def lru_store(
    name: str,
    *,
    key: SerdeLike[K],
    value: SerdeLike[V],
    max_entries: int,
    persistent: bool = True,
    logged: bool = True,
) -> StoreBuilder[LruStore[K, V]]:
    """A store of the latest keys: ``LruStore``, as Kafka Streams' ``Stores.lruMap``.

    ``max_entries`` is the most keys of each task. ``persistent`` and ``logged`` as of
    ``Materialized``.

    Raises:
        TopologyError: there is no serde for the types, or ``max_entries`` is no number from 1 on.
    """
    if type(max_entries) is not int or max_entries < 1:
        raise TopologyError(
            f"lru_store({shown(name)}): max_entries={shown(max_entries)} is not from 1 on"
        )
    built = _built("lru_store", "lru", Materialized(name, persistent, logged), key, value)
    return attrs.evolve(built, max_entries=max_entries)


@told_by_form
def custom_store(
    name: str,
    make: Callable[[KeyValueStore[K, V]], S],
    *,
    key: SerdeLike[K],
    value: SerdeLike[V],
    persistent: bool = True,
    logged: bool = True,
) -> StoreBuilder[S]:
    """A store of your own: ``context.store(name)`` gives the object that ``make(rows)`` made.

    ``rows`` is the ``KeyValueStore`` in which the object keeps what must last. Rows are restored,
    committed with the positions of the task, and moved with it, like those of any other store. The
    object may keep more in memory, such as an index, which ``make`` builds of the rows that are
    there: it is called once for each active period of a task, when a processor asks for the store
    first, and processors of one task share the object. What the object puts into ``rows`` counts
    from then on; what it keeps back is lost with the task, since there is no flush.

    ``persistent`` and ``logged`` as of ``Materialized``. A ``make`` that raises, or gives None,
    ends the task with a ``StreamletError`` that names the store.

    Raises:
        TopologyError: there is no serde for the types, or ``make`` takes no store.
    """
    check_takes(f"custom_store({shown(name)})", make, "rows")
    built = _built("custom_store", "custom", Materialized(name, persistent, logged), key, value)
    return attrs.evolve(built, make=make)


def _expiring(built: StoreBuilder[S], ttl: Duration | None) -> StoreBuilder[S]:
    if ttl is None:
        return built
    return attrs.evolve(built, ttl_ms=milliseconds(f"store {shown(built.name)}: ttl", ttl, 1))


def _built(call: str, of: StoreType, how: Materialized, key: Any, value: Any) -> StoreBuilder[Any]:
    call = f"{call}({shown(how.name)})"
    if not isinstance(how.name, str) or not how.name:
        raise TopologyError(f"{call}: a store needs a name")
    serdes = [
        Kind.given(given, call, role).needed(call, role)
        for given, role in ((key, "key"), (value, "value"))
    ]
    return StoreBuilder[Any](of, how, serdes[0], serdes[1])
