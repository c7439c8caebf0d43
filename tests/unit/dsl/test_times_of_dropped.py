"""Which of the records that an operator leaves out move its time, as in Kafka Streams 4.1.

A record without a key or a value, one that is late, and one of which an extractor gives a negative
time. Each program has something that waits; a dropped record of a far time either closes it or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import streamlet as sl
from streamlet.testing import TopologyTestDriver

Program = Callable[[sl.App], Any]


def stream(app: sl.App, topic: str = "in") -> sl.KStream[str, str]:
    return app.stream(topic, key=str, value=str, timestamp=given_time)


def given_time(key: str | None, value: str | None, time: int) -> int:
    return -1 if value == "negative" else time


def counted(windows: Any, how: str) -> Program:
    def program(app: sl.App) -> Any:
        grouped = stream(app).group_by_key()
        if how == "final":
            return grouped.windowed_by(windows, emit="final").count().to_stream()
        waiting = grouped.windowed_by(windows).count().suppress(sl.until_window_closes())
        return waiting.to_stream()

    return program


def reduced(windows: Any) -> Program:
    """A window closes for what comes late: of two records of one window the second is late."""

    def program(app: sl.App) -> Any:
        grouped = stream(app).group_by_key()
        return grouped.windowed_by(windows).count().to_stream()

    return program


def suppressed(app: sl.App) -> Any:
    table = stream(app).to_table(store="rows")
    return table.suppress(sl.until_time_limit(10)).to_stream()


def later(kind: str) -> Program:
    def program(app: sl.App) -> Any:
        kept = sl.Materialized("t", history="1h")
        table = app.table("t", key=str, value=str, store=kept)
        return getattr(stream(app), kind)(table, lambda v, _: v, grace=10, value=str)

    return program


def unmatched(app: sl.App) -> Any:
    other = app.stream("other", key=str, value=str)
    within = sl.join_windows(10)
    return stream(app).left_join(other, lambda one, _: one, within=within, value=str)


def timed(app: sl.App) -> Any:
    """Each record waits for 10 in the state of its key."""

    def hold(record: Any, state: Any) -> None:
        state.timer(after=10)

    def send(timer: Any, state: Any) -> str:
        return "sent"

    return stream(app).process_values(hold, on_timer=send, value=str, name="held")


TUMBLING, SLIDING, SESSION = sl.tumbling(10), sl.sliding(10), sl.session(10)
FINAL = {
    "tumbling": counted(TUMBLING, "final"),
    "hopping": counted(sl.hopping(10, 5), "final"),
    "sliding": counted(SLIDING, "final"),
    "session": counted(SESSION, "final"),
    "until windows close": counted(TUMBLING, "suppress"),
}
NULL_KEY, NULL_VALUE, NEGATIVE = (None, "v"), ("k", None), ("k", "negative")
#: Program, record that is dropped, whether its time counts.
ROWS: list[tuple[str, Program, Any, bool]] = [
    *((name, program, NULL_KEY, False) for name, program in FINAL.items()),
    *((name, program, NEGATIVE, False) for name, program in FINAL.items()),
    ("tumbling", FINAL["tumbling"], NULL_VALUE, True),  # it is counted
    ("session", FINAL["session"], NULL_VALUE, True),
    ("sliding", FINAL["sliding"], NULL_VALUE, False),
    ("suppress", suppressed, NULL_KEY, False),
    ("suppress", suppressed, NULL_VALUE, True),  # a deletion
    ("suppress", suppressed, NEGATIVE, False),
    ("timers", timed, NULL_KEY, False),
    ("timers", timed, NULL_VALUE, True),  # the function gets it
    ("timers", timed, NEGATIVE, False),
    ("join with grace", later("join"), NULL_KEY, False),
    ("join with grace", later("join"), NULL_VALUE, False),
    ("join with grace", later("join"), NEGATIVE, False),
    ("left join with grace", later("left_join"), NULL_KEY, False),  # it is joined at once
    ("left join with grace", later("left_join"), NULL_VALUE, False),
    ("left join with grace", later("left_join"), NEGATIVE, False),
]


@pytest.mark.parametrize(
    ("program", "dropped", "moves"),
    [row[1:] for row in ROWS],
    ids=[f"{name}, {dropped}" for name, _, dropped, _ in ROWS],
)
def test_time_of_a_dropped_record(program: Program, dropped: Any, moves: bool) -> None:
    """What waits since 5 comes with a record of 6 if the dropped one of 1,000 moved time on."""
    app = sl.App("a")
    program(app).to("out")
    with TopologyTestDriver(app, start_ms=0) as driver:
        if any("t" in part.input_topics for part in app.topology().subtopologies):
            driver.pipe_input("t", "a", "row", 0)
        driver.pipe_input("in", "a", "v", 5)
        driver.pipe_input("in", *dropped, 1_000)
        driver.pipe_input("in", "b", "v", 6)
        keys = [getattr(record.key, "key", record.key) for record in driver.read_output("out")]
        assert ("a" in keys) == moves
        driver.pipe_input("in", "c", "v", 2_000)
        keys += [getattr(record.key, "key", record.key) for record in driver.read_output("out")]
        assert "a" in keys


@pytest.mark.parametrize("kind", ["join", "left_join"])
def test_a_late_record_of_a_join_with_grace_is_joined_and_sends_nothing_else(kind: str) -> None:
    app = sl.App("a")
    later(kind)(app).to("out")
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_inputs("t", [("a", "row"), ("b", "row")], 0)
        driver.pipe_input("in", "a", "v", 5)
        driver.pipe_input("in", "a", "w", 14)
        driver.pipe_input("in", "b", "late", 3)
        assert [(r.key, r.value) for r in driver.read_output("out")] == [("b", "late")]
        driver.pipe_input("in", "b", "x", 15)
        assert [(r.key, r.value) for r in driver.read_output("out")] == [("a", "v")]


def test_a_recorded_run_of_a_left_join_with_grace() -> None:
    """Kafka Streams 4.1.1 was given these records: the null value at 90 neither moves nor sends."""
    app = sl.App("a")
    kept = sl.Materialized("right-store", history=200)
    table = app.table("right", key=str, value=str, store=kept)
    left = app.stream("left", key=str, value=str)
    left.left_join(table, lambda v, row: f"{v}|{row or '-'}", grace=40, value=str).to("out")
    found: list[tuple[int, Any, Any, int]] = []
    steps: list[tuple[str, str, str | None, int]] = [
        ("right", "a", "b1", 5),
        ("left", "a", "a1", 20),
        ("left", "b", None, 90),
        ("left", "c", "a3", 25),
        ("left", "c", "a4", 200),
    ]
    with TopologyTestDriver(app, start_ms=0) as driver:
        for number, step in enumerate(steps):
            driver.pipe_input(*step)
            read = driver.read_output("out")
            found += [(number, one.key, one.value, one.timestamp) for one in read]
    assert found == [(4, "a", "a1|b1", 20), (4, "c", "a3|-", 25)]


def test_null_values_move_the_time_of_a_join_of_streams_but_send_nothing() -> None:
    app = sl.App("a")
    unmatched(app).to("out")
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_input("in", "a", "v", 5)
        driver.pipe_input("in", "k", None, 1_000)
        assert driver.read_output("out") == []
        driver.pipe_input("in", "b", "w", 6)  # late by now, and not of stream time: alone at once
        assert [record.key for record in driver.read_output("out")] == ["b"]
        driver.pipe_input("in", "c", "x", 1_000)
        assert [record.key for record in driver.read_output("out")] == ["a"]


def deduplicated(app: sl.App) -> Any:
    return stream(app).deduplicate(10, store="seen")


def with_ttl(app: sl.App) -> Any:
    kept = sl.Materialized("n", ttl=100)
    return stream(app).group_by_key().count(store=kept).to_stream().map_values(str, value=str)


@pytest.mark.parametrize("dropped", [NULL_KEY, NULL_VALUE, NEGATIVE, None])
@pytest.mark.parametrize("program", [deduplicated, with_ttl])
def test_operators_that_kafka_streams_does_not_have(program: Program, dropped: Any) -> None:
    """A record that goes on moves time, and those behind are late then.

    One without a value goes on through ``deduplicate``. Rows expire by the stream time of their
    task, as punctuators are called by it: all records move that but those of negative times.
    """
    app = sl.App("a")
    program(app).to("out")
    moves = dropped in ([NULL_KEY, NULL_VALUE] if program is with_ttl else [NULL_VALUE])
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_input("in", "a", "v", 5)
        if dropped is not None:
            driver.pipe_input("in", *dropped, 1_000)
        driver.pipe_input("in", "b", "v", 6)
        driver.pipe_input("in", "a", "v", 30)
        found = [(one.key, one.value) for one in driver.read_output("out") if one.key in ("a", "b")]
    if program is with_ttl:
        assert found == [("a", "1"), ("b", "1"), ("a", "1" if moves else "2")]
    else:
        assert found == [("a", "v")] if moves else [("a", "v"), ("b", "v"), ("a", "v")]
