"""The operator that joins a stream with a table: one look-up per record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.aggregations import HotStore, keyed
from streamlet.dsl.columns import collect, has_null, not_null, nth, with_gaps
from streamlet.dsl.copies import Own, copies, snapshots
from streamlet.lazy_results import refuse_promise
from streamlet.topology.operator import TaskContext

Function = Callable[..., Any]

#: ``(key, value or None) -> value or None``: what a table without a store of its own makes of the
#: row of the table it comes from.
BoundView = Callable[[Any, Any], Any]
#: ``(key, time or -1) -> time or -1`` of that row, ms.
BoundTimes = Callable[[Any, int], int]


@attrs.frozen
class TableView:
    """Makes the view of a task. ``stores`` are those that the view reads.

    ``times`` makes what tells the times of its rows; None: they are those of the rows below.
    """

    bound: Callable[[TaskContext], BoundView]
    stores: tuple[str, ...] = ()
    times: Callable[[TaskContext], BoundTimes] | None = None


@attrs.frozen
class StreamTableJoin:
    """``joiner(value, row)`` or ``joiner(key, value, row)`` for each record.

    Without a row an inner join leaves the record out and a left join gives the joiner None. So does
    a left join for a record without a key (KIP-962), which an inner join never gets.

    Args:
        store: of the rows.
        views: what the table makes of them.
        joiner: the function.
        takes: how many arguments it takes.
        left: whether records without a row have results.
        own_row: makes copies of rows; None: they cannot change.
        own: makes copies of what the joiner returns; None: it cannot change.
    """

    store: HotStore
    views: tuple[BoundView, ...]
    joiner: Function
    takes: int
    left: bool
    own_row: Own
    own: Own

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the joiner or a view fails."""
        rows, error = self._looked_up(batch)
        return self._joined(batch, rows, error)

    def _joined(self, batch: Batch, rows: list[Any], error: BaseException | None) -> Batch:
        """The results for records and their rows; raises as ``process``."""
        if len(rows) < len(batch):
            batch = batch.slice(0, len(rows))
        mask: list[bool] | None = None
        part = batch
        if not self.left and has_null(rows):
            mask = not_null(rows)
            part = batch.select(mask)
            rows = [row for row in rows if row is not None]
        columns = (part.values, rows) if self.takes == 2 else (part.keys, part.values, rows)
        out, failure = collect(snapshots(map(self.joiner, *columns), self.own), len(part))
        if failure is None:
            done = part.with_values(out)
            if error is not None:
                raise OperatorFailed(len(batch), done, again=True) from error
            return done
        index = len(out) if mask is None else nth(mask, len(out))
        raise OperatorFailed(
            index, part.slice(0, len(out)).with_values(out), again=True
        ) from failure

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
            error = failure or error
        return rows, error

    def _stored(self, batch: Batch, ckeys: list[Any]) -> list[Any]:
        """Each record's row in the store."""
        get = self.store.cache.get
        rows = list(map(get, ckeys))
        if has_null(rows):
            self.store.load_many(ckeys)
            rows = list(map(get, ckeys))
        return rows


def filter_view(function: Function, keep: bool) -> TableView:
    """The rows of a filtered table."""

    def view(key: Any, row: Any) -> Any:
        if row is None:
            return None
        answer = function(key, row)
        if answer is not True and answer is not False:
            refuse_promise(answer)
        return row if bool(answer) is keep else None

    return TableView(lambda _: view)


def map_values_view(
    function: Function, takes: int, own: Own, tombstones: bool = False
) -> TableView:
    """The rows of a table with mapped values; with ``tombstones`` also of rows not there."""

    def view(key: Any, row: Any) -> Any:
        if row is None and not tombstones:
            return None
        made = function(row) if takes == 1 else function(key, row)
        return made if own is None else own(made)

    return TableView(lambda _: view)
