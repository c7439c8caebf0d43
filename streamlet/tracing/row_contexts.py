"""The contexts that rows of tables keep, if asked for: of the records that changed them last.

Which record changed a row is noted as for other headers (``processing.row_notes``), here by the
trace. A node that only reads rows has a link from its span to what changed the rows of its records'
keys, and results that come later than the record which made them carry its context on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.errors import SerdeError, StateError
from streamlet.kafka.ports import Headers
from streamlet.processing.row_notes import RowNotes
from streamlet.serdes import ColumnError, Windowed
from streamlet.state.bucket_store import BucketStore
from streamlet.state.row_headers import RowHeaders
from streamlet.state.task_state import TaskState
from streamlet.topology.nodes import ProcessorNode
from streamlet.topology.subtopologies import Subtopology
from streamlet.tracing.headers import CarriedContext, carried, with_context
from streamlet.tracing.spans import TaskSpan


class RowContexts(RowNotes):
    """The contexts of the rows of one task; they do nothing where none are kept.

    Args:
        subtopology: what the task does.
        state: its stores.
        span: the span that is open.
    """

    def __init__(
        self, subtopology: Subtopology, state: TaskState, span: Callable[[], TaskSpan | None]
    ) -> None:
        super().__init__(state)
        self._span = span
        #: The headers of the stores whose rows keep contexts.
        self._traced = {name: one for name, one in state.row_headers.items() if one.traced}
        self._nodes = {node.name: node for node in subtopology.processors}
        finals = {one.name for one in subtopology.stores if one.window and one.window.final}
        self._finals = finals & self._traced.keys()

    def carried_on(self, name: str, batch: Batch) -> Batch:
        """Records that a node sends without one; what lacks a context carries that of its row."""
        for one in self._nodes[name].stores:
            if one in self._traced:
                found = self._of_keys(one, batch.keys)
                own = map(carried, batch.headers or [None] * len(batch))
                pairs = zip(found, own, strict=True)
                batch = _carrying(batch, [new if old is None else None for new, old in pairs])
        return batch

    def kept_of(self, headers: Headers | None, stores: Sequence[RowHeaders]) -> Headers:
        """The headers that the rows of these stores keep: with the context, if that is sampled."""
        users = super().kept_of(headers, stores)
        found = carried(headers) if any(one.traced for one in stores) else None
        return (*users, *found.headers) if found is not None and found.sampled else users

    def read_by(self, node: ProcessorNode) -> tuple[str, ...]:
        """The stores that a node only reads, of those whose rows keep contexts."""
        return tuple(one for one in node.reads if one in self._traced)

    def final_of(self, node: ProcessorNode) -> str | None:
        """The store of a node's windows, if their results come when they close."""
        writes = (one for one in node.stores if one not in node.reads)
        return next((one for one in writes if one in self._finals), None)

    def met(self, stores: Sequence[str], keys: list[Any]) -> None:
        """Link the span to what changed rows of these keys."""
        span = self._span()
        if span is not None:
            for one in stores:
                span.link(filter(None, self._of_keys(one, keys)))

    def final(self, store: str, batch: Batch) -> Batch:
        """Results of windows that closed: each with the context of its row, and linked with it."""
        found = self._of_keys(store, batch.keys)
        span = self._span()
        if span is not None:
            span.link(filter(None, found))
        return _carrying(batch, found)

    def _of_keys(self, store: str, keys: list[Any]) -> list[CarriedContext | None]:
        """The contexts of the rows of these keys; None of keys that the store cannot have."""
        there = [key for key in keys if key is not None]
        try:
            rows = iter(self._traced[store].of_rows(_cache_keys(self.stores[store], there)))
        except (ColumnError, SerdeError, StateError, TypeError):  # results may have any keys
            return [None] * len(keys)
        return [None if key is None else carried(next(rows)) for key in keys]


def _cache_keys(store: Any, keys: list[Any]) -> list[Any]:
    windowed = [isinstance(key, Windowed) for key in keys]
    if not hasattr(store, "reads"):
        if any(windowed):
            raise StateError("its rows are not of windows")
        found: list[Any] = store.ckeys(keys)
        return found
    if not all(windowed):
        raise StateError("its rows are of windows")
    by_end = isinstance(store, BucketStore) and store.layout.size_ms is None  # sessions
    return [store.reads.row(key.key, key.end if by_end else key.start) for key in keys]


def _carrying(batch: Batch, found: list[CarriedContext | None]) -> Batch:
    """Records that carry the contexts found, where there are any."""
    if not any(found):
        return batch
    given: Sequence[Headers | None] = batch.headers or [None] * len(batch)
    headers = [
        one if context is None else with_context(one, context.headers)
        for one, context in zip(given, found, strict=True)
    ]
    return attrs.evolve(batch, headers=headers)
