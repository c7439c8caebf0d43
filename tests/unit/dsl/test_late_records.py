"""Records that are late for a window: written to a topic, or given to a function."""

from __future__ import annotations

from typing import Any

import pytest

import streamlet as sl
from streamlet.dsl.windowing.windows import SessionWindows, Windows
from streamlet.errors import ProcessingError, TopologyError
from streamlet.testing import TopologyTestDriver
from streamlet.topology.describe import as_text

#: Windows with the bounds of those that a record at 12 is late for when stream time is 60.
KINDS: list[tuple[Windows, list[tuple[int, int]]]] = [
    (sl.tumbling(20, grace=5), [(0, 20)]),
    (sl.hopping(20, 10), [(0, 20), (10, 30)]),
    (sl.sliding(10, grace=5), [(2, 12)]),
    (sl.session(10, grace=5), [(12, 12)]),
]


def application(windows: Windows, late: Any, **settings: Any) -> sl.App:
    app = sl.App("a", **settings)
    grouped = app.stream("in", key=str, value=str).group_by_key()
    grouped.windowed_by(windows, late=late).count().to_stream().to("out")
    return app


def cogrouped(windows: Windows, late: Any) -> sl.App:
    app = sl.App("a")
    words = app.stream("words", key=str, value=str).group_by_key()
    numbers = app.stream("numbers", key=str, value=int).group_by_key()
    both = words.cogroup(add).cogroup(numbers, add).windowed_by(windows, late=late)
    merger = None if not isinstance(windows, SessionWindows) else (lambda key, a, b: a + b)
    both.aggregate(str, merger).to_stream().to("out")
    return app


def add(key: str, value: Any, so_far: str) -> str:
    return f"{so_far}{value}"


@pytest.mark.parametrize(("windows", "bounds"), KINDS, ids=str)
def test_the_topic_gets_a_record_for_each_window_that_it_is_late_for(
    windows: Windows, bounds: list[tuple[int, int]]
) -> None:
    with TopologyTestDriver(application(windows, "late")) as driver:
        driver.pipe_input("in", "k", "first", 60)
        stale = [("h", b"x"), ("streamlet.window.start", b"7")]
        driver.pipe_input("in", "k", "old", 12, headers=stale)
        found = driver.read_output("late")
        assert driver.late() == len(bounds)
        assert all(r.timestamp == 60 for r in driver.read_output("out"))
    assert [(r.key, r.value, r.timestamp) for r in found] == [("k", "old", 12)] * len(bounds)
    for record, (start, end) in zip(found, bounds, strict=True):
        names, values = zip(*(record.headers or ()), strict=True)
        (operator,) = [v for n, v in record.headers or () if n == "streamlet.operator"]
        assert names[0] == "h"
        assert len(set(names)) == len(names)
        assert (operator or b"").startswith(b"KSTREAM-AGGREGATE-")
        pairs = zip(names, values, strict=True)
        given = {name.removeprefix("streamlet."): value.decode() for name, value in pairs}
        del given["operator"]
        assert given == {
            "h": "x",
            "application": "a",
            "topic": "in",
            "partition": "0",
            "offset": "1",
            "window.start": str(start),
            "window.end": str(end),
            "stream.time": "60",
        }


@pytest.mark.parametrize(("windows", "bounds"), KINDS, ids=str)
def test_a_function_gets_late_records_of_a_batch_with_the_stream_time_of_each(
    windows: Windows, bounds: list[tuple[int, int]]
) -> None:
    given: list[sl.LateRecord[str, str]] = []
    with TopologyTestDriver(application(windows, given.append)) as driver:
        driver.pipe_inputs("in", [("k", "one")], 60)
        driver.pipe_inputs("in", [("k", "two"), ("l", "old")], 12)
    assert [(r.window.start, r.window.end) for r in given] == bounds * 2
    assert {r.stream_time for r in given} == {60}
    assert [(r.key, r.value, r.offset) for r in given][:: len(bounds)] == [
        ("k", "two", 1),
        ("l", "old", 2),
    ]
    assert given[0].window.key == "k"


