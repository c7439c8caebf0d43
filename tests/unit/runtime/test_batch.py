"""Batches that are put together and picked from."""

from __future__ import annotations

from typing import Any

from streamlet.batch import Batch, joined

NONE = Batch("in", 0, [], [], [], [])


def batch(*offsets: int, headers: list[Any] | None = None, olds: list[Any] | None = None) -> Batch:
    keys, times = [f"k{at}" for at in offsets], [10 * at for at in offsets]
    return Batch("in", 0, list(offsets), keys, list(offsets), times, headers, olds)


def test_joined_batches_keep_columns_that_some_of_them_do_not_have() -> None:
    """A part without headers does not cost the others theirs."""
    first, last = batch(1, 2, headers=[[("a", b"1")], None]), batch(3, olds=[30])
    whole = joined([first, NONE, last])
    assert whole == batch(1, 2, 3, headers=[[("a", b"1")], None, None], olds=[None, None, 30])
    assert (whole.pick([]), whole.pick([1])) == (whole.slice(0, 0), whole.slice(1, 2))
    assert whole.pick([2, 0]) == batch(3, 1, headers=[None, [("a", b"1")]], olds=[30, None])


def test_one_batch_that_is_not_empty_is_the_joined_one() -> None:
    only = batch(1, 2)
    assert joined([NONE, only, NONE]) is only
    assert joined([NONE, NONE]) is NONE
