"""Joins of two tables: what their readers come to know, whatever the batches are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.errors import TopologyError
from streamlet.testing import TopologyTestDriver
from tests.shares import share_of

KINDS = ["join", "left_join", "outer_join"]

#: Batches: a topic, and keys with values or tombstones.
histories = st.lists(
    st.tuples(
        st.sampled_from(["l", "r"]),
        st.lists(
            st.tuples(st.sampled_from("ab"), st.sampled_from(["1", "2", "x", None])),
            min_size=1,
            max_size=4,
        ),
    ),
    max_size=8,
)
Row = tuple[str, str | None]
History = list[tuple[str, list[Row]]]


def both(left: object, right: object) -> str:
    return f"{left}|{right}"


def tables(app: sl.App) -> tuple[sl.KTable[str, str], sl.KTable[str, str]]:
    left, right = (app.table(topic, key=str, value=str) for topic in ("l", "r"))
    return left.filter(lambda k, v: v != "x"), right


def joined(kind: str, store: str | None) -> sl.App:
    """A join, a filter behind it, a join of it with a third table, and with a stream."""
    app = sl.App("a")
    left, right = tables(app)
    result = getattr(left, kind)(right, both, value=str, store=store)
    result.to_stream().to("out")
    result.filter(lambda k, v: v != "1|1").to_stream().to("filtered")
    third = app.table("third", key=str, value=str)
    result.outer_join(third, both, value=str).to_stream().to("again")
    asked = app.stream("ask", key=str, value=str)
    asked.left_join(result, both, value=str).to("told")
    return app


def wanted(kind: str, left: dict[str, str], right: dict[str, str]) -> dict[str, str]:
    """The rows of a join, by its definition."""
    left = {key: value for key, value in left.items() if value != "x"}
    keys = {"join": left.keys() & right.keys(), "left_join": left.keys()}.get(
        kind, left.keys() | right.keys()
    )
    return {key: both(left.get(key), right.get(key)) for key in keys}


def rows_after(updates: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return {key: value for key, value in dict(updates).items() if value is not None}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("store", [None, "joined"])
@settings(max_examples=share_of(40), deadline=None)
@given(history=histories)
def test_readers_know_the_rows_of_both_tables(
    kind: str, store: str | None, history: History
) -> None:
    told: dict[str, list[Any]] = {"out": [], "filtered": [], "again": [], "told": []}
    sides: dict[str, dict[str, str]] = {"l": {}, "r": {}}
    with TopologyTestDriver(joined(kind, store)) as driver:
        driver.pipe_input("third", "a", "t")
        for topic, batch in history:
            driver.pipe_inputs(topic, batch)
            for key, value in batch:
                if value is None:
                    sides[topic].pop(key, None)
                else:
                    sides[topic][key] = value
            driver.pipe_inputs("ask", [("a", "?"), ("b", "?")])
            for name, found in told.items():
                found += [(r.key, r.value) for r in driver.read_output(name)]
            rows = wanted(kind, sides["l"], sides["r"])
            assert rows_after(told["out"]) == rows
            kept = {key: value for key, value in rows.items() if value != "1|1"}
            assert rows_after(told["filtered"]) == kept
            third = {"a": "t"}
            assert rows_after(told["again"]) == {
                key: both(rows.get(key), third.get(key)) for key in rows.keys() | third.keys()
            }
            assert told["told"][-2:] == [(key, both("?", rows.get(key))) for key in "ab"]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=share_of(30), deadline=None)
@given(history=histories)
def test_a_batch_gives_what_its_records_give_one_by_one(kind: str, history: History) -> None:
    single: History = [(topic, [row]) for topic, batch in history for row in batch]
    found = []
    for batches in (history, single):
        with TopologyTestDriver(joined(kind, None)) as driver:
            for topic, batch in batches:
                driver.pipe_inputs(topic, batch)
            found.append([(r.key, r.value) for r in driver.read_output("out")])
    assert found[0] == found[1]


@pytest.mark.parametrize("nested", [False, True])
def test_a_result_has_the_highest_time_of_its_rows(nested: bool) -> None:
    app = sl.App("a")
    left, right = tables(app)
    result = left.join(right, both, value=str)
    if nested:
        result = result.join(app.table("third", key=str, value=str), both, value=str)
    result.to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("l", "a", "1", timestamp_ms=50)
        driver.pipe_input("r", "a", "1", timestamp_ms=20)
        if nested:
            driver.read_output("out")
            driver.pipe_input("third", "a", "1", timestamp_ms=10)
        (record,) = driver.read_output("out")
        assert record.timestamp == 50


def test_the_joiner_may_take_the_key() -> None:
    app = sl.App("a")
    left, right = tables(app)
    left.join(right, lambda key, one, other: key + one + other, value=str).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("l", "k", "1")
        driver.pipe_input("r", "k", "2")
        assert [r.value for r in driver.read_output("out")] == ["k12"]


def test_a_joiner_that_fails_takes_out_one_change() -> None:
    app = sl.App("a", on_error="skip")
    numbers = [app.table(topic, key=str, value=int) for topic in ("l", "r")]
    numbers[0].join(numbers[1], lambda a, b: a // b, value=int).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("r", [("zero", 0), ("two", 2)])
        driver.pipe_inputs("l", [("two", 4), ("zero", 1), ("none", 1), ("two", 8)])
        assert [r.value for r in driver.read_output("out")] == [2, 4]
        assert driver.skipped() == 1


@pytest.mark.parametrize("windows", [sl.tumbling(10), sl.sliding(10), sl.session(10)], ids=str)
def test_tables_of_windows_are_joined_once_their_rows_are_in_a_store_by_key(windows: Any) -> None:
    app = sl.App("a")
    events = app.stream("in", key=str, value=str)
    grouped = events.group_by_key().windowed_by(windows)
    counts, last = grouped.count(), grouped.reduce(lambda one, other: other)
    rows = app.table("rows", key=str, value=str)

    def pair(count: int, value: str) -> str:
        return f"{count}{value}"

    tries: list[Callable[[], object]] = [
        lambda: counts.join(last, pair),
        lambda: counts.join(rows, pair, foreign_key=str),
        lambda: counts.to_stream().join(last, pair),
    ]
    for one in tries:
        with pytest.raises(TopologyError, match=r"by window.* to_stream\(\)\.to_table\(store="):
            one()
    stored = [
        table.to_stream().to_table(store=name) for table, name in ((counts, "c"), (last, "l"))
    ]
    result = stored[0].join(stored[1], pair, value=str)
    result.to_stream(lambda window, _: window.key, key=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", "a"), ("k", "b")], 20)
        assert [r.value for r in driver.read_output("out")][-1] == "2b"


def test_what_cannot_be_joined_is_refused() -> None:
    app = sl.App("a")
    left, right = tables(app)
    numbers = app.table("n", key=int, value=str)
    with pytest.raises(
        TopologyError, match=r"not KStream; join\(\) is a stream's, .* stream.join\(table, …\)"
    ):
        left.join(right.to_stream(), both)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="the keys of table l-STATE-STORE"):
        left.join(numbers, both)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="'a' and 'b'"):
        left.join(sl.App("b").table("l", key=str, value=str), both)
