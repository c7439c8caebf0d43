"""Results of functions that reach only their arguments are not copied; all others are."""

from __future__ import annotations

from typing import Any

import pytest

import streamlet as sl
from streamlet.dsl.graph import ownership
from streamlet.dsl.graph.functions import makes_new, only_reads, reaches_only_arguments
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.joins.joiner import Joiner
from streamlet.testing import TopologyTestDriver

KEPT: dict[str, int] = {}


def with_default(value: Any, kept: list[Any] = []) -> Any:  # noqa: B006
    return kept


def with_keyword(value: Any, *, kept: list[Any] = []) -> Any:  # noqa: B006
    return kept


def yielding(value: Any) -> Any:
    yield value


def around() -> Any:
    kept: list[Any] = []

    def inside(value: Any) -> Any:
        nonlocal kept
        kept = [*kept, value]
        return kept

    return inside


class Called:
    def __call__(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    "function",
    [
        lambda word, count: {"word": word, "count": count},
        lambda value: {**value, "n": value["n"] + 1},
        lambda value: [value, (value, "x")],
        lambda left, row: row if left["n"] > 2 else None,
        lambda value: f"{value}-{value!r}",
    ],
)
def test_a_function_that_looks_into_its_arguments_reaches_only_those(function: Any) -> None:
    assert reaches_only_arguments(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda value: KEPT,
        lambda value: value.row,
        lambda value: dict(value),
        lambda value: lambda: value,
        with_default,
        with_keyword,
        yielding,
        around(),
        Called(),
        Called().__call__,
        str.upper,
    ],
)
def test_one_that_names_anything_else_or_lasts_may_reach_more(function: Any) -> None:
    assert not reaches_only_arguments(function)


def adding(value: Any) -> Any:
    value["n"] += 1


def merging(value: Any) -> Any:
    value |= {"n": 1}


def setting(value: Any) -> Any:
    value["n"] = 1


def setting_slices(value: Any) -> Any:
    value[0:1] = [1]


def deleting(value: Any) -> Any:
    del value["n"]


@pytest.mark.parametrize("function", [adding, merging, setting, setting_slices, deleting, dict])
def test_one_that_changes_its_argument_does_not_only_read_it(function: Any) -> None:
    assert not only_reads(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda row: row["to"],
        lambda row: row["to"] if row["n"] > 2 else None,
        lambda row: row["a"] + row["b"] * 2,
        lambda row: f"{row['a']}-{row['b'][1:]}",
    ],
)
def test_one_that_looks_things_up_only_reads_its_argument(function: Any) -> None:
    assert only_reads(function)


@pytest.mark.parametrize(
    ("function", "new"),
    [
        (lambda left, row: {"n": left["n"], "to": row["to"]}, True),
        (lambda left, row: {**left, "to": row}, True),
        (lambda left, row: [left, row], True),
        (lambda left, row: left, False),
        (lambda left, row: {"n": 1} if left["n"] > 2 else row, False),
        (lambda left, row: left and {"n": 1}, False),
        (lambda left, row: left["n"], False),
        (dict, False),
    ],
)
def test_what_a_function_has_made_is_told_from_what_it_was_given(function: Any, new: bool) -> None:
    assert makes_new(function) is new


def fresh(value: dict[str, int]) -> dict[str, int]:
    return {"n": value["n"]}


def kept(value: dict[str, int]) -> dict[str, int]:
    return KEPT


def changing(left: Any, row: Any) -> Any:
    row["n"] = left["n"]
    return row


@pytest.mark.parametrize(
    ("function", "reads", "copies"),
    [
        (lambda left, row: {"n": left["n"], "row": row}, True, True),
        (lambda left, row: left["n"] + row["n"], True, True),
        (lambda key, left, row: (key, left), True, True),
        (changing, False, False),
        (lambda left, row: KEPT, False, True),
    ],
)
def test_joiners_that_only_read_get_what_is_in_stores(
    function: Any, reads: bool, copies: bool
) -> None:
    text, document = (Kind.given(of, "join()", "value") for of in (str, dict))
    takes = function.__code__.co_argcount
    joiner = Joiner.of(function, (text, document, document), takes, document)
    assert (joiner.reads, joiner.own is not None) == (reads, copies)


def test_results_are_copied_where_a_function_may_have_kept_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []
    real = ownership.owner_of_results

    def noted(*arguments: Any) -> Any:
        made.append(real(*arguments))
        return made[-1]

    monkeypatch.setattr("streamlet.dsl.stream.owner_of_results", noted)
    for function in (fresh, kept):
        sl.App("a").stream("in", key=str, value=dict).map_values(function, value=dict)
    assert [one is None for one in made] == [True, False]


def test_a_result_that_may_be_the_key_is_copied_where_keys_can_change() -> None:
    app = sl.App("a")
    stream = app.stream("in", key=dict, value=dict)
    swapped = stream.map_values(lambda key, value: key, value=dict)
    swapped.peek(lambda key, value: value.update(n=2)).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", {"n": 1}, {"n": 5})
        (out,) = driver.read_output("out")
        assert (out.key, out.value) == ({"n": 1}, {"n": 2})
