"""The table of a stream: its rows, its repartition topic, values that it cannot keep."""

from __future__ import annotations

import streamlet as sl
from streamlet.testing.driver import TopologyTestDriver


def test_a_table_of_a_stream_has_the_newest_values_and_a_changelog_of_its_own() -> None:
    app = sl.App("a")
    table = app.stream("in", key=str, value=int).to_table(store="newest")
    table.filter(lambda k, v: v > 1).to_stream().to("out")
    (part,) = app.topology().subtopologies
    assert part.changelog_topics == ("a-newest-changelog",)
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("a", 3), ("b", 2), ("b", None), (None, 4)])
        assert [(r.key, r.value) for r in driver.read_output("out")] == [
            ("a", 3),
            ("b", 2),
            ("b", None),
        ]
        assert list(driver.store("newest").range()) == [("a", 3)]
        assert driver.dropped() == 1


def test_a_stream_whose_key_may_have_changed_is_sent_through_a_topic() -> None:
    app = sl.App("a")
    stream = app.stream("in", key=str, value=str).select_key(lambda k, v: v, key=str)
    stream.to_table(store="t").to_stream().to("out")
    assert len(app.topology().repartition_topics) == 1
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "x"), ("b", None), ("c", "y")])
        assert [(r.key, r.value) for r in driver.read_output("out")] == [("x", "x"), ("y", "y")]


def test_a_stream_can_join_the_table_of_another() -> None:
    app = sl.App("a")
    rows = app.stream("rows", key=str, value=int).to_table()
    app.stream("in", key=str, value=int).join(rows, lambda v, row: v + row, value=int).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("rows", "a", 5)
        driver.pipe_inputs("in", [("a", 1), ("b", 1)])
        assert [r.value for r in driver.read_output("out")] == [6]


def test_a_value_that_the_store_cannot_keep_fails_its_record_and_no_other() -> None:
    app = sl.App("a", on_error="skip")
    mapped = app.stream("in", key=str, value=str).map_values(
        lambda v: int(v) if v.isdigit() else v, value=int
    )
    mapped.to_table(store="t").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "1"), ("b", "x"), ("c", "3")])
        assert [(r.key, r.value) for r in driver.read_output("out")] == [("a", 1), ("c", 3)]
        assert list(driver.store("t").range()) == [("a", 1), ("c", 3)]
        assert driver.skipped() == 1
