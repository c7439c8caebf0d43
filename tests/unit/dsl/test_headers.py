"""Headers go with their records: through operators, repartition topics, tables and sinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamlet.app import App
from streamlet.dsl.stream import KStream
from streamlet.kafka.ports import Headers
from streamlet.testing.driver import TopologyTestDriver

ONE: Headers = [("h", b"one")]
MORE: Headers = [("h", b"one"), ("x", None), ("h", b"two")]

Step = Callable[[KStream[str, str]], KStream[Any, Any]]

STEPS: dict[str, Step] = {
    "filter": lambda s: s.filter(lambda k, v: v != "none"),
    "filter_not": lambda s: s.filter_not(lambda k, v: v == "none"),
    "map": lambda s: s.map(lambda k, v: (v, v), key=str, value=str),
    "map_values": lambda s: s.map_values(str.upper),
    "flat_map": lambda s: s.flat_map(lambda k, v: [(k, v)], key=str, value=str),
    "flat_map_values": lambda s: s.flat_map_values(lambda v: [v], value=str),
    "select_key": lambda s: s.select_key(lambda k, v: v, key=str),
    "peek": lambda s: s.peek(lambda k, v: None),
    "merge": lambda s: s.filter(lambda k, v: True).merge(s.filter(lambda k, v: False)),
    "repartition": lambda s: s.select_key(lambda k, v: v, key=str).repartition(),
    "group_by, count": lambda s: s.group_by(lambda k, v: v, key=str).count().to_stream(),
    "reduce": lambda s: s.group_by_key().reduce(lambda a, b: b).to_stream(),
    "aggregate": lambda s: s.group_by_key().aggregate(int, lambda k, v, n: n + 1).to_stream(),
}


def headers(driver: TopologyTestDriver, topic: str = "out") -> list[Headers | None]:
    return [record.headers for record in driver.read_output(topic)]


@pytest.mark.parametrize("step", STEPS)
def test_headers_go_with_their_record_through(step: str) -> None:
    app = App("a")
    STEPS[step](app.stream("in", key=str, value=str)).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", "v")
        driver.pipe_input("in", "k", "v", headers=ONE)
        driver.pipe_input("in", "k", "none", headers=[("lost", b"")])
        driver.pipe_input("in", "k", "v", headers=MORE)
        driver.pipe_input("in", "k", "v")
        found = [h for h in headers(driver) if h != [("lost", b"")]]
        assert found == [None, ONE, MORE, None]


def test_each_result_of_a_record_has_its_headers() -> None:
    app = App("a")
    app.stream("in", key=str, value=str).flat_map_values(str.split, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", "a b", headers=ONE)
        driver.pipe_input("in", "k", "c", headers=MORE)
        assert headers(driver) == [ONE, ONE, MORE]


def test_a_join_has_the_headers_of_the_streams_record() -> None:
    app = App("a")
    table = app.table("names", key=str, value=str)
    stream = app.stream("in", key=str, value=str)
    stream.join(table, lambda v, name: name, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("names", "k", "Kim", headers=MORE)
        driver.pipe_input("in", "k", "v", headers=ONE)
        driver.pipe_input("in", "k", "v")
        assert headers(driver) == [ONE, None]


def test_a_changed_row_has_the_headers_of_the_record_that_changed_it() -> None:
    app = App("a")
    app.table("rows", key=str, value=str).filter(lambda k, v: v != "no").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("rows", "k", "yes", headers=ONE)
        driver.pipe_input("rows", "k", "no", headers=MORE)
        assert headers(driver) == [ONE, MORE]


def test_a_record_behind_a_failing_one_keeps_its_own_headers() -> None:
    app = App("a", on_error="skip")
    app.stream("in", key=str, value=str).map_values(int, value=int).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", "1", headers=ONE)
        driver.pipe_inputs("in", [("k", "2"), ("k", "bad"), ("k", "3")], headers=MORE)
        driver.pipe_bytes("in", b"k", b"\xff", headers=ONE)
        assert headers(driver) == [ONE, MORE, MORE]


@pytest.mark.parametrize("bad", [b"bad", b"\xff"])
def test_a_dead_letter_keeps_the_headers_of_its_record(bad: bytes) -> None:
    app = App("a", on_error=("dead_letter", "letters"))
    app.stream("in", key=str, value=str).map_values(int, value=int).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_bytes("in", b"k", bad, headers=[("streamlet.error", b"old"), *MORE])
        (found,) = headers(driver, "letters")
    assert found is not None
    assert list(found[:3]) == MORE
    reason = [name for name, _ in found[3:]]
    assert reason.count("streamlet.error") == 1
    assert all(name.startswith("streamlet.") for name in reason)
