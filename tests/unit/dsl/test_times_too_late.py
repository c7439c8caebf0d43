"""Times beyond what can be kept: the policy answers them at their record, as negative ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, TopologyError
from streamlet.testing import TopologyTestDriver
from streamlet.types import LATEST_MS, LONGEST_MS

TOO_LATE = (2**63 - 1, 2**63 - 2, 2**63 - 60_000, LATEST_MS + 1)
Build = Callable[[Any, sl.App], Any]

OPERATORS: dict[str, Build] = {
    "to": lambda s, app: s,
    "count": lambda s, app: s.group_by_key().count(),
    "tumbling": lambda s, app: s.group_by_key().windowed_by(sl.tumbling("1m")).count(),
    "hopping": lambda s, app: s.group_by_key().windowed_by(sl.hopping("1m", advance="7s")).count(),
    "sliding": lambda s, app: s.group_by_key().windowed_by(sl.sliding("1m", grace="1h")).count(),
    "session": lambda s, app: s.group_by_key().windowed_by(sl.session("1m")).count(),
    "unlimited": lambda s, app: s.group_by_key().windowed_by(sl.unlimited()).count(),
    "final": lambda s, app: s.group_by_key().windowed_by(sl.tumbling("1m"), emit="final").count(),
    "suppress": lambda s, app: s.to_table().suppress(sl.until_time_limit("1m")),
    "suppress windows": lambda s, app: (
        s.group_by_key().windowed_by(sl.session("1m")).count().suppress(sl.until_window_closes())
    ),
    "deduplicate": lambda s, app: s.deduplicate("1m"),
    "join": lambda s, app: s.outer_join(
        s.map_values(lambda v: v, value=str),
        lambda a, b: a or b,
        within=sl.join_windows("1m", grace="1h"),
        value=str,
    ),
    "join with grace": lambda s, app: s.join(
        app.table("rows", key=str, value=str, store=sl.Materialized("r", history="1h")),
        lambda a, b: a,
        grace="1m",
        value=str,
    ),
    "versions": lambda s, app: s.to_table(store=sl.Materialized("v", history="1h")),
    "state": lambda s, app: s.process(lambda r, state: r, value=str, ttl="1m"),
}


def application(build: Build, policy: Any, source: dict[str, Any]) -> sl.App:
    app = sl.App("times", on_error=policy)
    stream = app.stream("in", key=str, value=str, **source)
    out = build(stream, app)
    out = out.to_stream() if isinstance(out, sl.KTable) else out
    out.map(lambda k, v: ("k", str(v)), key=str, value=str).to("out")
    return app


@pytest.mark.parametrize("build", OPERATORS.values(), ids=OPERATORS)
def test_a_record_of_a_time_too_late_is_one_for_the_policy(build: Build) -> None:
    with TopologyTestDriver(application(build, ("dead_letter", "dlq"), {})) as driver:
        for time in (1_000, *TOO_LATE, 2_000):
            driver.pipe_input("in", "k", "v", time)
        assert driver.stream_time == 2_000
        letters = [dict(one.headers or ()) for one in driver.read_output("dlq")]
        assert [one["streamlet.offset"] for one in letters] == [b"1", b"2", b"3", b"4"]
        assert b"9223372036854775807 ms; times go up to" in letters[0]["streamlet.message"]
    with TopologyTestDriver(application(build, "fail", {})) as driver:
        driver.pipe_input("in", "k", "v", LATEST_MS)
        with pytest.raises(ProcessingError, match=r"too late a timestamp .* at in-0 offset 1"):
            driver.pipe_input("in", "k", "v", LATEST_MS + 1)


@pytest.mark.parametrize("time", TOO_LATE)
@pytest.mark.parametrize(
    "extractor",
    [
        lambda k, v, t: int(v),
        sl.with_partition_time(lambda k, v, t, highest: int(v)),
    ],
)
def test_an_extractor_that_gives_such_a_time_fails_on_its_record(extractor: Any, time: int) -> None:
    app = application(OPERATORS["sliding"], "skip", {"timestamp": extractor})
    with TopologyTestDriver(app) as driver:
        for value in (5, time, -time, 6):
            driver.pipe_input("in", "k", str(value))
        assert (driver.skipped(), driver.dropped(), driver.stream_time) == (1, 1, 6)


def processed(process: Callable[..., Any], **more: Any) -> int:
    """How many of the records 1 and 13 are left out; 13 asks for what cannot be."""
    app = sl.App("times", on_error="skip")
    stream = app.stream("in", key=str, value=int)
    stream.process(process, key=str, value=int, **more).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", 1), ("k", 13), ("k", 2)])
        assert [one.value for one in driver.read_output("out")] == [1, 2]
        return driver.skipped()


@pytest.mark.parametrize("time", TOO_LATE)
def test_what_a_processor_gives_such_a_time_fails_on_its_record(time: int) -> None:
    def chosen(record: Any) -> int:
        return time if record.value == 13 else record.timestamp

    assert processed(lambda record: sl.Record(record.key, record.value, chosen(record))) == 1
    assert processed(lambda record: record.with_timestamp(chosen(record))) == 1

    def put(store: Any, record: Any) -> None:
        match store:
            case sl.SessionStore():
                store.put(sl.Windowed(record.key, 0, chosen(record)), record.value)
            case _:
                store.put(record.key, record.value, chosen(record))

    def keep(record: Any, context: Any) -> Any:
        put(context.store("s"), record)
        return record

    for builder in (
        sl.timestamped_store("s", key=str, value=int),
        sl.versioned_store("s", key=str, value=int, history="1h"),
        sl.window_store("s", key=str, value=int, size="1m", retention="1h"),
        sl.session_store("s", key=str, value=int, retention="1h"),
    ):
        assert processed(keep, stores=[builder]) == 1

    def timer(record: Any, state: Any) -> Any:
        state["n"] = record.value
        state.timer(at=chosen(record) + 1)
        return record

    assert processed(timer, on_timer=lambda timer, state: None) == 1


def test_spans_are_bounded_so_that_times_and_spans_add_up_to_less_than_64_bits() -> None:
    assert LATEST_MS + 4 * LONGEST_MS < 2**63 - 1
    longest = LONGEST_MS
    sl.session(longest, grace=longest)
    for make in (
        lambda: sl.tumbling(longest + 1),
        lambda: sl.session("1m", grace=longest + 1),
        lambda: sl.join_windows(longest + 1),
        lambda: sl.join_windows("1m", before=-longest - 1),
        lambda: sl.until_time_limit(longest + 1),
    ):
        with pytest.raises(TopologyError, match="expected at most"):
            make()


@pytest.mark.parametrize("build", OPERATORS.values(), ids=OPERATORS)
def test_the_latest_time_is_taken_by_every_operator(build: Build) -> None:
    with TopologyTestDriver(application(build, "fail", {})) as driver:
        for time in (0, LATEST_MS - 90_000, LATEST_MS - 1, LATEST_MS):
            driver.pipe_input("in", "k", "v", time)
        assert driver.stream_time == LATEST_MS
