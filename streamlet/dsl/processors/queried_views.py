"""The stores as queries see them: the classes that processors and tests know, over several tasks.

A read by a key is made in the task that has the key, another one in all tasks, whose answers are
put together in the order that the store of one task has. How a task is found and how one of its
reads is made is an affair of ``TaskReads``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from typing import Any, Protocol

from streamlet.dsl.processors.store_builders import StoreBuilder
from streamlet.dsl.processors.store_faces import OperatorStore, face_of
from streamlet.dsl.processors.store_view import StoreView
from streamlet.dsl.processors.store_views import (
    KeyValueStore,
    TimestampedStore,
    VersionedKeyValueStore,
    seen_as,
)
from streamlet.dsl.processors.window_views import SessionStore, WindowStore
from streamlet.serdes.windowed import Windowed
from streamlet.state.store_specs import StoreSpec
from streamlet.topology.operator import TaskContext

#: Why nothing is written by way of a query.
QUERIED = "a query reads what the application has written"


class TaskReads(Protocol):
    """The way to the tasks of one store."""

    def of_key(self, key: Any, read: Callable[[Any], Any]) -> Any:
        """The result of ``read`` on the store of the task that has a key."""
        ...

    def of_all(self, read: Callable[[Any], Any]) -> list[Any]:
        """The results of ``read`` on the store of each task, in the order of partitions."""
        ...

    def key_bytes(self, key: Any) -> bytes:
        """The bytes of a record key."""
        ...


def queried_face(spec: StoreSpec, task: Any, kind: Any) -> Any:
    """The store of one task, to be read.

    Of a user's own store, and of one of the latest keys, these are the rows.

    Raises:
        TypeError: it is not of the kind, if one is given.
    """
    builder = getattr(spec.shown, "__self__", None)
    if isinstance(builder, StoreBuilder) and (builder.make is not None or builder.type == "lru"):
        rows: Any = task.store(spec.name)
        found: Any = KeyValueStore[Any, Any](rows, spec.value, QUERIED)
    else:
        context: TaskContext = task
        found = face_of(spec, context)
        found._read_only = QUERIED
    return found if kind is None else seen_as(found, kind)


def over_tasks(face: StoreView, reading: TaskReads) -> Any:
    """A store of the class that one task's has, whose reads are made as ``reading`` makes them."""
    for kind, queried in _QUERIED_AS.items():
        if isinstance(face, kind):
            made: Any = object.__new__(queried)
            made.__dict__.update(face.__dict__)
            made._reading = reading
            return made
    raise AssertionError(f"no queries of a {type(face).__name__}")


# -- how reads are made ----------------------------------------------------------------------------


def _by_key(method: str, key_of: Callable[[Any], Any] = lambda key: key) -> Any:
    """A read in the task that has the key of its first argument."""

    def read(store: Any, key: Any, *more: Any, **named: Any) -> Any:
        store._key(key)
        return store._reading.of_key(
            key_of(key), lambda face: getattr(face, method)(key, *more, **named)
        )

    return read


def _in_all(method: str, order: Callable[[Any, Any], Any], *, backward: bool = False) -> Any:
    """A read in all tasks; ``order`` gives what their entries are sorted by."""

    def read(store: Any, *more: Any, **named: Any) -> Iterator[Any]:
        found = store._reading.of_all(lambda face: getattr(face, method)(*more, **named))
        if len(found) == 1:
            return iter(found[0])
        in_order = _place_of(store._reading, order)
        return iter(merge(*found, key=in_order, reverse=backward))

    return read


def _either(
    method: str,
    of_key: tuple[int, ...],
    order: Callable[[Any, Any], Any],
    *,
    backward: bool = False,
) -> Any:
    """A read by its first argument, a key, with so many arguments; else one in all tasks."""
    by_key, in_all = _by_key(method), _in_all(method, order, backward=backward)

    def read(store: Any, *given: Any) -> Any:
        return (by_key if len(given) in of_key else in_all)(store, *given)

    return read


