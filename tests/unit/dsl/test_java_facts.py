"""Facts of Kafka Streams' own tests about nulls, old entries, names and topics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.testing import TopologyTestDriver
from streamlet.topology.describe import as_java


@pytest.mark.parametrize("kind", ["join", "left_join"])
def test_a_record_whose_on_gives_none_is_dropped_by_a_join_with_a_global_table(kind: str) -> None:
    app = sl.App("shop")
    rows = app.global_table("rows", key=str, value=str)
    in_ = app.stream("in", key=str, value=str)
    how: Any = {"on": lambda _k, v: None if v == "-" else v, "value": str}
    getattr(in_, kind)(rows, lambda v, row: f"{v}+{row}", **how).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("rows", "r", "row")
        driver.pipe_inputs("in", [("a", "-"), ("a", "r"), ("a", "-"), ("a", "x")])
        found = [record.value for record in driver.read_output("out")]
        assert found == ["r+row", *(["x+None"] if kind == "left_join" else [])]
        assert driver.dropped() == 2


def test_a_failure_of_a_join_with_a_global_table_counts_what_was_dropped_before_it_once() -> None:
    def joined(value: str, row: str | None) -> str:
        if value == "!":
            raise ValueError(value)
        return value

    app = sl.App("shop", on_error="skip")
    rows = app.global_table("rows", key=str, value=str)
    in_ = app.stream("in", key=str, value=str)
    how: Any = {"on": lambda _k, v: None if v == "-" else v, "value": str}
    in_.left_join(rows, joined, **how).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", v) for v in "-a-!-b!-"])
        assert [record.value for record in driver.read_output("out")] == ["a", "b"]
        assert (driver.dropped(), driver.skipped()) == (4, 2)


def test_a_row_whose_group_is_none_is_left_out() -> None:
    app = sl.App("shop")
    rows = app.table("in", key=str, value=str)
    grouped = rows.group_by(lambda k, v: None if v == "-" else (v, k), key=str, value=str)  # type: ignore[arg-type, return-value]
    grouped.count(store="n")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "x"), ("b", "-"), ("a", "-"), ("b", "x"), ("c", "x")])
        assert dict(driver.store("n").range()) == {"x": 2}


def test_folds_of_a_named_grouped_table_share_a_topic() -> None:
    app = sl.App("shop")
    rows = app.table("in", key=str, value=str)
    grouped = rows.group_by(lambda k, v: (v, k), key=str, value=str, name="by-value")
    grouped.count(store="n")
    grouped.reduce(lambda _, new: new, lambda old, _: old, store="last")
    assert app.topology().repartition_topics == ("shop-by-value-repartition",)
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "x"), ("b", "x")])
        assert dict(driver.store("n").range()) == {"x": 2}
        assert dict(driver.store("last").range()) == {"x": "b"}


def test_the_same_topics_in_another_order_are_the_same_source() -> None:
    app = sl.App("shop")
    app.stream(["a", "b"], key=str, value=str).to("x")
    app.stream(["b", "a"], key=str, value=str).to("y")
    assert as_java(app.topology()).count("Source:") == 1
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("b", "k", "v")
        assert [len(driver.read_output(topic)) for topic in "xy"] == [1, 1]


def test_an_application_may_have_a_global_table_only() -> None:
    app = sl.App("shop")
    app.global_table("rows", key=str, value=str, store="rows-store")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("rows", "k", "v")
        assert dict(driver.store("rows-store").range()) == {"k": "v"}
        assert driver.tasks == ()


def test_record_time_does_not_go_back() -> None:
    app = sl.App("shop")
    app.stream("in", key=str, value=str).to("out")
    with TopologyTestDriver(app, start_ms=1_000) as driver:
        with pytest.raises(ValueError, match=r"advance_record_time\(\) -1"):
            driver.advance_record_time(-1)
        driver.pipe_input("in", "k", "v")
        assert driver.read_output("out")[0].timestamp == 1_000


# Stores of processors.


def windows_of(store: Any) -> list[Any]:
    store.put("k", "new", 1_000_000)
    store.put("k", "old", 0)
    return [store.fetch("k", 0), store.fetch("k", 1_000_000)]


def sessions_of(store: Any) -> list[Any]:
    store.put(sl.Windowed("k", 1_000_000, 1_000_001), "new")
    store.put(sl.Windowed("k", 0, 1), "old")
    return [store.fetch_session("k", 0, 1), store.fetch_session("k", 1_000_000, 1_000_001)]


def versions_of(store: Any) -> list[Any]:
    store.put("k", "new", 1_000_000)
    assert store.put("k", "old", 0) == store.NOT_PUT
    return [store.get("k", 0), store.get("k").value]


TYPES: dict[str, Any] = {"key": str, "value": str}
STORES: dict[str, tuple[Any, Callable[[Any], list[Any]]]] = {
    "window": (sl.window_store("s", **TYPES, size=1_000, retention=60_000), windows_of),
    "window, duplicates": (
        sl.window_store("s", **TYPES, size=1, retention=60_000, retain_duplicates=True),
        windows_of,
    ),
    "session": (sl.session_store("s", **TYPES, retention=60_000), sessions_of),
    "versioned": (sl.versioned_store("s", **TYPES, history=60_000), versions_of),
}


def in_processor(store: Any, steps: Callable[[Any], Any]) -> tuple[Any, int]:
    app, seen = sl.App("shop"), []

    def process(record: Any, context: sl.ProcessorContext[Any, Any]) -> None:
        seen.append(steps(context.store("s")))

    app.stream("in", key=str, value=str).process(process, stores=[store], key=str, value=str)
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_input("in", "k", "v")
        return seen[0], driver.dropped()


@pytest.mark.parametrize("store", STORES)
def test_an_expired_entry_is_not_put_and_counted(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found, dropped = in_processor(*STORES[store])
    assert (found, dropped) == ([None, "new"], 1)
    assert [one.getMessage() for one in caplog.records if "has expired" in one.getMessage()]


def test_a_deletion_out_of_the_history_deletes_nothing_and_says_so() -> None:
    def steps(store: Any) -> list[Any]:
        store.put("k", "old", 1_000)
        store.put("other", "x", 1_000_000)
        return [store.delete("k", 5_000), store.get("k").value, store.delete("k", 1_000_000).value]

    store = sl.versioned_store("s", **TYPES, history=300_000)
    assert in_processor(store, steps) == ([None, "old", "old"], 1)


# A serde of the user's for which some value has no bytes.


def empty_is_none() -> Any:
    def encode(value: str) -> Any:
        return value.encode() or None

    return sl.Serde("empty is none", encode, bytes.decode)


def mapped(app: sl.App) -> None:
    rows = app.table("in", key=str, value=str)
    rows.map_values(lambda v: v[1:], value=empty_is_none(), store="s").to_stream().to("out")


def to_table(app: sl.App) -> None:
    short = app.stream("in", key=str, value=str).map_values(lambda v: v[1:], value=empty_is_none())
    short.to_table(store="s").to_stream().to("out")


def reduced(app: sl.App) -> None:
    short = app.stream("in", key=str, value=str).map_values(lambda v: v[1:], value=empty_is_none())
    short.group_by_key().reduce(lambda _, new: new, store="s").to_stream().to("out")


def aggregated(app: sl.App) -> None:
    grouped = app.stream("in", key=str, value=str).group_by_key()
    table = grouped.aggregate(str, lambda _k, v, _a: v[1:], value=empty_is_none(), store="s")
    table.to_stream().to("out")


def put(app: sl.App) -> None:
    def process(record: Any, context: sl.ProcessorContext[Any, Any]) -> None:
        context.store("s").put(record.key, record.value[1:])

    store = sl.key_value_store("s", key=str, value=empty_is_none())
    app.stream("in", key=str, value=str).process(process, stores=[store], key=str, value=str)


@pytest.mark.parametrize("build", [mapped, to_table, reduced, aggregated, put])
def test_a_value_whose_serde_gives_none_deletes_its_row(build: Callable[[sl.App], None]) -> None:
    app = sl.App("shop")
    build(app)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", "vx")
        assert dict(driver.store("s").range()) == {"k": "x"}
        driver.pipe_input("in", "k", "v")
        assert dict(driver.store("s").range()) == {}
        driver.pipe_input("in", "k", "vy")
        assert dict(driver.store("s").range()) == {"k": "y"}
