"""``mean``, ``first``, ``last``, ``collect`` and ``distinct`` of an expression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from statistics import fmean
from typing import Any, NewType, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.dsl.aggregates import Aggregation
from streamlet.dsl.windowing.windows import SessionWindows
from streamlet.errors import ProcessingError, TopologyError
from streamlet.testing import TopologyTestDriver
from tests.shares import share_of
from tests.unit.inside import inside


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
@settings(max_examples=share_of(25), deadline=None)
@given(given=totals)
def test_each_result_is_that_of_the_records_so_far(name: str, given: list[int | None]) -> None:
    found = results(None, READY[name], given)
    assert found == [wanted(given[: n + 1])[name] for n in range(len(given))]


@settings(max_examples=share_of(25), deadline=None)
@given(given=totals)
def test_a_dict_of_them_has_all_results(given: list[int | None]) -> None:
    assert results(None, READY, given)[-1] == wanted(given)


@settings(max_examples=share_of(25), deadline=None)
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


@pytest.mark.parametrize("windows", [None, sl.tumbling("1m"), sl.session("1m")])
@pytest.mark.parametrize("bad", [math.nan, math.inf, 1.7e308])
@pytest.mark.parametrize("wish", [sl.mean(sl.value()), {"m": sl.mean(sl.value())}])
def test_a_mean_that_json_has_no_number_for_leaves_the_row_as_it_was(
    windows: Any, bad: float, wish: Any
) -> None:
    app = sl.App("a", on_error="skip")
    grouped: Any = app.stream("in", key=str, value=float).group_by_key()
    if windows is not None:
        grouped = grouped.windowed_by(windows)
    grouped.aggregate(wish).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        for number in (1.0, 1.5e308, bad, -1.5e308):
            driver.pipe_input("in", "a", number)
        rows = [one.value for one in driver.read_output("out") if one.value is not None]
        assert driver.skipped() == 1
    means = [row["m"] if type(row) is dict else row for row in rows]
    assert (means[0], means[-1]) == (1.0, 0.0)


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


Code = NewType("Code", int)


@dataclass(frozen=True)
class Sale:
    amount: Decimal | None = None
    at: datetime | None = None
    day: date | None = None
    took: timedelta | None = None
    code: Code | None = None


SALES = [
    Sale(),
    Sale(
        Decimal("1.10"), datetime(2024, 1, 2, tzinfo=UTC), date(2024, 1, 2), timedelta(1), Code(7)
    ),
    Sale(
        Decimal("2.20"), datetime(2024, 1, 1, tzinfo=UTC), date(2024, 1, 2), timedelta(3), Code(7)
    ),
]
#: What each type is summed up to, if it can be.
LAST: dict[str, dict[str, Any]] = {
    "amount": {"sum": Decimal("3.30"), "mean": Decimal("1.65")},
    "took": {"sum": timedelta(4), "mean": timedelta(2)},
    "code": {"sum": 14, "mean": 7.0},
    "at": {},
    "day": {},
}


@pytest.mark.parametrize("name", LAST)
@pytest.mark.parametrize("windows", [None, sl.tumbling("1m"), sl.session("1m")])
def test_results_are_of_the_type_of_the_field_also_after_a_restart(name: str, windows: Any) -> None:
    col = sl.col(name)
    wish = {
        "min": sl.min_(col),
        "max": sl.max_(col),
        "first": sl.first(col),
        "last": sl.last(col),
        "collect": sl.collect(col),
        "distinct": sl.distinct(col),
    }
    wish |= {"sum": sl.sum_(col), "mean": sl.mean(col)} if LAST[name] else {}
    there = [getattr(sale, name) for sale in SALES[1:]]
    wanted = {
        "min": min(there),
        "max": max(there),
        "first": there[0],
        "last": there[-1],
        "collect": there,
        "distinct": list(dict.fromkeys(there)),
        **LAST[name],
    }

    def last(given: Any) -> Any:
        app = sl.App("a")
        grouped: Any = app.stream("in", key=str, value=Sale).group_by_key()
        grouped = grouped if windows is None else grouped.windowed_by(windows)
        grouped.aggregate(given, store="kept").to_stream().to("out")
        with TopologyTestDriver(app) as driver:
            for at, sale in enumerate(SALES):
                driver.pipe_input("in", "a", sale, timestamp_ms=at)
            if not isinstance(windows, SessionWindows):  # whose store has other rows
                kept = inside(driver, "kept")
                ((_, row),) = kept.range()
                of: Any = kept.commits.value
                assert of.decode(of.encode(row)) == row
            return driver.read_output("out")[-1].value

    found = last(wish)
    assert found == wanted
    assert {key: type(one) for key, one in found.items()} == {
        key: type(one) for key, one in wanted.items()
    }
    for one, alone in wish.items():
        assert last(alone) == wanted[one]


@pytest.mark.parametrize("name", ["at", "day"])
def test_a_sum_of_what_cannot_be_added_is_refused_by_name(name: str) -> None:
    grouped = sl.App("a").stream("in", key=str, value=Sale).group_by_key()
    for wish in (sl.sum_(sl.col(name)), {"s": sl.mean(sl.col(name))}):
        with pytest.raises(TopologyError, match=r"(sum_|mean)\(\) of date.*cannot be added"):
            grouped.aggregate(wish)


@pytest.mark.parametrize("of", [list, list[int], dict[str, int], tuple[int, ...], set[int]])
def test_a_sum_of_containers_is_refused_by_name(of: Any) -> None:
    """Each record would fail: a sum begins with 0."""
    grouped = sl.App("a").stream("in", key=str, value=of).group_by_key()
    for wish in (sl.sum_(sl.value()), {"s": sl.mean(sl.value())}):
        with pytest.raises(TopologyError, match=r"(sum_|mean)\(\) of .*cannot be added"):
            grouped.aggregate(wish)


def test_a_value_that_would_come_back_as_text_is_refused_at_the_record() -> None:
    app = sl.App("a")
    documents = app.stream("in", key=str, value=str).map_values(
        lambda text: {"at": date(2024, 1, 1) if text else None}, value=dict
    )
    documents.group_by_key().aggregate({"last": sl.last(sl.col("at"))}).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "")
        assert driver.read_output("out")[0].value == {"last": None}
        with pytest.raises(ProcessingError, match="'last': a date would come back as another type"):
            driver.pipe_input("in", "a", "x")


class Bill(TypedDict):
    total: float


def test_fields_of_a_typed_dict_are_found_by_name() -> None:
    app = sl.App("a")
    bills = app.stream("in", key=str, value=Bill).filter(sl.col("total") > 1)
    bills.group_by_key().aggregate({"sum": sl.sum_(sl.col("total"))}).filter(
        sl.col("sum") > 2
    ).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        for total in (1, 1.5, 1.5):
            driver.pipe_input("in", "a", {"total": total})
        assert [record.value for record in driver.read_output("out")] == [{"sum": 3.0}]
