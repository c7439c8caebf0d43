"""Operators that join two tables: each change of one meets the row of the other."""

from __future__ import annotations

from itertools import compress
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.columnwise import later_times
from streamlet.dsl.graph.table_views import BoundTimes, BoundView
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.joins.joiner import Joiner
from streamlet.dsl.operators.columns import collect, finished, first_of, has_null, not_null, nth
from streamlet.dsl.operators.copies import Own, copies
from streamlet.dsl.operators.failed_rows import Made, changed_rows
from streamlet.dsl.operators.hot_store import keyed
from streamlet.errors import StateError
from streamlet.state.store import CachedStore
from streamlet.state.versioned_store import VersionedStore


@attrs.frozen
class JoinedRow:
    """The row that two rows make, of which there may be one only.

    Args:
        joiner: ``(left, right)`` or ``(key, left, right)``.
        left: whether a left row alone makes one.
        right: whether a right row alone makes one.
    """

    joiner: Joiner
    left: bool
    right: bool

    def exists(self, left: Any, right: Any) -> bool:
        """True if the rows make one."""
        if left is None:
            return right is not None and self.right
        return right is not None or self.left

    def of(self, key: Any, left: Any, right: Any) -> Any:
        """The row, or None."""
        if not self.exists(left, right):
            return None
        pair = (left, right) if self.joiner.takes == 2 else (key, left, right)
        return self.joiner.one(*pair)


@attrs.frozen
class TableRows:
    """Rows of a table for the operators of one task.

    Args:
        store: that they are worked out from.
        views: what is made of its rows.
        times: what is made of the times of its rows.
        own: makes copies of rows of the store; None: they cannot change, or no reader changes them.
    """

    store: CachedStore | VersionedStore
    views: tuple[BoundView, ...]
    times: tuple[BoundTimes, ...]
    own: Own

    def load(self, ckeys: list[Any]) -> None:
        """Bring rows into the cache, by one look at the medium."""
        if has_null(list(map(self.store.cache.get, ckeys))):
            self.store.load_many(ckeys)

    def row(self, key: Any, ckey: Any) -> tuple[Any, int]:
        """A row with its time; None and -1 if there is none."""
        value = self.store.load(ckey)
        time = -1 if value is None else self.store.time_of(ckey)
        if self.own is not None:
            value = self.own(value)
        for view in self.views:
            value = view(key, value)
        for later in self.times:
            time = later(key, time)
        return value, time

    def rows(
        self, keys: list[Any], ckeys: list[Any]
    ) -> tuple[list[Any], list[int], BaseException | None]:
        """Rows and their times as far as views can make them, and the failure of the next one.

        None and -1 where there is no row.
        """
        if self.views or self.times:
            self.load(ckeys)
            found, error = collect(map(self.row, keys, ckeys), len(keys))
            if error is not None and issubclass(type(error), StateError):  # of another store
                raise error
            return [row for row, _ in found], [time for _, time in found], error
        rows, _ = self.values(keys, ckeys)
        times = self.store.times_of(ckeys)
        if has_null(rows):
            pairs = zip(rows, times, strict=True)
            times = [-1 if row is None else time for row, time in pairs]
        return rows, times, None

    def values(self, keys: list[Any], ckeys: list[Any]) -> tuple[list[Any], BaseException | None]:
        """The rows of ``rows``, without times."""
        if self.views:
            rows, _, error = self.rows(keys, ckeys)
            return rows, error
        rows = list(map(self.store.cache.get, ckeys))
        if has_null(rows):
            self.store.load_many(ckeys)
            rows = list(map(self.store.cache.get, ckeys))
        return copies(rows, self.own), None

    def shown(self, key: Any, value: Any) -> Any:
        """The row made of a value of the store; None if a view fails on it."""
        if self.own is not None:
            value = self.own(value)
        for view in self.views:
            made, error = collect(map(view, [key], [value]), 1)
            if error is not None:
                return None
            value = made[0]
        return value

    def of_key(self, key: Any) -> tuple[Any, int]:
        """The row of a key, and its time."""
        (ckey,) = self.store.ckeys([key])
        return self.row(key, ckey)