def _place_of(reading: TaskReads, order: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda entry: order(reading, entry)


def _by_bytes(reading: TaskReads, entry: Any) -> Any:
    return reading.key_bytes(entry[0])


def _by_start(reading: TaskReads, entry: Any) -> Any:
    return entry[0].start, reading.key_bytes(entry[0].key), entry[0].end


def _by_end(reading: TaskReads, entry: Any) -> Any:
    return entry[0].end, reading.key_bytes(entry[0].key), entry[0].start


def _key_of_window(window: Windowed[Any]) -> Any:
    return window.key if isinstance(window, Windowed) else window


def _counted(store: Any) -> int:
    """The number of entries in all tasks, for which all of them are read."""
    counts: list[int] = store._reading.of_all(lambda face: face.approximate_num_entries())
    return sum(counts)


# -- the stores ------------------------------------------------------------------------------------


class _QueriedEntries:
    """Reads of entries by key."""

    def prefix_scan(self, *given: Any, reverse: bool = False, **named: Any) -> Any:
        """The entries of all tasks whose key bytes begin with those of a prefix."""
        read = _in_all("prefix_scan", _by_bytes, backward=reverse)
        return read(self, *given, reverse=reverse, **named)

    get: Any = _by_key("get")
    timestamp: Any = _by_key("timestamp")
    headers: Any = _by_key("headers")
    range: Any = _in_all("range", _by_bytes)
    reverse_range: Any = _in_all("reverse_range", _by_bytes, backward=True)
    approximate_num_entries: Any = _counted


class QueriedKeyValueStore(_QueriedEntries, KeyValueStore[Any, Any]):
    """The values by key of several tasks."""


class QueriedTimestampedStore(_QueriedEntries, TimestampedStore[Any, Any]):
    """The values by key, with their times, of several tasks."""


class QueriedVersionedStore(VersionedKeyValueStore[Any, Any]):
    """The versions of several tasks."""

    get: Any = _by_key("get")
    headers: Any = _by_key("headers")


class QueriedWindowStore(WindowStore[Any, Any]):
    """The windows of several tasks."""

    get: Any = _by_key("get", _key_of_window)
    timestamp: Any = _by_key("timestamp", _key_of_window)
    headers: Any = _by_key("headers", _key_of_window)
    range: Any = _in_all("range", _by_start)
    fetch: Any = _either("fetch", (2, 3), _by_start)
    backward_fetch: Any = _either("backward_fetch", (2, 3), _by_start, backward=True)
    fetch_all: Any = _in_all("fetch_all", _by_start)
    backward_fetch_all: Any = _in_all("backward_fetch_all", _by_start, backward=True)


class QueriedSessionStore(SessionStore[Any, Any]):
    """The sessions of several tasks."""

    get: Any = _by_key("get", _key_of_window)
    timestamp: Any = _by_key("timestamp", _key_of_window)
    headers: Any = _by_key("headers", _key_of_window)
    range: Any = _in_all("range", _by_end)
    fetch_session: Any = _by_key("fetch_session")
    find_sessions: Any = _either("find_sessions", (3,), _by_end)
    backward_find_sessions: Any = _either("backward_find_sessions", (3,), _by_end, backward=True)
    fetch: Any = _either("fetch", (1,), _by_end)
    backward_fetch: Any = _either("backward_fetch", (1,), _by_end, backward=True)
    all: Any = _in_all("all", _by_end)
    backward_all: Any = _in_all("backward_all", _by_end, backward=True)


class QueriedOperatorStore(OperatorStore):
    """The rows that an operator keeps of several tasks, those of one behind those of another."""

    approximate_num_entries: Any = _counted

    def all(self) -> Iterator[tuple[Any, Any]]:
        """All rows, task by task."""
        for rows in self._reading.of_all(lambda face: face.all()):
            yield from rows

    _reading: TaskReads


_QUERIED_AS: dict[type, type] = {
    KeyValueStore: QueriedKeyValueStore,
    TimestampedStore: QueriedTimestampedStore,
    VersionedKeyValueStore: QueriedVersionedStore,
    WindowStore: QueriedWindowStore,
    SessionStore: QueriedSessionStore,
    OperatorStore: QueriedOperatorStore,
}
