"""``mean``, ``first``, ``last``, ``collect`` and ``distinct`` of an expression."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.dsl.aggregates import Aggregation
from streamlet.testing import TopologyTestDriver


@dataclass(frozen=True)
class Order:
    total: int | None


TOTAL = sl.col("total")
READY: dict[str, Aggregation] = {
    "mean": sl.mean(TOTAL),
    "first": sl.first(TOTAL),
    "last": sl.last(TOTAL),
    "collect": sl.collect(TOTAL),
    "distinct": sl.distinct(TOTAL),
}

totals = st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=1, max_size=8)


def wanted(given: list[int | None]) -> dict[str, Any]:
    """Each result, by its definition."""
    there = [one for one in given if one is not None]
    return {
        "mean": fmean(there) if there else None,
        "first": there[0] if there else None,
        "last": there[-1] if there else None,
        "collect": there,
        "distinct": list(dict.fromkeys(there)),
    }


def results(windows: Any, wish: Any, given: list[int | None], value: Any = None) -> list[Any]:
    """What the aggregation of these orders of one customer sends on."""
    app = sl.App("a")
    grouped: Any = app.stream("in", key=str, value=Order).group_by_key()
    if windows is not None:
        grouped = grouped.windowed_by(windows)
    grouped.aggregate(wish, value=value).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        for at, total in enumerate(given):
            driver.pipe_input("in", "a", Order(total), timestamp_ms=10 * at)
        return [record.value for record in driver.read_output("out")]


@pytest.mark.parametrize("name", READY)
@settings(max_examples=25, deadline=None)
@given(given=totals)
def test_each_result_is_that_of_the_records_so_far(name: str, given: list[int | None]) -> None:
    found = results(None, READY[name], given)
    assert found == [wanted(given[: n + 1])[name] for n in range(len(given))]


@settings(max_examples=25, deadline=None)
@given(given=totals)
def test_a_dict_of_them_has_all_results(given: list[int | None]) -> None:
    assert results(None, READY, given)[-1] == wanted(given)


@settings(max_examples=25, deadline=None)
@given(given=totals)
def test_sessions_merge_in_the_order_of_time(given: list[int | None]) -> None:
    """A last record between two sessions joins them: it comes last, and is later than one only."""
    apart = sl.session(5, grace=50)
    app = sl.App("a")
    grouped = app.stream("in", key=str, value=Order).group_by_key()
    grouped.windowed_by(apart).aggregate(READY).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        for time, total in ((100, 1), (108, 2)):
            driver.pipe_input("in", "a", Order(total), timestamp_ms=time)
        for total in given:
            driver.pipe_input("in", "a", Order(total), timestamp_ms=104)
        last = driver.read_output("out")[-1]
    assert last.key == sl.Windowed("a", 100, 108)
    assert last.value == wanted([1, 2, *given])


def test_windows_give_them_too() -> None:
    assert results(sl.tumbling(30), sl.mean(TOTAL), [1, 2, 6, 5]) == [1.0, 1.5, 3.0, 5.0]


def test_the_type_of_a_result_may_be_given() -> None:
    assert results(None, sl.mean(TOTAL), [1, 2], value=float) == [1.0, 1.5]
    assert results(None, sl.collect(TOTAL), [1, 2], value=list[int]) == [[1], [1, 2]]


def test_a_list_that_was_sent_stays_as_it_was() -> None:
    app = sl.App("a")
    grouped = app.stream("in", key=str, value=Order).group_by_key()
    seen: list[list[int]] = []
    lists = grouped.aggregate(sl.collect(TOTAL)).to_stream()
    lists.foreach(lambda key, found: seen.append(found))
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", Order(1)), ("a", Order(2))])
    assert seen == [[1], [1, 2]]
