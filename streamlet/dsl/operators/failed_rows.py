"""Rows that a user function fails on, and which a policy leaves out.

A table that is made of another one row by row does not have a row that its function fails on, as if
it was deleted there. Readers that need old values, as groups do, are told so once the policy has
left the record out: what was added before is taken back, and what never was is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.operators.columns import first_of

#: Rows of a column as far as they could be made, and the failure of the next one.
Made: TypeAlias = tuple[list[Any], BaseException | None]
#: ``(keys, values, start)``: the rows of some records of a batch, from an index on.
MakeRows: TypeAlias = Callable[[list[Any], list[Any], int], Made]
#: ``(records, rows, olds, start)``: the output for some records of a batch, from an index on.
Finish: TypeAlias = Callable[[Batch, list[Any], list[Any], int], Batch]


def changed_rows(
    batch: Batch, make: MakeRows, finish: Finish, make_old: MakeRows | None = None
) -> Batch:
    """The changes of a table whose rows are made of those of another one, with old values.

    ``make_old`` makes these, where ``make`` does not.

    Raises:
        OperatorFailed: a row cannot be made, of a new value or of an old one.
    """
    assert batch.olds is not None
    make_old = make_old or make
    rows, error = make(batch.keys, batch.values, 0)
    olds, old_error = make_old(batch.keys[: len(rows)], batch.olds[: len(rows)], 0)
    done = len(olds)
    out = finish(first_of(batch, done), rows[:done], olds, 0)
    if old_error is None and error is None:
        return out
    one = batch.slice(done, done + 1)
    if old_error is not None:
        instead = finish(one, rows[done : done + 1], [None], done)
        raise OperatorFailed(done, out, again=True, instead=instead, of_row=True) from old_error
    before, _ = make_old(one.keys, batch.olds[done : done + 1], done)  # may fail, too: it never was
    gone = finish(one, [None], before or [None], done)
    gone = gone.select([old is not None for old in gone.olds or ()])
    raise OperatorFailed(done, out, again=True, instead=gone) from error
