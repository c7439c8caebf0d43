"""Joins of two tables that change by the same record, as those of one topic do.

The row of the other table may have changed before this side is joined. What the join had before the
record is then made of both previous rows, else of this side's previous row and the other's present
one. So old values are those that were sent, and a row that goes on both sides leaves a tombstone.
"""

from __future__ import annotations

from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed, joined
from streamlet.dsl.graph.present_changes import PresentChanges
from streamlet.dsl.joins.joined_rows import TableTableJoin
from streamlet.dsl.operators.columns import collect, finished, first_of
from streamlet.dsl.operators.failed_rows import Made, changed_rows


@attrs.frozen
class SharedTableJoin:
    """Joins the changes of one table with the rows of another one that may have changed as well.

    Args:
        name: of the join.
        inner: joins where the other row has not changed.
        mine: changes of the store of this side's table.
        theirs: changes of that of the other one.
    """

    name: str
    inner: TableTableJoin
    mine: PresentChanges
    theirs: PresentChanges

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` as ``inner`` does."""
        done = [batch.slice(0, 0)]
        for index in range(len(batch)):
            try:
                done.append(self._joined(batch.slice(index, index + 1)))
            except OperatorFailed as failed:
                whole = joined([*done, failed.done])
                raise failed.at(index, whole) from failed.__cause__
        return joined(done)

    def _joined(self, one: Batch) -> Batch:
        place = one.topic, one.partition, one.offsets[0]
        (ckey,) = self.inner.other.store.ckeys(one.keys)
        noted = self.theirs.olds.get(ckey)
        changed = noted is not None and noted[0] == place
        first = (self.name, place) not in self.theirs.joined
        if first:
            self.mine.joined[self.name, place] = changed
        if noted is not None and changed and first:
            return self._both(one, ckey, noted[1])
        if not first and self.theirs.joined[self.name, place]:
            one = one.with_values(one.values, one.values)  # the other side has sent it already
        return self.inner.process(one)

    def _both(self, one: Batch, ckey: Any, old: Any) -> Batch:
        """The result of a record that changed both rows."""
        inner, (key,), assumed = self.inner, one.keys, one.olds
        assert assumed is not None
        found, error = collect(map(inner.other.row, [key], [ckey]), 1)
        if error is not None:
            return inner.process(one)  # which says what is to become of it
        (row, time), before = found[0], inner.other.shown(key, old)
        if not inner.exists(one.values[0], row) and not inner.exists(assumed[0], before):
            return inner.process(one.with_values(one.values, [None]))

        def made(keys: list[Any], mine: list[Any], _start: int) -> Made:
            return inner.made(keys, mine, [row] * len(mine))

        def made_before(keys: list[Any], mine: list[Any], _start: int) -> Made:
            return inner.made(keys, mine, [before] * len(mine))

        def finish(some: Batch, values: list[Any], olds: list[Any] | None, _start: int) -> Batch:
            return some.with_values(values, olds, [max(at, time) for at in some.timestamps])

        if inner.use.olds:
            return changed_rows(one, made, finish, made_before)
        values, failure = made(one.keys, one.values, 0)
        return finished(finish(first_of(one, len(values)), values, None, 0), failure)
