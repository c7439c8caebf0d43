"""Versioned tables: what their readers see of changes that come out of order."""

from __future__ import annotations

from typing import Any

import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.dsl.table import KTable
from streamlet.errors import TopologyError
from streamlet.testing import TopologyTestDriver
from streamlet.topology.describe import as_json

HISTORY = sl.Materialized("t", history="100ms")


def table_of(app: App, store: Any = HISTORY, topic: str = "in") -> KTable[str, str]:
    return app.table(topic, key=str, value=str, store=store)


def told(driver: TopologyTestDriver) -> list[tuple[Any, Any]]:
    return [(record.key, record.value) for record in driver.read_output("out")]


def test_joins_of_tables_leave_out_changes_that_came_out_of_order() -> None:
    app = App("a")
    left, right = table_of(app), table_of(app, "other", "right")
    left.map_values(str.upper).join(
        right, lambda one, two: f"{one}{two}", value=str
    ).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("right", "k", "1", 10)
        driver.pipe_input("in", "k", "b", 50)
        driver.pipe_input("in", "k", "a", 40)
        assert (told(driver), driver.dropped()) == ([("k", "B1")], 1)
        driver.pipe_input("right", "k", "2", 60)
        assert told(driver) == [("k", "B2")]
        driver.pipe_input("in", "k", None, 70)
        driver.pipe_input("right", "k", "3", 80)
        assert told(driver) == [("k", None)]


def test_joins_by_foreign_keys_leave_out_changes_that_came_out_of_order() -> None:
    app = App("a")
    left = table_of(app)
    right = table_of(app, sl.Materialized("other", history="100ms"), "right")
    joined = left.join(right, lambda x, y: f"{x}{y}", foreign_key=lambda value: value, value=str)
    joined.to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("right", "b", "1", 10)
        driver.pipe_input("in", "k", "b", 50)
        driver.pipe_input("in", "k", "a", 40)
        driver.pipe_input("right", "b", "0", 5)
        assert (told(driver), driver.dropped()) == ([("k", "b1")], 2)


def test_a_join_of_tables_is_not_versioned_and_shows_the_newest_rows() -> None:
    app = App("a")
    joined = table_of(app).join(table_of(app, "other", "right"), lambda x, y: x + y, value=str)
    app.stream("left", key=str, value=str).join(joined, lambda x, y: x + y, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("right", "k", "1", 10)
        driver.pipe_input("in", "k", "a", 10)
        driver.pipe_input("in", "k", "b", 50)
        driver.pipe_input("left", "k", "x", 20)
        assert told(driver) == [("k", "xb1")]


def test_a_stored_filter_of_a_versioned_table_has_no_versions() -> None:
    app = App("a")
    kept = table_of(app).filter(lambda key, value: value != "n", store="kept")
    app.stream("left", key=str, value=str).left_join(kept, lambda x, y: f"{x}{y}", value=str).to(
        "out"
    )
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", "b", 50)
        driver.pipe_input("in", "k", "a", 40)
        driver.pipe_input("left", "k", "x", 60)
        assert told(driver) == [("k", "xa")]


def test_a_view_of_a_versioned_table_is_as_of_the_time_too() -> None:
    app = App("a")
    shown = table_of(app).filter(lambda key, value: value != "n").map_values(str.upper)
    app.stream("left", key=str, value=str).left_join(shown, lambda x, y: f"{x}{y}", value=str).to(
        "out"
    )
    with TopologyTestDriver(app) as driver:
        for time, value in ((10, "a"), (20, "n"), (30, None), (40, "b")):
            driver.pipe_input("in", "k", value, time)
        for time in (9, 10, 20, 30, 40):
            driver.pipe_input("left", "k", "x", time)
        assert [value for _, value in told(driver)] == ["xNone", "xA", "xNone", "xNone", "xB"]


def test_a_value_that_a_reader_changes_is_not_the_stores_own() -> None:
    app = App("a")
    table = app.table("in", key=str, value=dict[str, int], store=HISTORY)
    table.to_stream().peek(lambda key, value: value.clear()).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", {"a": 1}, 10)
        driver.pipe_input("in", "k", {"b": 1}, 20)
        store: Any = driver.store("t")
        assert store.get("k", 15).value == {"a": 1}


@pytest.mark.parametrize("batched", [True, False])
def test_changes_out_of_the_history_are_dropped(batched: bool) -> None:
    app = App("a")
    table_of(app).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", "b", 200)
        if batched:
            driver.pipe_inputs("in", [("k", "a"), (None, "a"), ("j", "a")], 99)
        else:
            driver.pipe_input("in", "k", "a", 99)
            driver.pipe_input("in", None, "a", 99)
            driver.pipe_input("in", "j", "a", 99)
        driver.pipe_input("in", "j", "c", 100)
        assert told(driver) == [("k", "b"), ("j", "c")]
        assert driver.dropped() == 3


def test_a_table_with_a_history_has_a_changelog_of_its_own() -> None:
    app = App("a")
    table_of(app)
    ((store,),) = [part["stores"] for part in as_json(app.topology())["subtopologies"]]
    assert (store["changelog"], store["history_ms"]) == ("a-t-changelog", 100)


def test_what_needs_a_history_or_cannot_have_one_is_refused() -> None:
    app = App("a")
    plain, versioned = table_of(app, "plain", "plain"), table_of(app)
    stream = app.stream("left", key=str, value=str)
    with pytest.raises(TopologyError, match="the table must be versioned"):
        stream.join(plain, lambda x, y: x, grace="1s")
    with pytest.raises(TopologyError, match="a grace of 101 ms is too long for table t"):
        stream.join(versioned, lambda x, y: x, grace=101)
    with pytest.raises(TopologyError, match="it needs grace="):
        stream.join(versioned, lambda x, y: x, store="s")
    with pytest.raises(TopologyError, match="the table is versioned, so its changes may come out"):
        versioned.suppress(sl.until_time_limit("1s"))
    with pytest.raises(TopologyError, match=r"only table\(\) and to_table\(\) keep a history"):
        stream.group_by_key().count(store=sl.Materialized("n", history="1s"))
    with pytest.raises(TopologyError, match="grace of two streams is in within="):
        stream.join(app.stream("right", key=str, value=str), lambda x, y: x, grace="1s")  # type: ignore[call-overload]