@attrs.frozen
class TableTableJoin:
    """Joins the changes of one of two tables with the rows of the other.

    Args:
        other: rows of the other table.
        makes: the rows of the join.
        is_left: whether the changes are those of the left table.
        use: what is noted of the join.
    """

    other: TableRows
    makes: JoinedRow
    is_left: bool
    use: TableUse

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the joiner or a view fails.

        As in Kafka Streams, a row that was not there and is deleted makes a tombstone where the
        other table has one.
        """
        batch, ckeys, error = keyed(self.other.store, batch)
        rows, times, failure = self.other.rows(batch.keys, ckeys)
        done = len(rows)
        out = self._of_rows(first_of(batch, done), rows, times)
        if failure is not None:
            raise self._without_row(batch.slice(done, done + 1), done, out) from failure
        return finished(out, error, done, again=False)

    def _without_row(self, one: Batch, index: int, done: Batch) -> OperatorFailed:
        """The failure on a record for which a view fails: the other table has no such row."""
        try:
            instead = self._of_rows(one, [None], [-1])
        except OperatorFailed as failed:
            return failed.at(index, done)
        return OperatorFailed(index, done, again=True, instead=instead, of_row=True)

    def _of_rows(self, batch: Batch, rows: list[Any], times: list[int]) -> Batch:
        """The results for the rows of the other table; raises as ``process``."""
        mask = self._mask(batch, rows)
        part = batch
        if mask is not None:
            part = batch.select(mask)
            rows, times = list(compress(rows, mask)), list(compress(times, mask))
        try:
            return self._joined(part, rows, times)
        except OperatorFailed as failed:
            index = failed.index if mask is None else nth(mask, failed.index)
            raise failed.at(index, failed.done) from failed.__cause__

    def _mask(self, batch: Batch, rows: list[Any]) -> list[bool] | None:
        """Mask of the changes of which something comes; None: of all."""
        if not has_null(rows):
            return None
        if not (self.makes.left if self.is_left else self.makes.right):
            return not_null(rows)
        columns = zip(rows, batch.values, self._olds(batch), strict=True)
        return [any(one is not None for one in change) for change in columns]

    def _joined(self, part: Batch, rows: list[Any], times: list[int]) -> Batch:
        """The results of changes; raises ``OperatorFailed`` when the joiner fails."""
        late = later_times(part.timestamps, times)

        def made(keys: list[Any], mine: list[Any], start: int) -> Made:
            others = rows[start : start + len(mine)]
            if self.use.olds:  # the joiner is called twice, and may change what it is given
                others = copies(others, self.other.own)
            return self.made(keys, mine, others)

        def finish(some: Batch, values: list[Any], olds: list[Any] | None, start: int) -> Batch:
            return some.with_values(values, olds, late[start : start + len(some)])

        if self.use.olds:
            self._olds(part)
            return changed_rows(part, made, finish)
        values, error = made(part.keys, part.values, 0)
        return finished(finish(first_of(part, len(values)), values, None, 0), error)

    def exists(self, mine: Any, other: Any) -> bool:
        """True if a row of this side and one of the other make one."""
        return self.makes.exists(*((mine, other) if self.is_left else (other, mine)))

    def made(self, keys: list[Any], mine: list[Any], rows: list[Any]) -> Made:
        """The rows of the join for rows of this side and of the other."""
        pair = (mine, rows) if self.is_left else (rows, mine)
        joiner = self.makes.joiner
        if joiner.takes == 2 and not (has_null(mine) or has_null(rows)):
            return joiner.column(pair, len(mine))
        return collect(map(self.makes.of, keys, *pair), len(mine))

    def _olds(self, batch: Batch) -> list[Any]:
        assert batch.olds is not None, "a table whose old values are needed sends them"
        return batch.olds
