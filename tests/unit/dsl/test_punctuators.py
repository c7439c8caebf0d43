"""Punctuators: when they are called, by stream time and by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, TopologyError
from streamlet.testing.driver import TopologyTestDriver
from streamlet.topology.edges import edges_of

Context = sl.ProcessorContext[Any, Any]
STR: dict[str, Any] = {"key": str, "value": str}


class Every(sl.Processor[str, str, str, str]):
    """Sends each record on, and the time of each call."""

    by: Any = "stream_time"

    def init(self, context: Context) -> None:
        self.context = context
        context.schedule(50, self.by, self.tick)

    def process(self, record: sl.Record[str, str]) -> sl.Record[str, str]:
        return record

    def tick(self, time: int) -> tuple[str, str]:
        assert self.context.record_metadata is None
        return "tick", f"{time} {self.context.stream_time}"


def times(driver: TopologyTestDriver) -> list[tuple[str, str]]:
    return [(r.key, r.value) for r in driver.read_output("out")]


def piped(app: sl.App, records: list[tuple[str, int]], at_once: bool) -> list[tuple[str, str]]:
    """The output for records whose times are their values; those of one batch must be equal."""
    with TopologyTestDriver(app, start_ms=0) as driver:
        pairs = [(key, str(time)) for key, time in records]
        for chunk in [pairs] if at_once else [[one] for one in pairs]:
            driver.pipe_inputs("in", chunk)
        return times(driver)


def timed(key: str, value: str, _: int) -> int:
    return int(value)


@pytest.mark.parametrize("at_once", [True, False])
def test_stream_time_calls_behind_the_record_that_moved_it(at_once: bool) -> None:
    app = sl.App("a")
    app.stream("in", **STR, timestamp=timed).process(Every).to("out")
    records = [("a", 10), ("b", 20), ("c", 170), ("d", 180), ("e", 190), ("f", 201)]
    assert piped(app, records, at_once) == [
        ("a", "10"),
        ("tick", "10 10"),
        ("b", "20"),
        ("c", "170"),
        ("tick", "170 170"),
        ("d", "180"),
        ("e", "190"),
        ("f", "201"),
        ("tick", "201 201"),
    ]


@pytest.mark.parametrize("at_once", [True, False])
def test_records_that_are_left_out_before_move_stream_time_too(at_once: bool) -> None:
    app = sl.App("a")
    stream = app.stream("in", **STR, timestamp=timed).filter(lambda key, value: key != "out")
    stream.process(Every).to("out")
    records = [("out", 10), ("a", 20), ("out", 110), ("b", 120), ("out", 300)]
    assert piped(app, records, at_once) == [
        ("tick", "10 10"),
        ("a", "20"),
        ("tick", "110 110"),
        ("b", "120"),
        ("tick", "300 300"),
    ]


@pytest.mark.parametrize("at_once", [True, False])
def test_one_that_is_set_with_a_record_is_called_behind_it(at_once: bool) -> None:
    class Later(Every):
        def init(self, context: Context) -> None:
            self.context = context

        def process(self, record: sl.Record[str, str]) -> sl.Record[str, str]:
            if record.key == "set":
                self.context.schedule(100, "stream_time", self.tick)
            return record

    app = sl.App("a")
    app.stream("in", **STR, timestamp=timed).process(Later).to("out")
    records = [("a", 10), ("set", 20), ("b", 30), ("c", 130)]
    assert piped(app, records, at_once) == [
        ("a", "10"),
        ("set", "20"),
        ("tick", "20 20"),
        ("b", "30"),
        ("c", "130"),
        ("tick", "130 130"),
    ]


def test_a_test_moves_stream_time_on_without_a_record() -> None:
    app = sl.App("a")
    app.stream("in", **STR, timestamp=timed).process(Every).to("out")
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_input("in", "a", "10")
        driver.advance_stream_time(100)
        assert times(driver) == [("a", "10"), ("tick", "10 10"), ("tick", "110 110")]


def test_the_clock_calls_without_records_and_once_for_what_was_missed() -> None:
    class ByClock(Every):
        by = "wall_clock"

    app = sl.App("a")
    app.stream("in", **STR).process(ByClock).to("out")
    with TopologyTestDriver(app, start_ms=1000) as driver:
        for step in (49, 1, 170, 29, 1):
            driver.advance_wall_clock(step)
        assert [value for _, value in times(driver)] == ["1050 -1", "1220 -1", "1250 -1"]


def test_many_records_of_one_call_come_in_parts() -> None:
    class Many(Every):
        def tick(self, time: int) -> Iterator[tuple[str, str]]:  # type: ignore[override]
            yield from ((str(number), "") for number in range(2_500))

    app = sl.App("a")
    app.stream("in", **STR).process(Many).to("out")
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_input("in", "a", "x")
        assert [key for key, _ in times(driver)] == ["a", *map(str, range(2_500))]


def test_a_punctuator_that_fails_is_subject_to_the_error_policy() -> None:
    class Failing(Every):
        def tick(self, time: int) -> tuple[str, str]:
            self.context.forward(sl.Record("lost", "", time))
            raise ValueError("late")

    for policy in ("fail", "skip"):
        app = sl.App("a", on_error=policy)  # type: ignore[arg-type]
        app.stream("in", **STR).process(Failing).to("out")
        with TopologyTestDriver(app, start_ms=0) as driver:
            if policy == "fail":
                with pytest.raises(ProcessingError, match="late"):
                    driver.pipe_input("in", "a", "x", 10)
                continue
            for time in (10, 20, 60):
                driver.pipe_input("in", "a", "x", time)
            assert [key for key, _ in times(driver)] == ["a", "a", "a"]
            assert driver.skipped() == 2


def test_the_topology_knows_of_punctuators_by_the_code_or_by_an_argument() -> None:
    def hidden(context: Context) -> None:
        getattr(context, "sche" + "dule")(50, "stream_time", print)

    class Hidden(sl.Processor[str, str, str, str]):
        def init(self, context: Context) -> None:
            hidden(context)

        def process(self, record: sl.Record[str, str]) -> None:
            raise AssertionError

    for scheduled in (None, True):
        app = sl.App("a")
        sent = app.stream("in", **STR).process(Hidden, schedules=scheduled)
        sent.repartition().to("out")
        (edge,) = edges_of(app.topology())
        if scheduled:
            assert "whose results come with punctuators" in (edge.reason or "")
            continue
        assert edge.exact
        with pytest.raises(TopologyError, match="pass schedules=True"):
            TopologyTestDriver(app)
    app = sl.App("a")
    app.stream("in", **STR).process(lambda: Every()).repartition().to("out")
    assert not edges_of(app.topology())[0].exact


def test_an_interval_is_a_duration_and_there_are_two_kinds_of_time() -> None:
    for arguments, message in (((0, "stream_time"), "interval"), ((5, "time"), "'stream_time' or")):

        class Wrong(Every):
            def init(self, context: Context, given: Any = arguments) -> None:
                context.schedule(*given, print)

        app = sl.App("a")
        app.stream("in", **STR).process(Wrong)
        with pytest.raises(TopologyError, match=message):
            TopologyTestDriver(app)


@pytest.mark.parametrize(
    ("punctuator", "message"),
    [
        (None, r"schedule\(\) expects a function of the time, got None"),
        (lambda: None, r"schedule\(\) calls its function as \(time_ms\)"),
        (lambda record, context: None, r"schedule\(\) calls its function as \(time_ms\)"),
    ],
)
def test_a_punctuator_that_cannot_be_called_is_refused_when_it_is_set(
    punctuator: Any, message: str
) -> None:
    class Sets(sl.Processor[str, str, str, str]):
        def init(self, context: Any) -> None:
            context.schedule("1h", "wall_clock", punctuator)

        def process(self, record: sl.Record[str, str]) -> None: ...

    app = sl.App("times")
    app.stream("in", key=str, value=str).process(Sets, key=str, value=str)
    with pytest.raises(sl.StreamletError, match=message):
        TopologyTestDriver(app).pipe_input("in", "a", "b")
