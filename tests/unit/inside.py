"""The stores of a ``TopologyTestDriver`` as their operators have them."""

from __future__ import annotations

from streamlet.state.store import CachedStore
from streamlet.testing import TopologyTestDriver


def inside(driver: TopologyTestDriver, name: str, partition: int | None = None) -> CachedStore:
    """The store of that name; without a partition the first task's, if there are several."""
    if name in driver._globals.stores:
        return driver._globals.stores[name]
    (store, *_) = [
        part.state.stores[name]
        for part in driver._parts
        if name in part.stores.specs and partition in (None, part.task.task.partition)
    ]
    return store
