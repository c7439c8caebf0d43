"""The rows that a record has changed in stores, for joins that ask what they were before it."""

from __future__ import annotations

from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.serdes.copies import own
from streamlet.topology.operator import Operator

#: Topic, partition and offset.
_Place: TypeAlias = tuple[str, int, int]


@attrs.define(eq=False)
class PresentChanges:
    """The rows that the present batch changed in a store.

    ``olds`` are the previous values by cache key, each with the place of its record. ``joined``
    are joins that have the change of a place, with whether both rows were new then.
    """

    olds: dict[Any, tuple[_Place, Any]] = attrs.field(factory=dict)
    joined: dict[tuple[str, _Place], bool] = attrs.field(factory=dict)


@attrs.define(eq=False)
class NotedStores:
    """The stores of one topology whose changes joins ask for."""

    names: set[str] = attrs.field(factory=set)
    _changes: WeakKeyDictionary[Any, PresentChanges] = attrs.field(factory=WeakKeyDictionary)

    def of(self, store: Any) -> PresentChanges:
        """The changes of a task's store."""
        return self._changes.setdefault(store, PresentChanges())


@attrs.frozen
class NotingChanges:
    """Notes the rows that ``inner`` changes in a store."""

    inner: Operator
    store: Any
    changes: PresentChanges

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` as ``inner`` does."""
        self.changes.olds.clear()
        self.changes.joined.clear()
        try:
            out = self.inner.process(batch)
        except OperatorFailed as failed:
            self._note(failed.done)
            raise
        self._note(out)
        return out

    def _note(self, out: Batch) -> None:
        if out.olds is None:
            return
        columns = self.store.ckeys(out.keys), out.offsets, out.olds
        for ckey, offset, old in zip(*columns, strict=True):
            # The old value itself goes on, to functions that may change it.
            self.changes.olds[ckey] = (out.topic, out.partition, offset), own(old)
