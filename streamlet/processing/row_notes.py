"""Hooks around the operators of a task that note which records change the rows of its stores.

Stores that keep headers (``state.row_headers``) learn by them what changed a row. A node that
writes such rows is given the records with one value of these headers at a time, so that what it
writes is theirs; an operator that writes the rows of its records' keys alone gets them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed, joined
from streamlet.kafka.ports import Headers
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


class RowNotes:
    """The notes about the rows of one task; there are none where no store keeps headers.

    Args:
        state: its stores.
    """

    def __init__(self, state: TaskState) -> None:
        self.stores = state.stores
        self._kept = state.row_headers

    def hooked(self, subtopology: Subtopology) -> Subtopology:
        """The subtopology with hooks around the nodes that write such rows, or read some."""
        if not self._kept:
            return subtopology
        processors = tuple(map(self._hooked, subtopology.processors))
        return attrs.evolve(subtopology, processors=processors)

    def kept_of(self, headers: Headers | None, stores: Sequence[RowHeaders]) -> Headers:
        """The headers that the rows of these stores keep of a record with these."""
        for one in stores:
            if one.headed:
                return one.users_of(headers)
        return ()

    def read_by(self, node: ProcessorNode) -> tuple[str, ...]:
        """The stores that a node only reads, of those whose rows are asked about: none."""
        return ()

    def final_of(self, node: ProcessorNode) -> str | None:
        """The store of a node's windows whose results are asked about: there is none."""
        return None

    def met(self, stores: Sequence[str], keys: list[Any]) -> None:
        """Take note that an operator reads the rows of these keys."""

    def final(self, store: str, batch: Batch) -> Batch:
        """Results of windows that closed."""
        return batch

    def _hooked(self, node: ProcessorNode) -> ProcessorNode:
        reads = self.read_by(node)
        writes = tuple(one for one in node.stores if one in self._kept and one not in node.reads)
        if node.in_order or not (reads or writes) or isinstance(node.around, _Around):
            return node
        plain = all(type(self.stores[one]) is CachedStore for one in writes)
        kept = [self._kept[one] for one in writes]
        own_rows = plain and node.with_processor is None
        around = _Around(self, node.around, reads, kept, self.final_of(node), own_rows)
        return attrs.evolve(node, around=around)


def _runs(
    batch: Batch, notes: RowNotes, stores: Sequence[RowHeaders]
) -> Iterator[tuple[int, Batch, Headers]]:
    """The records of a batch by the headers that are kept of them, from the first to the last.

    Returns:
        The index of the first of each run, the run, and these headers, if any.
    """
    if not batch.headers:
        yield 0, batch, ()
        return
    start = 0
    for headers, run in groupby(notes.kept_of(one, stores) for one in batch.headers):
        stop = start + sum(1 for _ in run)
        whole = stop - start == len(batch)
        yield start, batch if whole else batch.slice(start, stop), headers
        start = stop


@attrs.frozen(eq=False)
class _Around:
    """The hook around the operator of one node.

    Args:
        notes: those of the task.
        before: the hook that the node has already, which is called first.
        reads: the stores that it only reads.
        writes: those that it writes.
        final: the store of its windows, if their results come when they close.
        own_rows: whether it writes rows by the keys of their records, and no others.
    """

    notes: RowNotes
    before: Any
    reads: tuple[str, ...]
    writes: list[RowHeaders]
    final: str | None
    own_rows: bool

    def __call__(self, operator: Any) -> Any:
        """The operator with hooks; those that take records otherwise have none."""
        inner = operator if self.before is None else self.before(operator)
        if isinstance(operator, CallingOperator | GatheringOperator | OrderedOperator):
            return inner
        return (_InParts if isinstance(inner, OperatorInParts) else _Whole)(inner, self)


@attrs.frozen
class _Hooked:
    """An operator with hooks that note the headers of the records that change rows.

    Args:
        inner: it.
        of: what is noted.
    """

    inner: Any
    of: _Around

    def _run(self, records: Batch, headers: Headers) -> Iterator[Batch | None]:
        """The output of records of one value of headers, in parts; only meanwhile it counts."""
        of = self.of
        if isinstance(self.inner, OperatorInParts):
            parts = self.inner.process_in_parts(records)
        else:
            parts = iter(self.inner.process(one) for one in (records,))
        while True:
            for one in of.writes:
                one.begin(headers)
            try:
                part = next(parts, _END)
            finally:
                for one in of.writes:
                    one.end()
            if part is _END:
                return
            if part is not None and of.final is not None and len(part):
                part = of.notes.final(of.final, part)
            yield part


_END: Any = object()


@attrs.frozen
class _Whole(_Hooked):
    """An operator with hooks whose output is one batch."""

    def process(self, batch: Batch) -> Batch:
        """Its output; raises ``OperatorFailed`` as it does."""
        of = self.of
        of.notes.met(of.reads, batch.keys)
        if of.own_rows and batch.headers:
            return self._at_once(batch, batch.headers)
        done: list[Batch] = []
        for start, run, headers in _runs(batch, of.notes, of.writes):
            try:
                done += [one for one in self._run(run, headers) if one is not None]
            except OperatorFailed as failed:
                before = joined([*done, failed.done])
                raise failed.at(start + failed.index, before) from failed.__cause__
        return joined(done)

    def _at_once(self, batch: Batch, headers: Sequence[Headers | None]) -> Batch:
        """The output for records of several values of headers, whose rows do not mix."""
        of, done = self.of, len(batch)
        kept = [of.notes.kept_of(one, of.writes) for one in headers]
        for one in of.writes:
            one.begin_batch()
        try:
            out: Batch = self.inner.process(batch)
        except OperatorFailed as failed:
            done = failed.index
            raise
        finally:
            for one in of.writes:
                one.end_batch(batch.keys[:done], kept[:done])
        return out


@attrs.frozen
class _InParts(_Hooked):
    """An operator with hooks whose output comes in parts."""

    def process_in_parts(self, batch: Batch) -> Iterator[Batch | None]:
        """Its output; raises ``OperatorFailed`` as it does."""
        of = self.of
        of.notes.met(of.reads, batch.keys)
        for start, run, headers in _runs(batch, of.notes, of.writes):
            try:
                for part in self._run(run, headers):
                    if part is None or len(part):
                        yield part
            except OperatorFailed as failed:
                done = failed.done
                if of.final is not None:
                    done = of.notes.final(of.final, done)
                raise failed.at(start + failed.index, done) from failed.__cause__
