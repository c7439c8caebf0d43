"""The stores of a task as processors, tests and queries see them: by the methods of their kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from streamlet.dsl.graph.row_expiry import timers_of
from streamlet.dsl.processors.store_expiry import StoreExpiry
from streamlet.dsl.processors.store_view import StoreView
from streamlet.dsl.processors.store_views import (
    KeyValueStore,
    TimestampedStore,
    VersionedKeyValueStore,
)
from streamlet.dsl.processors.window_views import window_view
from streamlet.state.rows import NO_TIME
from streamlet.state.store_specs import StoreSpec
from streamlet.topology.operator import TaskContext


class OperatorStore(StoreView):
    """A store of an operator's own: of a join, a buffer of ``suppress``, or timers.

    What its rows mean is the operator's affair, so they can be looked at and no more.
    """

    def all(self) -> Iterator[tuple[Any, Any]]:
        """All rows, in their order."""
        found: Iterator[tuple[Any, Any]] = self._store.range()
        return found

    def approximate_num_entries(self) -> int:
        """The number of rows, for which all of them are read."""
        return sum(1 for _ in self._store.range())


@attrs.frozen(eq=False)
class GlobalStores:
    """The stores of global tables, asked for as those of a task are."""

    stores: Mapping[str, Any]

    def store(self, name: str) -> Any:
        """A store of a global table."""
        return self.stores[name]


def face_of(spec: StoreSpec, task: TaskContext | GlobalStores) -> Any:
    """A store with the public methods of its kind.

    That of a processor is as the processor sees it, and the rows of a table are a ``KeyValueStore``
    of their values.
    """
    if spec.shown is not None:
        return spec.shown(task, _no_time)
    if is_operators_own(spec):
        return OperatorStore(task.store(spec.name), spec.value)
    return kept_face(spec, task, KeyValueStore, _no_time)


def is_operators_own(spec: StoreSpec) -> bool:
    """True if a store has neither rows of a table nor windows."""
    own_windows = spec.window is not None and spec.window.value is None  # as of `deduplicate`
    return spec.buffer is not None or bool(spec.join) or spec.timers or own_windows


def kept_face(
    spec: StoreSpec,
    task: TaskContext | GlobalStores,
    kind: type[KeyValueStore[Any, Any] | TimestampedStore[Any, Any]],
    called_at: Callable[[], int],
    read_only: str = "",
) -> StoreView:
    """A store of a table, rows of which are shown as this kind has them, or of windows.

    Args:
        spec: the store.
        task: has it.
        kind: of store by key.
        called_at: the time at which it is read, as far as known to its reader, ms.
        read_only: why nothing can be put.
    """
    store = task.store(spec.name)
    if spec.versions is not None:
        return VersionedKeyValueStore[Any, Any](store, spec.versions.value, read_only)
    if spec.window is not None:
        return window_view(store, spec.window, read_only)
    expiry = None
    if spec.ttl_ms is not None:
        store.ttl.timers = timers = task.store(timers_of(spec.name))
        expiry = StoreExpiry(store, timers, spec.key, spec.ttl_ms, called_at)
    return kind(store, spec.value, read_only, expiry, of_table=True)


def _no_time() -> int:
    return NO_TIME
