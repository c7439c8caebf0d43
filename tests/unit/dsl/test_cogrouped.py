"""Several streams folded into one table: order, repartition topics, types of keys."""

from __future__ import annotations

from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import TopologyError
from streamlet.testing.driver import TopologyTestDriver


def added(key: str, value: Any, so_far: str) -> str | None:
    return None if value == 0 else f"{so_far}{value}"


def read(driver: TopologyTestDriver) -> list[tuple[Any, Any, int]]:
    return [(r.key, r.value, r.timestamp) for r in driver.read_output("out")]


def test_streams_of_different_types_share_the_rows_and_their_highest_time() -> None:
    app = sl.App("a")
    words = app.stream("words", key=str, value=str).group_by_key()
    numbers = app.stream("numbers", key=str, value=int).group_by_key()
    table = words.cogroup(added).cogroup(numbers, added).aggregate(str, store="rows")
    table.to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("words", "k", "a", 20)
        driver.pipe_input("numbers", "k", 1, 10)
        driver.pipe_inputs("numbers", [(None, 1), ("k", None), ("k", 0)], 5)
        driver.pipe_input("words", "k", "b", 7)
        assert read(driver) == [("k", "a", 20), ("k", "a1", 20), ("k", None, 20), ("k", "b", 7)]
        assert driver.dropped() == 2
        assert list(driver.store("rows").range()) == [("k", "b")]


def test_streams_of_one_topic_are_folded_record_by_record() -> None:
    app = sl.App("a")
    stream = app.stream("in", key=str, value=str)
    other = stream.map_values(str.upper, value=str).group_by_key()
    stream.group_by_key().cogroup(added).cogroup(other, added).aggregate(str).to_stream().to("out")
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_inputs("in", [("k", "a"), ("k", "b")])
        assert [r.value for r in driver.read_output("out")] == ["A", "Aa", "AaB", "AaBb"]


def test_each_stream_with_changed_keys_has_a_repartition_topic_of_its_own() -> None:
    app = sl.App("a")
    one, two = (app.stream(topic, key=str, value=str) for topic in ("one", "two"))
    grouped = [stream.group_by(lambda k, v: v, key=str) for stream in (one, two, one)]
    both = grouped[0].cogroup(added).cogroup(grouped[1], added).cogroup(grouped[2], added)
    both.aggregate(str, store="rows").to_stream().to("out")
    assert app.topology().repartition_topics == (
        "a-rows-1-repartition",
        "a-rows-2-repartition",
        "a-rows-repartition",
    )
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_input("two", "k", "x")
        driver.pipe_input("one", "k", "x")
        assert [r.value for r in driver.read_output("out")] == ["x", "xx", "xxx"]


def test_an_aggregator_that_fails_fails_its_record() -> None:
    app = sl.App("a", on_error="skip")
    numbers = app.stream("in", key=str, value=int).group_by_key()
    divided: sl.CogroupedKStream[str, int] = numbers.cogroup(lambda k, v, x: x + 6 // v)
    divided.aggregate(int).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", 3), ("k", 0), ("k", 2)])
        assert [r.value for r in driver.read_output("out")] == [2, 5]
        assert driver.skipped() == 1


def test_mistakes_are_refused_when_the_topology_is_built() -> None:
    app = sl.App("a")
    words = app.stream("words", key=str, value=str).group_by_key()
    numbers: Any = app.stream("numbers", key=int, value=str).group_by_key()
    foreign = sl.App("b").stream("in", key=str, value=str).group_by_key()
    with pytest.raises(TopologyError, match="keys of one stream are str, those of another int"):
        words.cogroup(added).cogroup(numbers, added)
    with pytest.raises(TopologyError, match="different applications"):
        words.cogroup(added).cogroup(foreign, added)
    with pytest.raises(TopologyError, match="takes"):
        words.cogroup(lambda k, v: v)  # type: ignore[arg-type, misc]
