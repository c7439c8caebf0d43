"""The contexts that rows of tables keep, if asked for: of the records that changed them last.

A node that writes such rows is given the records of one trace at a time, so that what it writes is
that trace's; an operator that writes the rows of its records' keys alone gets them all. One that
only reads rows has a link from its span to what changed the rows of its records' keys, and results
that come later than the record which made them carry its context on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed, joined
from streamlet.errors import SerdeError, StateError
from streamlet.kafka.ports import Headers
from streamlet.serdes import ColumnError, Windowed
from streamlet.state.row_headers import RowHeaders
from streamlet.state.store import CachedStore
from streamlet.state.task_state import TaskState
from streamlet.topology.nodes import ProcessorNode
from streamlet.topology.operator import (
    CallingOperator,
    GatheringOperator,
    OperatorInParts,
    OrderedOperator,
)
from streamlet.topology.subtopologies import Subtopology
from streamlet.tracing.headers import CarriedContext, carried, with_context
from streamlet.tracing.spans import TaskSpan


class RowContexts:
    """The contexts of the rows of one task; they do nothing where none are kept.

    Args:
        subtopology: what the task does.
        state: its stores.
        span: the span that is open.
    """

    def __init__(
        self, subtopology: Subtopology, state: TaskState, span: Callable[[], TaskSpan | None]
    ) -> None:
        self._kept, self._stores, self._span = state.row_headers, state.stores, span
        self._nodes = {node.name: node for node in subtopology.processors}
        finals = {one.name for one in subtopology.stores if one.window and one.window.final}
        self._finals = finals & self._kept.keys()

    def hooked(self, subtopology: Subtopology) -> Subtopology:
        """The subtopology with hooks around the nodes that have such rows."""
        if not self._kept:
            return subtopology
        processors = tuple(map(self._hooked, subtopology.processors))
        return attrs.evolve(subtopology, processors=processors)

    def carried_on(self, name: str, batch: Batch) -> Batch:
        """Records that a node sends without one; what lacks a context carries that of its row."""
        for one in self._nodes[name].stores:
            if one in self._kept:
                found = self._of_keys(one, batch.keys)
                own = map(carried, batch.headers or [None] * len(batch))
                pairs = zip(found, own, strict=True)
                batch = _carrying(batch, [new if old is None else None for new, old in pairs])
        return batch

    def _hooked(self, node: ProcessorNode) -> ProcessorNode:
        reads = tuple(one for one in node.reads if one in self._kept)
        writes = tuple(one for one in node.stores if one in self._kept and one not in node.reads)
        if node.in_order or not (reads or writes):
            return node
        before = node.around
        plain = all(type(self._stores[one]) is CachedStore for one in writes)
        own_rows = plain and node.with_processor is None

        def around(operator: Any) -> Any:
            if isinstance(operator, CallingOperator | GatheringOperator | OrderedOperator):
                return operator if before is None else before(operator)
            inner = operator if before is None else before(operator)
            kind = _InParts if isinstance(inner, OperatorInParts) else _Whole
            final = next((one for one in writes if one in self._finals), None)
            kept = [self._kept[one] for one in writes]
            return kind(inner, self, reads, kept, final, own_rows)

        return attrs.evolve(node, around=around)

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
            rows = iter(self._kept[store].of_rows(_cache_keys(self._stores[store], there)))
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
    return [store.reads.row(key.key, key.start) for key in keys]


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


def _runs(batch: Batch) -> Iterator[tuple[int, Batch, Headers]]:
    """The records of a batch by the sampled context they carry, from the first to the last.

    Returns:
        The index of the first of each run, the run, and the headers of its context, if any.
    """
    if not batch.headers:
        yield 0, batch, ()
        return
    start = 0
    for headers, run in groupby(map(_kept_of, batch.headers)):
        stop = start + sum(1 for _ in run)
        whole = stop - start == len(batch)
        yield start, batch if whole else batch.slice(start, stop), headers
        start = stop


def _kept_of(headers: Headers | None) -> Headers:
    """The headers that a row keeps of a record with these: its context, if that is sampled."""
    found = carried(headers)
    return found.headers if found is not None and found.sampled else ()


@attrs.frozen
class _Hooked:
    """An operator with hooks that note the contexts of the rows it writes and reads.

    Args:
        inner: it.
        contexts: those of the task.
        reads: the stores that it only reads.
        writes: those that it writes.
        final: the store of its windows, if their results come when they close.
        own_rows: whether it writes rows by the keys of their records, and no others.
    """

    inner: Any
    contexts: RowContexts
    reads: tuple[str, ...]
    writes: list[RowHeaders]
    final: str | None
    own_rows: bool

    def _run(self, records: Batch, headers: Headers) -> Iterator[Batch | None]:
        """The output of records of one context, in parts; only while they are made it counts."""
        if isinstance(self.inner, OperatorInParts):
            parts = self.inner.process_in_parts(records)
        else:
            parts = iter(self.inner.process(one) for one in (records,))
        while True:
            for one in self.writes:
                one.begin(headers)
            try:
                part = next(parts, _END)
            finally:
                for one in self.writes:
                    one.end()
            if part is _END:
                return
            if part is not None and self.final is not None and len(part):
                part = self.contexts.final(self.final, part)
            yield part


_END: Any = object()


@attrs.frozen
class _Whole(_Hooked):
    """One that gives its output in one piece."""

    def process(self, batch: Batch) -> Batch:
        """Its output; raises ``OperatorFailed`` as it does."""
        self.contexts.met(self.reads, batch.keys)
        if self.own_rows and batch.headers:
            return self._at_once(batch, batch.headers)
        done: list[Batch] = []
        for start, run, headers in _runs(batch):
            try:
                done += [one for one in self._run(run, headers) if one is not None]
            except OperatorFailed as failed:
                before = joined([*done, failed.done])
                raise failed.at(start + failed.index, before) from failed.__cause__
        return joined(done)

    def _at_once(self, batch: Batch, headers: Sequence[Headers | None]) -> Batch:
        """The output for records of several contexts, whose rows do not mix."""
        contexts, done = list(map(_kept_of, headers)), len(batch)
        for one in self.writes:
            one.begin_batch()
        try:
            out: Batch = self.inner.process(batch)
        except OperatorFailed as failed:
            done = failed.index
            raise
        finally:
            for one in self.writes:
                one.end_batch(batch.keys[:done], contexts[:done])
        return out


@attrs.frozen
class _InParts(_Hooked):
    """One that gives its output in parts."""

    def process_in_parts(self, batch: Batch) -> Iterator[Batch | None]:
        """Its output; raises ``OperatorFailed`` as it does."""
        self.contexts.met(self.reads, batch.keys)
        for start, run, headers in _runs(batch):
            try:
                for part in self._run(run, headers):
                    if part is None or len(part):
                        yield part
            except OperatorFailed as failed:
                done = failed.done
                if self.final is not None:
                    done = self.contexts.final(self.final, done)
                raise failed.at(start + failed.index, done) from failed.__cause__
