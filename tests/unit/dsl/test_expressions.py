"""Expressions compute what they say, as functions do."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamlet as sl
from streamlet.dsl.expressions import Binary, Column, Constant, Expression, Unary, compiled
from streamlet.errors import TopologyError
from streamlet.testing import TopologyTestDriver


@dataclass(frozen=True)
class Flight:
    carrier: str
    delay: int | None
    distance: float


NUMBERS = st.none() | st.integers() | st.floats()
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
CALCULATE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def meaning(one: Expression, key: Any, value: Any) -> Any:
    """What an expression is, said slowly."""
    if isinstance(one, Column):
        return key if one.of == "key" else value if one.name is None else value[one.name]
    if isinstance(one, Constant):
        return one.value
    if isinstance(one, Unary):
        inner = meaning(one.operand, key, value)
        if one.operator == "not":
            return None if inner is None else not inner
        return (inner is None) == (one.operator == "is null")
    assert isinstance(one, Binary)
    left = meaning(one.left, key, value)
    if one.operator in "&|":
        decides = one.operator == "|"
        if left is decides:
            return decides
        right = meaning(one.right, key, value)
        return decides if right is decides else None if None in (left, right) else not decides
    right = None if left is None else meaning(one.right, key, value)
    return None if right is None else (COMPARE | CALCULATE)[one.operator](left, right)


NUMBER = st.recursive(
    st.sampled_from([sl.col("a"), sl.col("b"), sl.key()]) | st.builds(sl.lit, NUMBERS),
    lambda inner: st.builds(Binary, st.sampled_from([*CALCULATE]), inner, inner),
    max_leaves=6,
)
TRUTH = st.recursive(
    st.builds(Binary, st.sampled_from([*COMPARE]), NUMBER, NUMBER)
    | st.builds(Unary, st.sampled_from(["is null", "is not null"]), NUMBER),
    lambda inner: (
        st.builds(Binary, st.sampled_from("&|"), inner, inner)
        | st.builds(Unary, st.just("not"), inner)
    ),
    max_leaves=6,
)


def outcome(function: Callable[[], Any]) -> Any:
    try:
        answer = function()
    except (ZeroDivisionError, OverflowError):
        return "failed"  # as the function would that somebody writes instead
    return "NaN" if isinstance(answer, float) and math.isnan(answer) else (type(answer), answer)


@given(NUMBER | TRUTH, NUMBERS, NUMBERS, NUMBERS, st.sampled_from([dict, object]))
def test_compiled_it_is_what_it_means(
    one: Expression, key: Any, a: Any, b: Any, value_type: Any
) -> None:
    """Over nulls, NaN, infinities, division by zero and numbers of any size."""
    value = {"a": a, "b": b}
    function = compiled(one, value_type)
    wanted = outcome(lambda: meaning(one, key, value))
    found = outcome(lambda: function(key, value))
    assert found == wanted


def app_of(build: Callable[[sl.KStream[str, Flight]], None]) -> sl.App:
    app = sl.App("expressions")
    build(app.stream("flights", key=str, value=Flight))
    return app


FLIGHTS = [
    Flight("AA", 5, 100.5),
    Flight("BB", None, 10.0),
    Flight("AA", -3, 7.5),
    Flight("AA", 9, 1.0),
]


def results(app: sl.App) -> dict[str, Any]:
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("flights", [(f.carrier, f) for f in FLIGHTS])
        return {record.key: record.value for record in driver.read_output("out")}


def test_a_filter_keeps_what_is_true_and_neither_false_nor_null() -> None:
    app = app_of(lambda s: s.filter(sl.col("delay") > 0).map_values(sl.col("delay") * 2).to("out"))
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("flights", [(f.carrier, f) for f in FLIGHTS])
        assert [r.value for r in driver.read_output("out")] == [10, 18]


def test_records_are_grouped_and_summed_by_expressions() -> None:
    def build(stream: sl.KStream[str, Flight]) -> None:
        grouped = stream.group_by(sl.col("carrier"))
        grouped.aggregate(sl.sum_(sl.col("delay")), store="sums").to_stream().to("out")

    assert results(app_of(build)) == {"AA": 11, "BB": 0}


def test_several_aggregations_make_a_dict() -> None:
    wanted = {
        "flights": sl.count(),
        "best": sl.min_(sl.col("delay")),
        "worst": sl.max_(sl.col("delay")),
        "far": sl.sum_(sl.col("distance")),
    }
    app = app_of(lambda s: s.group_by_key().aggregate(wanted, store="all").to_stream().to("out"))
    assert results(app) == {
        "AA": {"flights": 3, "best": -3, "worst": 9, "far": 109.0},
        "BB": {"flights": 1, "best": None, "worst": None, "far": 10.0},
    }


def test_true_is_distinct_from_the_number_that_it_is_to_python() -> None:
    app = sl.App("kinds")
    seen = app.stream("in", key=str, value=dict).group_by_key()
    seen.aggregate(sl.distinct(sl.col("n")), value=list, store="seen")
    several: list[Any] = [1, True, 1.0, 0, False, [1], [True], {"a": 0}, {"a": False}]
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", {"n": one}) for one in [*several, *several]])
        kept = driver.store("seen").get("k")
    assert list(map(repr, kept)) == [repr(one) for one in several if type(one) is not float]


def test_where_there_is_no_largest_yet_there_is_no_row() -> None:
    def build(stream: sl.KStream[str, Flight]) -> None:
        largest = stream.group_by_key().aggregate(sl.max_(sl.col("delay")), store="largest")
        largest.to_stream().to("out")

    assert results(app_of(build)) == {"AA": 9, "BB": None}


def test_a_name_that_the_values_do_not_have_is_refused_at_once() -> None:
    with pytest.raises(TopologyError, match=r"col\('late'\): Flight has no such attribute"):
        app_of(lambda s: s.filter(sl.col("late") > 0).to("out"))


@pytest.mark.parametrize("count", [39, 40, 41, 3_000])
def test_expressions_nest_as_deeply_as_a_program_makes_them(count: int) -> None:
    """As of a list of numbers, any of which will do."""
    one_of = compiled(functools.reduce(operator.or_, (sl.col("n") == n for n in range(count))))
    found = [one_of("k", {"n": n}) for n in (0, 20, count - 1, count, None)]
    assert found == [True, True, True, False, None]
    total = sum((sl.col("n") for _ in range(count)), sl.lit(0))
    assert compiled(total)("k", {"n": 2}) == 2 * count


@pytest.mark.parametrize("name", [None, 5, ["n"]])
def test_the_name_of_a_column_is_text(name: Any) -> None:
    with pytest.raises(TypeError, match=r"col\(name=\) expects text"):
        sl.col(name)
    with pytest.raises(TypeError, match=r"sum_\(\) expects an expression such as"):
        sl.sum_(name)


@pytest.mark.parametrize("name", [1, None, "a\0b", "\ud800"])
def test_names_of_results_are_texts(name: Any) -> None:
    """Numbers as names of what is read crash msgspec, and Python with it."""
    with pytest.raises(TopologyError, match="results have texts as names"):
        app_of(lambda s: s.group_by_key().aggregate({name: sl.count()}).to_stream().to("out"))


def test_and_or_not_are_signs() -> None:
    with pytest.raises(TypeError, match=r"use & \| ~"):
        bool(sl.col("a") > 1)
    with pytest.raises(TypeError, match="cannot have"):
        sl.col("a") > object()  # noqa: B015 - the comparison itself is what fails


def test_a_sum_of_an_unknown_type_asks_for_it() -> None:
    app = sl.App("untyped")
    stream = app.stream("flights", key=str, value=dict)
    with pytest.raises(TopologyError, match="value="):
        stream.group_by_key().aggregate(sl.sum_(sl.col("delay")))


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (lambda lines, rows: lines.join(rows, sl.col("n")), "key, value, row"),
        (lambda lines, rows: rows.left_join(rows, sl.key()), "key, left, right"),
        (lambda lines, rows: lines.group_by_key().reduce(sl.value()), "aggregate, value"),
        (lambda lines, rows: lines.split().branch(sl.lit(True), chain=sl.value()), "stream"),
    ],
)
def test_an_expression_is_no_function_of_two_other_values(make: Any, arguments: str) -> None:
    app = sl.App("two")
    lines, rows = (read("in", key=str, value=dict) for read in (app.stream, app.table))
    with pytest.raises(TopologyError, match=rf"as \({arguments}\), and an expression .* is of a"):
        make(lines, rows)


def test_a_column_of_a_value_without_columns_is_refused_at_once() -> None:
    lines = sl.App("whole").stream("in", key=str, value=int)
    with pytest.raises(TopologyError, match=r"col\('n'\): int has no such attribute; sl\.value\("):
        lines.filter(sl.col("n") > 1)
    lines.filter(sl.col("real") > 1)
