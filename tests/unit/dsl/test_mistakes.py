"""Slips that every newcomer makes once: each is refused, or warned of, in words that help."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, StreamletError, TopologyError, WrongTypeError
from streamlet.testing import TopologyTestDriver


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: sl.tumbling(60), "tumbling(size=) 60 is 60 milliseconds; write '60s' for seconds"),
        (lambda: sl.hopping("60", 1), "hopping(size=) '60' is 60 milliseconds; write '60s'"),
        (lambda: sl.session(5), "session(gap=) 5 is 5 milliseconds; write '5s'"),
        (lambda: sl.join_windows(), "join_windows() of 0 ms without grace keeps no record"),
        (lambda: sl.join_windows(grace="1s"), ""),
        (lambda: sl.tumbling("60ms"), ""),
        (lambda: sl.tumbling(60_000), ""),
    ],
)
def test_a_window_of_a_bare_small_number_or_of_nothing_is_warned_of(
    make: Callable[[], object], line: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        make()
    assert line in caplog.text
    assert bool(line) == bool(caplog.records)


def test_times_in_seconds_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    app = sl.App("seconds")
    app.stream("in", key=str, value=int, timestamp=lambda key, value, time: value).to("out")
    with caplog.at_level(logging.WARNING), TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", 1_700_000_000_000)
        assert not caplog.records
        for _ in range(2):
            driver.pipe_input("in", "a", 1_700_000_000)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "timestamp= of KSTREAM-SOURCE-0000000000 gives 1700000000, which is in January 1970"
    ]


def test_a_topic_that_a_stream_comes_from_is_written_only_where_that_is_meant() -> None:
    app = sl.App("loop")
    tries = app.stream("jobs", key=str, value=int)
    with pytest.raises(TopologyError, match=r"writes the topic that .*to\('jobs', feedback=True\)"):
        tries.to("jobs")
    counts = tries.group_by(lambda key, value: str(value), key=str).count()
    with pytest.raises(TopologyError, match="again for ever"):
        counts.to_stream().to("jobs")
    tries.filter(lambda key, n: n > 0).map_values(lambda n: n - 1, value=int).to(
        "jobs", feedback=True
    )
    tries.to("done")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("jobs", "a", 2)
        assert [record.value for record in driver.read_output("done")] == [2, 1, 0]


@pytest.mark.parametrize("topic", [None, ["out"]])
def test_what_is_no_topic_is_named_as_such(topic: object) -> None:
    lines = sl.App("topics").stream("in", key=str, value=str)
    with pytest.raises(WrongTypeError, match=r"to\(\) expects a topic's name or a function"):
        lines.to(topic)  # type: ignore[arg-type]


def test_a_result_that_is_no_pair_is_told_with_the_line_of_its_function() -> None:
    app = sl.App("pairs")
    app.stream("in", key=str, value=str).map(lambda k, v: v, key=str, value=str).to("out")  # type: ignore[arg-type, return-value]
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(ProcessingError, match=r"test_mistakes.py:\d+ in <lambda>.*expected a pair"),
    ):
        driver.pipe_input("in", "a", "b")


def test_an_operator_that_comes_too_late_is_told_what_to_do() -> None:
    app = sl.App("late")
    lines = app.stream("in", key=str, value=str)
    lines.to("out")
    app.topology()
    with pytest.raises(TopologyError, match=r"add it before run\(\), topology\(\)"):
        lines.filter(lambda key, value: True)


def test_streams_and_tables_show_their_types() -> None:
    app = sl.App("shown")
    lines = app.stream("in", key=str, value=int)
    assert repr(lines) == "KStream[str, int] of KSTREAM-SOURCE-0000000000"
    assert repr(lines.map_values(lambda v: v)).startswith("KStream[str, ")
    assert repr(lines.group_by_key().count()).startswith("KTable[str, int] of ")
    grouped = lines.group_by_key()
    assert repr(grouped) == "KGroupedStream[str, int] of KSTREAM-SOURCE-0000000000"
    assert repr(grouped.windowed_by(sl.tumbling("1m"))) == f"WindowedKStream of {grouped!r}"


def test_a_closed_driver_says_that_it_is_closed() -> None:
    app = sl.App("closed")
    app.table("in", key=str, value=str, store="rows")
    with TopologyTestDriver(app) as driver:
        pass
    for use in (
        lambda: driver.pipe_input("in", "a", "b"),
        lambda: driver.store("rows"),
        lambda: driver.advance_wall_clock("5s"),
    ):
        with pytest.raises(ValueError, match="the driver is closed") as refused:
            use()
        assert isinstance(refused.value, StreamletError), "notebooks show its message alone"
