"""Sinks that write each record to a topic chosen for it."""

from __future__ import annotations

from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, TopologyError
from streamlet.hosting.run import RunResults
from streamlet.testing.driver import TopologyTestDriver
from streamlet.topology.describe import as_json, as_mermaid, as_text


def test_each_record_goes_to_its_topic_in_order_with_its_time_and_headers() -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=str).to(lambda k, v: f"out-{k}")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "1"), ("b", "2"), ("a", None)], 5, headers=[("h", b"x")])
        assert driver.produced_topic_names() == ["out-a", "out-b"]
        read = driver.read_output("out-a")
        assert [(r.key, r.value, r.timestamp) for r in read] == [("a", "1", 5), ("a", None, 5)]
        assert [r.headers for r in read] == [[("h", b"x")]] * 2
        assert [r.value for r in driver.read_output("out-b")] == ["2"]
        assert driver.read_output("out-c") == []


def test_a_function_may_ask_for_the_context() -> None:
    app = sl.App("a")
    of = sl.with_context(lambda k, v, context: context.header("to").decode())
    app.stream("in", key=str, value=str).to(of)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "1", headers=[("to", b"there")])
        assert [r.value for r in driver.read_output("there")] == ["1"]


@pytest.mark.parametrize(
    "name",
    ["", "no topic", ".", None, 5, "x" * 250, [], "__consumer_offsets", "a-streamlet-control"],
)
def test_a_name_that_is_none_fails_its_record(name: Any) -> None:
    def chosen(key: str, value: str) -> Any:
        return name if key == "bad" else "out"

    records = [("a", "1"), ("bad", "2"), ("b", "3")]
    app = sl.App("a")
    app.stream("in", key=str, value=str).to(chosen)
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(ProcessingError, match="topic"),
    ):
        driver.pipe_inputs("in", records)
    app = sl.App("a", on_error=("dead_letter", "dead"))
    app.stream("in", key=str, value=str).to(chosen)
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", records)
        assert [r.value for r in driver.read_output("out")] == ["1", "3"]
        assert len(driver.read_output("dead")) == 1


def test_a_topic_that_the_stream_comes_from_is_chosen_only_where_that_is_meant() -> None:
    app = sl.App("a", on_error="skip")
    tries = app.stream("jobs", key=str, value=int)
    less = tries.map_values(lambda n: n - 1, value=int)
    less.to(lambda key, n: "jobs" if n > 0 else "done")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("jobs", [("a", 3), ("a", 1)])
        assert driver.skipped() == 1
        assert [record.value for record in driver.read_output("done")] == [0]
    app = sl.App("a")
    counts = app.stream("jobs", key=str, value=int).group_by(lambda k, v: v, key=int).count()
    counts.to_stream().to(lambda key, n: "jobs")
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(ProcessingError, match=r"again for ever.*to\(function, feedback=True\)"),
    ):
        driver.pipe_input("jobs", "a", 3)
    app = sl.App("a")
    less = app.stream("jobs", key=str, value=int).map_values(lambda n: n - 1, value=int)
    less.to(lambda key, n: "jobs" if n > 0 else "done", feedback=True)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("jobs", "a", 3)
        assert [record.value for record in driver.read_output("done")] == [0]


@pytest.mark.parametrize("topic", ["a-counts-changelog", "a-counts-repartition"])
def test_a_name_of_the_applications_own_topics_fails_its_record(topic: str) -> None:
    app = sl.App("a", on_error="skip")
    app.stream("in", key=str, value=str).to(lambda key, value: value)
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", topic), ("k", "b-counts-changelog")])
        assert driver.skipped() == 1
        assert driver.produced_topic_names() == ["b-counts-changelog"]


def test_a_value_that_cannot_be_encoded_fails_alone() -> None:
    app = sl.App("a", on_error="skip")
    mapped = app.stream("in", key=str, value=str).map_values(
        lambda v: v if v == "x" else int(v), value=int
    )
    mapped.to(lambda k, v: f"out-{k}")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "1"), ("a", "x"), ("b", "2"), ("a", "3")])
        assert [r.value for r in driver.read_output("out-a")] == [1, 3]
        assert [r.value for r in driver.read_output("out-b")] == [2]
        assert driver.skipped() == 1


def test_order_is_kept_where_another_sink_writes_the_same_topic() -> None:
    app = sl.App("a")
    stream = app.stream("in", key=str, value=int)
    stream.to("out")
    stream.map_values(lambda v: -v, value=int).to(lambda k, v: "out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("a", 2)])
        assert [r.value for r in driver.read_output("out")] == [1, -1, 2, -2]


def test_a_run_counts_and_decodes_these_records_and_no_others() -> None:
    app = sl.App("a", on_error=("dead_letter", "dead"))
    app.stream("in", key=str, value=int).to(lambda k, v: f"out-{10 // v}")
    results = RunResults(app.topology(), keep=True)
    with TopologyTestDriver(app) as driver:
        take = driver._topics.take

        def seen(out: Any) -> Any:
            results.produced([out])
            return take(out)

        driver._topics.take = seen  # type: ignore[method-assign]
        driver.pipe_inputs("in", [("a", 5), ("a", 0), ("a", 10)])
    assert [(r.topic, r.value) for r in results.decoded()] == [("out-2", 5), ("out-1", 10)]
    assert results.count == 2


def test_a_description_says_that_the_topic_is_chosen() -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=int).to(lambda k, v: "x")
    topology = app.topology()
    assert "(topic: one for each record)" in as_text(topology)
    (sink,) = as_json(topology)["subtopologies"][0]["sinks"]
    assert sink["topic"] is None
    assert "KSTREAM_2d_SINK" in as_mermaid(topology)
    assert topology.subtopologies[0].output_topics == ()


def test_a_partitioner_needs_one_topic() -> None:
    stream = sl.App("a").stream("in", key=str, value=int)
    with pytest.raises(TopologyError, match="a partitioner knows one topic"):
        stream.to(lambda k, v: "x", partitioner=lambda k, v, n: 0)
    with pytest.raises(TopologyError, match="takes"):
        stream.to(lambda v: "x")  # type: ignore[arg-type, misc]
