"""The operators that join a stream with a table, versioned or global: one look-up per record."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.graph.table_views import BoundView
from streamlet.dsl.joins.joiner import Joiner
from streamlet.dsl.operators.columns import (
    collect,
    converted,
    finished,
    first_error,
    first_of,
    has_null,
    not_null,
    nth,
    with_gaps,
)
from streamlet.dsl.operators.copies import Own, copies
from streamlet.dsl.operators.hot_store import accepting, keyed
from streamlet.errors import SerdeError
from streamlet.serdes import Serde
from streamlet.serdes.serde import named
from streamlet.state.store import CachedStore
from streamlet.state.versioned_store import VersionedStore


@attrs.frozen
class StreamTableJoin:
    """The joiner's result for each record and its row.

    Without a row an inner join leaves the record out and a left join gives the joiner None. So does
    a left join for a record without a key (KIP-962), which an inner join never gets.

    Args:
        store: of the rows.
        views: what the table makes of them.
        joiner: ``(value, row)`` or ``(key, value, row)``.
        left: whether records without a row have results.
        own_row: makes copies of rows; None: they cannot change, or no reader changes them.
    """

    store: CachedStore | VersionedStore
    views: tuple[BoundView, ...]
    joiner: Joiner
    left: bool
    own_row: Own

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the joiner or a view fails."""
        rows, error = self._looked_up(batch)
        return self._joined(batch, rows, error)

    def _joined(self, batch: Batch, rows: list[Any], error: BaseException | None) -> Batch:
        """The results for records and their rows; raises as ``process``."""
        batch = first_of(batch, len(rows))
        mask: list[bool] | None = None
        part = batch
        if not self.left and has_null(rows):
            mask = not_null(rows)
            part = batch.select(mask)
            rows = [row for row in rows if row is not None]
        pair = part.values, rows
        columns = pair if self.joiner.takes == 2 else (part.keys, *pair)
        out, failure = self.joiner.column(columns, len(part))
        done = first_of(part, len(out)).with_values(out)
        if failure is None:
            return finished(done, error, len(batch))
        return finished(done, failure, len(out) if mask is None else nth(mask, len(out)))

    def _looked_up(self, batch: Batch) -> tuple[list[Any], BaseException | None]:
        """Each record's row, None if it has none; as far as they could be looked up."""
        nulls = has_null(batch.keys)
        part = batch.select(not_null(batch.keys)) if nulls else batch
        part, ckeys, error = keyed(self.store, part)
        rows, error = self._rows(part, ckeys, error)
        return (with_gaps(batch.keys, rows) if nulls else rows), error

    def _rows(
        self, batch: Batch, ckeys: list[Any], error: BaseException | None
    ) -> tuple[list[Any], BaseException | None]:
        """Each record's row, as the views show it."""
        rows = copies(self._stored(batch, ckeys), self.own_row)
        for view in self.views:
            rows, failure = collect(map(view, batch.keys, rows), len(rows))
            error = first_error(failure, error)
        return rows, error

    def _stored(self, batch: Batch, ckeys: list[Any]) -> list[Any]:
        """Each record's row in the store."""
        get = self.store.cache.get
        rows = list(map(get, ckeys))
        if has_null(rows):
            self.store.load_many(ckeys)
            rows = list(map(get, ckeys))
        return rows


@attrs.frozen
class AsOfJoin(StreamTableJoin):
    """Joins each record with the row as of its time."""

    def _stored(self, batch: Batch, ckeys: list[Any]) -> list[Any]:
        store = self.store
        assert isinstance(store, VersionedStore), store
        store.load_many(ckeys)
        found = map(store.as_of, ckeys, batch.timestamps)
        return [None if one is None else one.value for one in found]


@attrs.frozen
class GlobalJoin(StreamTableJoin):
    """Joins each record with the row of the key that ``on(key, value)`` gives.

    A record for which it gives None is left out and counted as dropped; a left join keeps one that
    has no key itself, without a row.

    Args:
        on: the function.
        key: serde of the table's keys.
        dropped: counts records that are left out.
    """

    on: Callable[[Any, Any], Any]
    key: Serde[Any]
    dropped: Callable[[int], None]

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when a function fails, or a key is refused."""
        check = accepting(self.key, "on=")

        def chosen(key: Any, value: Any) -> Any:
            found = self.on(key, value)
            check(found)
            return found

        keys, failure = collect(map(chosen, batch.keys, batch.values), len(batch))
        kept = [
            found is not None or (self.left and key is None)
            for key, found in zip(batch.keys, keys, strict=False)
        ]
        part = batch.select(kept) if len(kept) < len(batch) or not all(kept) else batch
        try:
            out = self._of_keys(part, list(compress(keys, kept)))
        except OperatorFailed as failed:
            index = nth(kept, failed.index)
            self.dropped(index - failed.index)
            raise failed.at(index, failed.done) from failed.__cause__
        self.dropped(len(kept) - len(part))
        return finished(out, failure, len(kept))

    def _of_keys(self, batch: Batch, keys: list[Any]) -> Batch:
        """The results of records with the keys of the rows that they meet."""
        rows, error = self._found(batch.with_keys(keys))
        return self._joined(batch, rows, named("on=", error))

    def _found(self, batch: Batch) -> tuple[list[Any], BaseException | None]:
        """Like ``_looked_up``, up to a key that has no bytes: no row can have it."""
        try:
            return self._looked_up(batch)
        except SerdeError:
            good, refused = converted(self.key.encode_column, batch.keys)
            if refused is None:
                raise
            rows, error = self._looked_up(batch.slice(0, len(good)))
            return rows, first_error(error, refused)
