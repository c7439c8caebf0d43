"""Operators that join two tables: each change of one meets the row of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.aggregations import HotStore, keyed
from streamlet.dsl.columns import has_null
from streamlet.dsl.joins import BoundTimes, BoundView
from streamlet.dsl.uses import TableUse
from streamlet.errors import StateError

Function = Callable[..., Any]


@attrs.frozen
class JoinedRow:
    """The row that two rows make, of which there may be one only.

    Args:
        joiner: ``(left, right)`` or ``(key, left, right)``.
        takes: how many of these it takes.
        left: whether a left row alone makes one.
        right: whether a right row alone makes one.
    """

    joiner: Function
    takes: int
    left: bool
    right: bool

    def of(self, key: Any, left: Any, right: Any) -> Any:
        """The row, or None."""
        if left is None and (right is None or not self.right):
            return None
        if right is None and not self.left:
            return None
        return self.joiner(left, right) if self.takes == 2 else self.joiner(key, left, right)


@attrs.frozen
class TableRows:
    """Rows of a table for the operators of one task.

    Args:
        store: that they are worked out from.
        views: what is made of its rows.
        times: what is made of the times of its rows.
    """

    store: HotStore
    views: tuple[BoundView, ...]
    times: tuple[BoundTimes, ...]

    def load(self, ckeys: list[Any]) -> None:
        """Bring rows into the cache, by one look at the medium."""
        if has_null(list(map(self.store.cache.get, ckeys))):
            self.store.load_many(ckeys)

    def row(self, key: Any, ckey: Any) -> tuple[Any, int]:
        """A row with its time; None and -1 if there is none."""
        value = self.store.load(ckey)
        time = -1 if value is None else self.store.time_of(ckey)
        for view in self.views:
            value = view(key, value)
        for later in self.times:
            time = later(key, time)
        return value, time

    def rows(
        self, keys: list[Any], ckeys: list[Any], times: list[int]
    ) -> Iterable[tuple[Any, int]]:
        """Rows that were loaded, each with its time, or an earlier one that is not after ``times``.

        None and -1 where there is no row.
        """
        if self.views or self.times:
            return map(self.row, keys, ckeys)
        found = map(self.store.cache.get, ckeys)
        latest = self.store.latest
        if not times or latest <= min(times):
            return zip(found, repeat(-1))
        time_of = self.store.time_of
        return (
            (row, -1 if row is None or time >= latest else time_of(ckey))
            for row, ckey, time in zip(found, ckeys, times, strict=True)
        )

    def of_key(self, key: Any) -> tuple[Any, int]:
        """The same for a key."""
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
        self.other.load(ckeys)
        kept: list[int] = []
        rows: list[tuple[Any, Any, int]] = []
        done, alone = 0, self.makes.left if self.is_left else self.makes.right
        joined, olds = self._joiner(), self.use.olds
        try:
            for key, new, old, time, (row, row_time) in self._changes(batch, ckeys):
                if row is not None or (alone and (new is not None or old is not None)):
                    before = joined(key, old, row) if olds else None
                    rows.append((joined(key, new, row), before, max(time, row_time)))
                    kept.append(done)
                done += 1
        except (StateError, KeyboardInterrupt):
            raise
        except BaseException as failure:  # an exit is an error like any other
            error = failure
        out = self._output(batch, kept, rows)
        if error is not None:
            raise OperatorFailed(done, out) from error
        return out

    def _changes(
        self, batch: Batch, ckeys: list[Any]
    ) -> Iterable[tuple[Any, Any, Any, int, tuple[Any, int]]]:
        assert batch.olds is not None, "a table that is joined sends its old values"
        others = self.other.rows(batch.keys, ckeys, batch.timestamps)
        return zip(batch.keys, batch.values, batch.olds, batch.timestamps, others, strict=True)

    def _joiner(self) -> Function:
        """A function of the key, the row of this side and that of the other; they may be None."""
        of, joiner = self.makes.of, self.makes.joiner
        if self.makes.left or self.makes.right or self.makes.takes == 3:
            return of if self.is_left else lambda key, mine, other: of(key, other, mine)
        if self.is_left:
            return lambda _, mine, other: None if mine is None else joiner(mine, other)
        return lambda _, mine, other: None if mine is None else joiner(other, mine)

    def _output(self, batch: Batch, kept: list[int], rows: list[tuple[Any, Any, int]]) -> Batch:
        part = batch
        if len(kept) < len(batch):
            wanted = set(kept)
            part = batch.select([index in wanted for index in range(len(batch))])
        values = [value for value, _, _ in rows]
        olds = [before for _, before, _ in rows] if self.use.olds else None
        return part.with_values(values, olds, [time for _, _, time in rows])
