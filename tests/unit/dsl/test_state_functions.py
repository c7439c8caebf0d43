"""State functions: what is kept, when timers come, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, TopologyError
from streamlet.testing.driver import TopologyTestDriver
from streamlet.topology.edges import edges_of

STR: dict[str, Any] = {"key": str, "value": str}


def stream(app: sl.App) -> sl.KStream[str, str]:
    return app.stream("in", **STR)


def output(driver: TopologyTestDriver) -> list[tuple[Any, Any, int]]:
    return [(r.key, r.value, r.timestamp) for r in driver.read_output("out")]


def last(record: sl.Record[str, str], state: sl.State[str]) -> str:
    before = state.get("last", "-")
    state["last"] = record.value
    return f"{before} {record.value}"


def test_each_key_has_a_dict_and_a_record_without_a_key_is_left_out() -> None:
    app = sl.App("a")
    stream(app).process_values(last, name="last", value=str).to("out")
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_inputs("in", [("a", "1"), ("b", "2"), (None, "3"), ("a", "4")])
        assert [value for _, value, _ in output(driver)] == ["- 1", "- 2", "1 4"]
        assert dict(driver.store("last-state").range()) == {"a": {"last": "4"}, "b": {"last": "2"}}
        assert driver.dropped() == 1


def test_a_key_that_changed_goes_through_a_repartition_topic_first() -> None:
    app = sl.App("a")
    letters = stream(app).select_key(lambda key, value: value[0], key=str)
    letters.process_values(last, name="last", value=str).group_by_key().count()
    assert app.topology().repartition_topics == ("a-last-repartition",)
    assert edges_of(app.topology())[0].exact


def silent(record: sl.Record[str, str], state: sl.State[str]) -> None:
    state.timer(after="10s")


def alarm(timer: sl.Timer[str], state: sl.State[str], context: Any) -> tuple[str, str]:
    return timer.key, f"silent since {timer.time - 10_000}"


def test_timers_by_the_clock_come_without_records_and_make_edges_not_exact() -> None:
    app = sl.App("a")
    silence = stream(app).process(silent, on_timer=alarm, timers="wall_clock", **STR)
    silence.repartition(name="r").to("out")
    (edge,) = edges_of(app.topology())
    assert "results come by the clock" in (edge.reason or "")
    with TopologyTestDriver(app, start_ms=1_000) as driver:
        driver.pipe_input("in", "a", "x")
        driver.advance_wall_clock(5_000)
        driver.pipe_input("in", "b", "x")
        driver.advance_wall_clock(5_000)
        assert output(driver) == [("a", "silent since 1000", 11_000)]
        driver.advance_wall_clock(5_000)
        assert output(driver) == [("b", "silent since 6000", 16_000)]


def test_a_state_expires_after_its_ttl_by_stream_time() -> None:
    app = sl.App("a")
    stream(app).process_values(last, name="last", value=str, ttl=100).to("out")
    with TopologyTestDriver(app, start_ms=0) as driver:
        for key, value, time in [("a", "1", 0), ("a", "2", 99), ("a", "3", 198), ("a", "4", 298)]:
            driver.pipe_input("in", key, value, time)
        assert [value for _, value, _ in output(driver)] == ["- 1", "1 2", "2 3", "- 4"]
        driver.pipe_input("in", "b", "5", 397)
        assert [key for key, _ in driver.store("last-state").range()] == ["a", "b"]
        driver.pipe_input("in", "b", "5", 398)
        assert [key for key, _ in driver.store("last-state").range()] == ["b"]


def test_a_typed_state_is_checked_with_the_record_that_changes_it() -> None:
    def wrong(record: sl.Record[str, str], state: sl.State[str]) -> str:
        state["n"] = state.get("n", 0) + 1
        if record.value == "bad":
            state["n"] = object()
        return str(state["n"])

    app = sl.App("a", on_error="skip")
    stream(app).process_values(wrong, value=str, state=dict[str, int]).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "1"), ("a", "bad"), ("a", "2")])
        assert [value for _, value, _ in output(driver)] == ["1", "2"]


def failing(action: Any, **options: Any) -> TopologyTestDriver:
    def function(record: sl.Record[str, str], state: sl.State[str]) -> None:
        action(state)

    app = sl.App("a")
    stream(app).process(function, **options)
    return TopologyTestDriver(app, start_ms=0)


def again(timer: sl.Timer[str], state: sl.State[str]) -> None:
    state.timer(at=timer.time)


@pytest.mark.parametrize(
    ("action", "options", "message"),
    [
        (lambda s: s.timer(at=1), {}, "has no on_timer="),
        (lambda s: s.timer(), {"on_timer": again}, "give at="),
        (lambda s: s.timer(at=-1), {"on_timer": again}, "expected ms"),
        (lambda s: s.timer(at=0), {"on_timer": again}, "must be later"),
        (lambda s: s.timer(after="soon"), {"on_timer": again}, "after"),
    ],
)
def test_timers_that_cannot_be_are_refused(action: Any, options: Any, message: str) -> None:
    with failing(action, **options) as driver, pytest.raises(ProcessingError, match=message):
        driver.pipe_input("in", "a", "x")


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (lambda record: record, {"on_timer": again}, "are for a function"),
        (lambda record: record, {"ttl": 5}, "are for a function"),
        (last, {"timers": "time"}, "'stream_time' or 'wall_clock'"),
        (last, {"on_timer": 3}, "on_timer expects a function"),
        (last, {"ttl": 0}, "ttl"),
        (lambda record, state, context, more: None, {}, "it takes"),
    ],
)
def test_functions_are_checked_when_the_topology_is_built(
    given: Any, options: Any, message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        stream(sl.App("a")).process(given, **options)


def test_a_processor_that_is_no_function_of_state_is_still_given_the_context() -> None:
    def told(record: sl.Record[str, str], state: sl.State[str], context: Any) -> str:
        state["n"] = state.get("n", 0) + 1
        return f"{state['n']} {context.record_metadata.offset} {state!r} {len(state)}"

    app = sl.App("a")
    stream(app).process_values(told, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "x"), ("a", "y")])
        values = [value for _, value, _ in output(driver)]
    assert values == ["1 0 State('a', {'n': 1}) 1", "2 1 State('a', {'n': 2}) 1"]


def test_what_was_left_out_before_a_failure_counts_once() -> None:
    """The rest of its batch was counted again behind each record that failed."""

    def fails(record: sl.Record[str, str], state: sl.State[str]) -> str:
        if record.value == "!":
            raise ValueError(record.value)
        return last(record, state)

    app = sl.App("a", on_error="skip")
    stream(app).process_values(fails, name="fails", value=str).to("out")
    with TopologyTestDriver(app) as driver:
        keys = [None if value == "-" else "a" for value in "-1-!-2!-"]
        driver.pipe_inputs("in", zip(keys, "-1-!-2!-", strict=True))
        assert [value for _, value, _ in output(driver)] == ["- 1", "1 2"]
        assert (driver.dropped(), driver.skipped()) == (4, 2)
