"""Results in columns, each with the index of the record that caused it."""

from __future__ import annotations

from typing import Any

from streamlet.batch import Batch
from streamlet.dsl.operators.result_columns import ResultColumns


def given(headers: list[Any] | None = None) -> Batch:
    return Batch("t", 0, [7, 8, 9], ["a", "b", "c"], [1, 2, 3], [10, 20, 30], headers)


def test_results_have_the_offsets_and_headers_of_their_records() -> None:
    out = ResultColumns()
    out.add(2, "x", 5, 31)
    out.extend(0, ["y", "z"], [6, 7], [11, 12])
    columns = [9, 7, 7], ["x", "y", "z"], [5, 6, 7], [31, 11, 12]
    assert out.batch(given()) == Batch("t", 0, *columns)
    one, three = [("h", b"1")], [("h", b"3")]
    assert out.batch(given([one, None, three])).headers == [three, one, one]
    assert out.batch(given(), olds=True).olds == [None, None, None]


def test_results_may_have_headers_of_their_own() -> None:
    out = ResultColumns([0, 1], ["x", "y"], [5, 6], [31, 32], headers=[None, None])
    assert out.batch(given([[("h", b"1")]] * 3)).headers is None
    own = [[("mine", b"1")], None]
    out.headers = own
    assert out.take(given()).headers == own
    assert (len(out), out.headers) == (0, [])


def test_changes_are_cut_with_their_previous_values() -> None:
    out = ResultColumns()
    out.change(0, "x", 5, None, 31)
    out.change(1, "x", 6, 5, 32)
    out.cut(1)
    first = Batch("t", 0, [7], ["x"], [5], [31], None, [None])
    assert out.take(given(), olds=True) == first
    assert len(out.batch(given(), olds=True)) == 0