@pytest.mark.parametrize(("windows", "bounds"), KINDS, ids=str)
def test_cogrouped_streams_send_late_records_by_the_time_of_each(
    windows: Windows, bounds: list[tuple[int, int]]
) -> None:
    app = cogrouped(windows, "late")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("words", "k", "first", 100)
        driver.pipe_input("numbers", "k", 1, 60)
        driver.pipe_input("words", "k", "old", 12)
        driver.pipe_input("numbers", "k", 2, 12)
        assert driver.late() == 2 * len(bounds)
        found = driver.read_output("late", value=bytes)
    headers = [{n: (v or b"").decode() for n, v in record.headers or ()} for record in found]
    told = [(one["streamlet.topic"], one["streamlet.stream.time"]) for one in headers]
    assert told == [("words", "100")] * len(bounds) + [("numbers", "60")] * len(bounds)
    windows_told = [(one["streamlet.window.start"], one["streamlet.window.end"]) for one in headers]
    assert windows_told == [(str(start), str(end)) for start, end in bounds] * 2
    assert {record.value for record in found} == {b"old", sl.serde(int).encode(2)}
    assert len({one["streamlet.operator"] for one in headers}) == 2


def test_a_function_gets_the_late_records_of_all_cogrouped_streams() -> None:
    given: list[sl.LateRecord[str, Any]] = []
    with TopologyTestDriver(cogrouped(sl.tumbling(20), given.append)) as driver:
        for topic, value, time in (("words", "a", 60), ("numbers", 1, 59), ("numbers", 2, 12)):
            driver.pipe_input(topic, "k", value, time)
        driver.pipe_input("words", "k", "b", 13)
        starts = [r.key.start for r in driver.read_output("out")]
    assert starts == [60, 40]
    assert [(r.topic, r.value, r.stream_time) for r in given] == [
        ("numbers", 2, 59),
        ("words", "b", 60),
    ]


def test_values_go_through_a_repartition_topic_where_late_records_are_wanted() -> None:
    app = sl.App("a")
    grouped = app.stream("in", key=str, value=str).group_by(lambda key, value: value[0], key=str)
    grouped.windowed_by(sl.tumbling(10), late="late").count().to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        for value, time in (("a1", 20), ("a2", 5)):
            driver.pipe_input("in", "k", value, time)
        assert [(r.key, r.value) for r in driver.read_output("late")] == [("a", "a2")]


def test_a_function_that_fails_is_subject_to_the_error_policy() -> None:
    def failing(record: sl.LateRecord[str, str]) -> None:
        raise ValueError(record.value)

    records = [("k", "new", 60), ("k", "old", 12), ("k", "last", 61)]
    with TopologyTestDriver(application(sl.tumbling(20), failing)) as driver:
        driver.pipe_input("in", *records[0])
        with pytest.raises(ProcessingError, match="ValueError: old; a record failed at in-0 of"):
            driver.pipe_input("in", *records[1])
    letters = application(sl.tumbling(20), failing, on_error=("dead_letter", "dead"))
    with TopologyTestDriver(letters) as driver:
        for record in records:
            driver.pipe_input("in", *record)
        assert [r.value for r in driver.read_output("out")] == [1, 2]
        assert [r.value for r in driver.read_output("dead")] == [b"old"]


def test_a_record_that_fails_in_the_fold_tells_late_records_once() -> None:
    app = sl.App("a", on_error="skip")
    grouped = app.stream("in", key=str, value=str).group_by_key()
    windowed = grouped.windowed_by(sl.tumbling(10), late="late")
    windowed.aggregate(int, lambda key, value, total: total + int(value)).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", "1", 30)
        driver.pipe_inputs("in", [("k", "2"), ("k", "3")], 5)
        driver.pipe_inputs("in", [("k", "bad"), ("k", "4")], 31)
        assert [r.value for r in driver.read_output("late")] == ["2", "3"]
        assert [r.value for r in driver.read_output("out")] == [1, 5]
        assert driver.late() == 2


def test_a_topology_shows_where_late_records_go() -> None:
    text = as_text(application(sl.tumbling(20), "late").topology())
    assert "KSTREAM-AGGREGATE-0000000002-late" in text
    assert "(topic: late)" in text


def test_other_ways_are_refused() -> None:
    with pytest.raises(TopologyError, match=r"late=\) expects a topic or a function, got 5"):
        application(sl.tumbling(20), 5)
    with pytest.raises(TopologyError, match="in a topic's name, not 'no such topic'"):
        application(sl.tumbling(20), "no such topic")
