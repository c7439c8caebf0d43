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
class SinceCommit:
    """Notes since the last commit.

    ``last`` is the last record, which the results are ascribed to. ``headers`` are those of the
    last record of each row, if records have headers.
    """

    last: Batch | None = None
    headers: dict[Any, Any] = attrs.field(factory=dict)


@attrs.frozen
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
    since: SinceCommit = attrs.field(factory=SinceCommit)

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` as the fold does."""
        self.since.last = batch.slice(len(batch) - 1, len(batch))
        self.store.keep_expired(True)
        return _held_back(self.inner, batch, self._note_headers)

    def _note_headers(self, updates: Batch) -> None:
        if updates.headers is not None:
            ids = self.store.row_ids(updates.keys)
            self.since.headers.update(zip(ids, updates.headers, strict=True))

    @property
    def holds(self) -> bool:
        """True if records came since the last commit."""
        return self.since.last is not None

    def release(self) -> Batch | None:
        """The last result of each row that has changed since the last commit."""
        last, headers = self.since.last, self.since.headers
        if last is None:
            return None
        changes = self.store.changes(self.use.olds)
        self.store.keep_expired(False)
        self.since.last, self.since.headers = None, {}
        keys = changes.keys
        return attrs.evolve(
            last,
            offsets=list(last.offsets) * len(keys),
            keys=keys,
            values=changes.values,
            timestamps=changes.times,
            headers=list(map(headers.get, self.store.row_ids(keys))) if headers else None,
            olds=changes.olds,
        )


@attrs.define
class Updates:
    """The last update of each window since the last commit, by ``CachedStore.row_ids``.

    ``last`` is the last record. An update is key, value, old value, time and headers; the old value
    is that of the first one.
    """

    last: Batch | None = None
    by_id: dict[Any, tuple[Any, ...]] = attrs.field(factory=dict)


@attrs.frozen
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
    since: Updates = attrs.field(factory=Updates)

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` as the fold does."""
        self.since.last = batch.slice(len(batch) - 1, len(batch))
        return _held_back(self.inner, batch, self._note)

    def _note(self, updates: Batch) -> None:
        by_id, nothing = self.since.by_id, [None] * len(updates)
        columns = updates.values, updates.olds or nothing, updates.timestamps
        rows = zip(updates.keys, *columns, updates.headers or nothing, strict=True)
        for one, row in zip(self.store.row_ids(updates.keys), rows, strict=True):
            before = by_id.pop(one, None)
            by_id[one] = row if before is None else (*row[:2], before[2], *row[3:])
        if len(by_id) > MOST_HELD:
            self.context.request_commit()

    @property
    def holds(self) -> bool:
        """True if windows have changed since the last commit."""
        return bool(self.since.by_id)

    def release(self) -> Batch | None:
        """The last update of each window since the last commit."""
        last, rows = self.since.last, list(self.since.by_id.values())
        if last is None or not rows:
            return None
        self.since.last, self.since.by_id = None, {}
        keys, values, olds, times, headers = map(list, zip(*rows, strict=True))
        return attrs.evolve(
            last,
            offsets=list(last.offsets) * len(keys),
            keys=keys,
            values=values,
            timestamps=times,
            headers=headers if any(headers) else None,
            olds=olds if self.use.olds else None,
        )


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
