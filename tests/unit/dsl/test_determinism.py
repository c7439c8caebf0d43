"""Functions declared non-deterministic: which repartition topics are not exact because of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import TopologyError
from streamlet.testing import TopologyTestDriver
from streamlet.topology.describe import as_json
from streamlet.topology.edges import edges_of

Stream = sl.KStream[str, int]


@sl.non_deterministic
def varying(key: str, value: int) -> str:
    return key


def stream(app: sl.App, topic: str = "in") -> Stream:
    return app.stream(topic, key=str, value=int)


def inexact(app: sl.App) -> list[str]:
    """Stores whose repartition topics' records wait, and not only since others before them do."""
    found = [edge for edge in edges_of(app.topology()) if edge.after_commit and not edge.follows]
    assert all("is non_deterministic()" in (edge.reason or "") for edge in found)
    return [edge.topic.removeprefix("a-").removesuffix("-repartition") for edge in found]


def test_the_topic_of_a_group_by_is_not_exact_and_another_one_is() -> None:
    app = sl.App("a")
    events = stream(app)
    events.group_by(varying).count(store="sampled")
    events.group_by(lambda key, value: key).count(store="sold")
    assert inexact(app) == ["sampled"]
    reasons = {one["topic"]: one["reason"] for one in as_json(app.topology())["repartitions"]}
    assert reasons["a-sampled-repartition"].startswith("behind KSTREAM-KEY-SELECT-0000000001")
    assert reasons["a-sold-repartition"] is None


FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda marked: lambda events: events.map_values(marked(lambda value: value), value=int),
    lambda marked: lambda events: events.filter(marked(lambda key, value: True)),
    lambda marked: (
        lambda events: events.map(marked(lambda key, value: (key, value)), key=str, value=int)
    ),
    lambda marked: lambda events: events.flat_map_values(marked(lambda value: [value]), value=int),
    lambda marked: lambda events: events.select_key(marked(lambda key, value: key), key=str),
    lambda marked: (
        lambda events: events.map_values(
            marked(sl.with_context(lambda value, context: value)), value=int
        )
    ),
    lambda marked: (
        lambda events: events.map_values(
            sl.with_context(marked(lambda value, context: value)), value=int
        )
    ),
    lambda marked: lambda events: events.map_values(marked(functools.partial(int)), value=int),
    lambda marked: lambda events: events.map_values(marked(abs), value=int),
]


@pytest.mark.parametrize("make", FUNCTIONS)
def test_it_counts_for_each_stateless_operator_before_the_topic(make: Callable[[Any], Any]) -> None:
    for mark, expected in ((sl.non_deterministic, ["counts"]), (lambda function: function, [])):
        app = sl.App("a")
        changed = make(mark)(stream(app))
        changed.group_by(lambda key, value: key, key=str).count(store="counts")
        assert inexact(app) == expected


def test_it_counts_through_a_store_before_the_topic() -> None:
    app = sl.App("a")
    varied = stream(app).map_values(sl.non_deterministic(lambda value: value), value=int)
    sums = varied.group_by_key().reduce(lambda one, other: one + other, store="sums")
    sums.to_stream().group_by(lambda key, value: str(value), key=str).count(store="behind")
    assert inexact(app) == ["behind"]


def test_it_counts_for_a_stream_that_meets_its_table() -> None:
    """The stream's own way has no such function."""
    app = sl.App("a")
    varied = stream(app, "rows").map_values(sl.non_deterministic(lambda value: value), value=int)
    table = varied.to_table(store="rows")
    met = stream(app).join(table, lambda value, row: value + row, value=int)
    met.group_by(lambda key, value: str(value), key=str).count(store="behind")
    assert inexact(app) == ["behind"]


def test_a_topic_in_between_fixes_the_records() -> None:
    app = sl.App("a")
    counts = stream(app).group_by(varying).count(store="first")
    counts.to_stream().group_by(lambda key, value: str(value), key=str).count(store="second")
    assert inexact(app) == ["first"]


def test_such_a_function_does_what_it_does() -> None:
    app = sl.App("a")
    events = app.stream("in", key=str, value=str)
    events.map_values(sl.non_deterministic(str.upper), value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", "tea")
        assert [record.value for record in driver.read_output("out")] == ["TEA"]


def test_its_result_type_is_inferred() -> None:
    app = sl.App("a")
    stream(app).group_by(varying).count(store="counts")
    assert app.topology().repartition_topics == ("a-counts-repartition",)


def test_a_call_that_cannot_note_it_refuses_it() -> None:
    app = sl.App("a")
    grouped = stream(app).group_by_key()
    with pytest.raises(TopologyError, match=r"reduce\(\) takes no function that is non_determinis"):
        grouped.reduce(sl.non_deterministic(lambda one, other: one))
    with pytest.raises(TopologyError, match=r"branch\(\) takes no function that is non_determinis"):
        stream(app).split().branch(sl.non_deterministic(lambda key, value: True))
    with pytest.raises(TopologyError, match="expects a function, got 3"):
        sl.non_deterministic(3)  # type: ignore[type-var]
