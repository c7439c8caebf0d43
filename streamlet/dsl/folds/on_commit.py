"""Operators that send the last result of each row with every commit (``emit="on_commit"``).

The fold works as ever, but its updates stay in the store. A commit is about to write the rows that
have changed since the one before; these are what ``RowsOnCommit`` sends, with their values as they
are then. What readers had before is what the medium has. So nothing is kept here, and it costs
nothing a record.

Rows of sessions and sliding windows hold several windows, so ``UpdatesOnCommit`` keeps the last
update of each. It sends the end of a session also if no reader saw that: a process that crashed in
its commit may have sent it, and passed through the same sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.graph.uses import TableUse
from streamlet.errors import TopologyError
from streamlet.state.bucket_store import BucketStore
from streamlet.state.store import CachedStore
from streamlet.topology.operator import Operator, OperatorInParts, TaskContext
from streamlet.user_code import shown

#: When an aggregation sends results on: with each record, or with each commit.
Emit: TypeAlias = Literal["updates", "on_commit"]

#: Updates of sessions and sliding windows that wait, some 35 MB; with more a commit is asked for.
MOST_HELD = 100_000


@attrs.define
class RowsOnCommit:
    """Sends the rows that have changed, once for each commit, in place of a fold's updates.

    Args:
        inner: the fold.
        store: of its rows.
        use: what is noted of the table.
    """

    inner: Operator
    store: CachedStore
    use: TableUse
    #: The last record since the last commit, which the results are ascribed to.
    _last: Batch | None = attrs.field(default=None, init=False)
    #: Those of the last record of each row since then, if records have headers.
    _headers: dict[Any, Any] = attrs.field(factory=dict, init=False)

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` as the fold does."""
        self._last = batch.slice(len(batch) - 1, len(batch))
        self.store.keep_expired(True)
        return _held_back(self.inner, batch, self._note_headers)

    def _note_headers(self, updates: Batch) -> None:
        if updates.headers is not None:
            ids = self.store.row_ids(updates.keys)
            self._headers.update(zip(ids, updates.headers, strict=True))

    @property
    def holds(self) -> bool:
        """True if records came since the last commit."""
        return self._last is not None

    def release(self) -> Batch | None:
        """The last result of each row that has changed since the last commit."""
        last, headers = self._last, self._headers
        if last is None:
            return None
        changes = self.store.changes(self.use.olds)
        self.store.keep_expired(False)
        self._last, self._headers = None, {}
        keys = changes.keys
        found = list(map(headers.get, self.store.row_ids(keys))) if headers else None
        return _ascribed(last, keys, changes.values, changes.times, found, changes.olds)


@attrs.define
class UpdatesOnCommit:
    """Sends the last update of each window, once for each commit.

    Args:
        inner: the fold.
        store: of its windows.
        use: what is noted of the table.
        context: asks for a commit when many updates wait; the cache does not count them.
    """

    inner: Operator
    store: BucketStore
    use: TableUse
    context: TaskContext
    #: The last record since the last commit.
    _last: Batch | None = attrs.field(default=None, init=False)
    #: The last update of each window since then, by ``CachedStore.row_ids``: key, value, time,
    #: headers and the old value of the first one.
    _updates: dict[Any, tuple[Any, ...]] = attrs.field(factory=dict, init=False)

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` as the fold does."""
        self._last = batch.slice(len(batch) - 1, len(batch))
        return _held_back(self.inner, batch, self._note)

    def _note(self, updates: Batch) -> None:
        nothing = [None] * len(updates)
        columns = updates.timestamps, updates.headers or nothing, updates.olds or nothing
        rows = zip(updates.keys, updates.values, *columns, strict=True)
        for one, row in zip(self.store.row_ids(updates.keys), rows, strict=True):
            before = self._updates.pop(one, row)
            self._updates[one] = *row[:4], before[4]
        if len(self._updates) > MOST_HELD:
            self.context.request_commit()

    @property
    def holds(self) -> bool:
        """True if windows have changed since the last commit."""
        return bool(self._updates)

    def release(self) -> Batch | None:
        """The last update of each window since the last commit."""
        last, rows = self._last, list(self._updates.values())
        if last is None or not rows:
            return None
        self._last, self._updates = None, {}
        *columns, headers, olds = map(list, zip(*rows, strict=True))
        shown = headers if any(headers) else None, olds if self.use.olds else None
        return _ascribed(last, *columns, *shown)


def _ascribed(last: Batch, *columns: Any) -> Batch:
    """Results of these keys, values, times, headers and old values, ascribed to one record."""
    return Batch(last.topic, last.partition, list(last.offsets) * len(columns[0]), *columns)


def on_commit(
    fold: Operator | OperatorInParts,
    store: CachedStore,
    use: TableUse,
    context: TaskContext,
) -> RowsOnCommit | UpdatesOnCommit:
    """A fold whose results go out with commits."""
    assert not isinstance(fold, OperatorInParts), "a fold gives its updates in one piece"
    if isinstance(store, BucketStore):
        return UpdatesOnCommit(fold, store, use, context)
    return RowsOnCommit(fold, store, use)


def _held_back(inner: Operator, batch: Batch, note: Callable[[Batch], None]) -> Batch:
    """Process a batch and note its updates; returns an empty batch, since a commit sends them."""
    nothing = batch.slice(0, 0)
    try:
        note(inner.process(batch))
    except OperatorFailed as failed:
        note(failed.done)
        raise failed.at(failed.index, nothing) from failed.__cause__
    return nothing


def check_emit(call: str, emit: str) -> bool:
    """True for ``emit="on_commit"``; an unknown ``emit`` is refused.

    Raises:
        TopologyError: it is neither that nor ``updates``.
    """
    if emit not in ("updates", "on_commit"):
        raise TopologyError(f"{call}: emit={shown(emit)}: expected 'updates' or 'on_commit'")
    return emit == "on_commit"
