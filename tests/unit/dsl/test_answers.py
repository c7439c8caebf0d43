"""Answers of predicates: what is always true is refused, and nothing else is asked of results."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError
from streamlet.testing import TopologyTestDriver
from tests.unit.dsl.test_lazy_results import FUNCTIONS, OPERATORS, Generating, arity, fed


class NoTruth:
    """An object that is neither true nor false, as an array of numpy is."""

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


@pytest.mark.parametrize("operator", ["foreach", "peek"])
def test_a_result_that_nothing_uses_is_asked_nothing(operator: str) -> None:
    fed(OPERATORS[operator][1], lambda key, value: NoTruth(), 2)


def test_values_of_which_only_the_first_has_a_truth_are_no_nulls() -> None:
    app = sl.App("truth")
    values = app.stream("in", key=str, value=int).map_values(lambda v: v if v == 1 else NoTruth())
    values.group_by_key().aggregate(int, lambda k, v, n: n + 1, value=int).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("a", 2)])
        assert [one.value for one in driver.read_output("out")] == [1, 2]


def answer(*arguments: Any) -> bool:
    return False


#: Answers that are always true, and foreign to what was meant.
UNASKED = {
    "map": (lambda *a: map(answer, [1]), "a map: nothing goes through it"),
    "filter": (lambda *a: filter(answer, [1]), "a filter: nothing goes through it"),
    "zip": (lambda *a: zip([1], [2], strict=True), "a zip: nothing goes through it"),
    "itertools": (lambda *a: itertools.takewhile(answer, [1]), "a takewhile: nothing goes through"),
    "function": (lambda *a: answer, "a function of answer: nothing calls it"),
    "method": (lambda *a: Generating().method, "a method of Generating.method: nothing calls it"),
    "builtin": (lambda *a: "x".startswith, "a builtin_function.* of str.startswith: nothing calls"),
    "partial": (lambda *a: functools.partial(answer, 1), "a partial: nothing calls it"),
}
PREDICATES = {
    name: OPERATORS.get(name) or FUNCTIONS[name]
    for name in (
        "filter",
        "filter_not",
        "branch",
        "two branches",
        "table filter",
        "view of a filter",
    )
}


@pytest.mark.parametrize("kind", UNASKED)
@pytest.mark.parametrize("operator", PREDICATES)
def test_an_answer_that_is_always_true_is_refused(operator: str, kind: str) -> None:
    function, message = UNASKED[kind]
    with pytest.raises(ProcessingError, match=message):
        fed(PREDICATES[operator][1], arity(function, 2), 2)


@pytest.mark.parametrize("kind", ["map", "filter", "zip", "itertools"])
@pytest.mark.parametrize("operator", ["foreach", "peek"])
def test_an_iterator_that_nothing_goes_through_is_refused(operator: str, kind: str) -> None:
    function, message = UNASKED[kind]
    with pytest.raises(ProcessingError, match=message):
        fed(OPERATORS[operator][1], arity(function, 2))
