"""Joins of streams: what is refused, names, failures, and values that can change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.dsl.joins import unmatched
from streamlet.dsl.joins.windows import JoinWindows
from streamlet.dsl.stream import KStream
from streamlet.errors import StreamletError, TopologyError
from streamlet.testing.driver import TopologyTestDriver
from streamlet.topology.describe import as_json, as_text
from streamlet.topology.graph import Topology
from streamlet.topology.moved import check_moved
from tests.unit.inside import inside

WITHIN = sl.join_windows("50ms", grace="30ms")


def pair(left: Any, right: Any) -> str:
    return f"{left}|{right}"


def sides(app: App) -> tuple[KStream[str, str], KStream[str, str]]:
    left = app.stream("left", key=str, value=str)
    return left, app.stream("right", key=str, value=str)


def results(driver: TopologyTestDriver) -> list[tuple[Any, Any, int]]:
    return [(r.key, r.value, r.timestamp) for r in driver.read_output("out")]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (lambda: sl.join_windows("5m", grace="1m"), JoinWindows(300_000, 300_000, 60_000)),
        (lambda: sl.join_windows("1s", after="2s"), JoinWindows(1_000, 2_000, 0)),
        (lambda: sl.join_windows(before="-10ms", after=60), JoinWindows(-10, 60, 0)),
        (lambda: sl.join_windows(before=60, after=-10), JoinWindows(60, -10, 0)),
        (
            lambda: sl.join_windows(before=timedelta(seconds=-1), after=1_000),
            JoinWindows(-1_000, 1_000, 0),
        ),
    ],
)
def test_windows_have_bounds_that_may_differ_and_be_negative(
    given: Callable[[], JoinWindows], wanted: JoinWindows
) -> None:
    assert given() == wanted


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (lambda: sl.join_windows("-1s"), "difference"),
        (lambda: sl.join_windows("soon"), "difference=.*soon"),
        (lambda: sl.join_windows(before="-10s", after="9s"), "end before it begins"),
        (lambda: sl.join_windows("1s", grace=-1), "grace"),
        (lambda: sl.join_windows(before="--1s"), "before"),
    ],
)
def test_windows_that_cannot_be_are_refused(given: Callable[[], JoinWindows], reason: str) -> None:
    with pytest.raises(TopologyError, match=reason):
        given()


def test_a_join_of_streams_needs_windows_and_a_join_with_a_table_takes_none() -> None:
    app = App("a")
    left, right = sides(app)
    table = app.table("t", key=str, value=str)
    with pytest.raises(TopologyError, match="pass within="):
        left.join(right, pair)  # type: ignore[call-overload]
    for given in (60, "5m", sl.tumbling("5m")):
        with pytest.raises(TopologyError, match=rf'join_windows\("5m"\), got .*{str(given)[:4]}'):
            left.join(right, pair, within=given)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="within= is for joins of two streams"):
        left.join(table, pair, within=WITHIN)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match=r"is of two streams or of two tables: left_join\(\)"):
        left.outer_join(table, pair, within=WITHIN)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match=r"join\(\): .* as of App.stream\(topic\) .* with 'in'"):
        left.join("in", pair, within=WITHIN)  # type: ignore[call-overload]


def test_streams_that_cannot_meet_are_refused() -> None:
    app = App("a")
    left, right = sides(app)
    numbers = app.stream("numbers", key=int, value=str)
    with pytest.raises(TopologyError, match="the keys of the streams differ, str and int"):
        left.join(numbers, pair, within=WITHIN)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="'a' and 'b'"):
        left.join(sides(App("b"))[0], pair, within=WITHIN)
    with pytest.raises(TopologyError, match="calls its function as"):
        left.join(right, lambda one: one, within=WITHIN)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="how long the stores keep"):
        left.join(right, pair, within=WITHIN, store=sl.Materialized("j", retention="1d"))
    unknown = left.map(lambda k, v: (v, [k]))
    with pytest.raises(TopologyError, match="type is not known after map"):
        unknown.join(right, pair, within=WITHIN)


KAFKAS = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [left])
      --> KSTREAM-WINDOWED-0000000002
    Source: KSTREAM-SOURCE-0000000001 (topics: [right])
      --> KSTREAM-WINDOWED-0000000003
    Processor: KSTREAM-WINDOWED-0000000002 (stores: [KSTREAM-OUTERTHIS-0000000004-store])
      --> KSTREAM-OUTERTHIS-0000000004
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-WINDOWED-0000000003 (stores: [KSTREAM-OUTEROTHER-0000000005-store])
      --> KSTREAM-OUTEROTHER-0000000005
      <-- KSTREAM-SOURCE-0000000001
"""


def test_nodes_and_stores_have_the_names_that_kafka_streams_gives_them() -> None:
    app = App("a")
    left, right = sides(app)
    left.outer_join(right, pair, within=WITHIN, value=str).to("out")
    topology = app.topology()
    assert as_text(topology).startswith(KAFKAS)
    (part,) = topology.subtopologies
    assert [spec.name for spec in part.stores] == [
        "KSTREAM-OUTERTHIS-0000000004-store",
        "KSTREAM-OUTEROTHER-0000000005-store",
        "KSTREAM-OUTERSHARED-0000000004-store",
    ]


@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        ("join", ["this", "other"]),
        ("left_join", ["this", "outer-other", "left-shared"]),
        ("outer_join", ["outer-this", "outer-other", "outer-shared"]),
    ],
)
def test_given_names_begin_those_of_stores_and_repartition_topics(
    kind: str, ends: list[str]
) -> None:
    app = App("a")
    left, right = (one.select_key(lambda k, v: v, key=str) for one in sides(app))
    getattr(left, kind)(right, pair, within=WITHIN, store="j", name="by").to_table(value=str)
    topology = app.topology()
    part = next(one for one in topology.subtopologies if len(one.input_topics) == 2)
    assert topology.repartition_topics == ("a-by-left-repartition", "a-by-right-repartition")
    named = [spec.name for spec in part.stores if spec.named]
    assert named == [f"j-{end}-join-store" for end in ends]


def test_the_windows_are_shown_and_are_in_the_hash() -> None:
    def part_with(windows: JoinWindows) -> dict[str, Any]:
        app = App("a")
        left, right = sides(app)
        left.left_join(right, pair, within=windows, value=str).to("out")
        (part,) = as_json(app.topology())["subtopologies"]
        return dict(part)

    one = part_with(sl.join_windows(before="20ms", after="60ms", grace="30ms"))
    shown = [(s.get("windows"), s.get("grace_ms"), s.get("retention_ms")) for s in one["stores"]]
    assert shown[:2] == [("join 20 ms before to 60 ms after", 30, 110)] * 2
    others = [sl.join_windows(20, after=61, grace=30), sl.join_windows(20, after=60, grace=31)]
    assert len({one["hash"], *(part_with(windows)["hash"] for windows in others)}) == 3


def test_a_stream_with_a_new_key_is_joined_with_itself_through_one_topic() -> None:
    app = App("a")
    keyed = app.stream("in", key=str, value=str).select_key(lambda k, v: v[0], key=str)
    keyed.join(keyed, pair, within=WITHIN, value=str).to("out")
    assert app.topology().repartition_topics == ("a-KSTREAM-KEY-SELECT-0000000001-repartition",)
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "x", "a1", 100)
        driver.pipe_input("in", "y", "a2", 110)
        pairs = [value for _, value, _ in results(driver)]
    assert pairs == ["a1|a1", "a2|a1", "a1|a2", "a2|a2"]


def test_joins_of_a_stream_with_a_new_key_share_its_topic_unless_they_have_names() -> None:
    def topics(*names: str | None) -> tuple[str, ...]:
        app = App("a")
        left, right = sides(app)
        keyed = left.select_key(lambda k, v: v[0], key=str)
        for number, name in enumerate(names):
            keyed.join(right, pair, within=WITHIN, value=str, name=name).to(f"out-{number}")
        return app.topology().repartition_topics

    shared = "a-KSTREAM-KEY-SELECT-0000000002-repartition"
    assert topics(None, None) == (shared,)
    assert topics(None, "own") == (shared, "a-own-left-repartition")


@pytest.mark.parametrize("kind", ["join", "left_join"])
def test_a_record_whose_joiner_fails_is_skipped_and_the_others_are_not(kind: str) -> None:
    def joiner(key: str, left: str, right: str | None) -> str:
        if right == "bad":
            raise ValueError("bad")
        return f"{key}:{left}|{right}"

    app = App("a", on_error="skip")
    left, right = sides(app)
    getattr(left, kind)(right, joiner, within=WITHIN, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("left", "a", "l1", 100)
        for value in ("r1", "bad", "r2"):
            driver.pipe_input("right", "a", value, 110)
        driver.pipe_input("left", "a", "l2", 105)
        driver.pipe_input("left", "a", "l3", 300)
        assert [value for _, value, _ in results(driver)] == [
            *("a:l1|r1", "a:l1|r2"),  # the bad one was kept, as it is in Kafka Streams
            "a:l2|r1",
        ]


@pytest.mark.parametrize("part", [1, 2, 10_000])
def test_what_waits_goes_out_though_the_joiner_fails_for_one_of_it(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def joiner(left: str, right: str | None) -> str:
        if left == "bad":
            raise ValueError("bad")
        return pair(left, right)

    monkeypatch.setattr(unmatched, "PART", part)
    app = App("a", on_error="skip")
    left, right = sides(app)
    left.left_join(right, joiner, within=WITHIN, value=str).to("out")
    waits = [("a", "l1"), ("b", "bad"), ("b", "l2"), ("c", "l3"), ("d", "l4")]
    with TopologyTestDriver(app) as driver:
        for key, value in waits:
            driver.pipe_input("left", key, value, 100)
        driver.pipe_input("right", "z", "r1", 300)
        found = [value for _, value, _ in results(driver)]
        assert found == ["l1|None", "l2|None", "l3|None", "l4|None"]


def test_very_many_records_that_waited_are_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unmatched, "PART", 10)
    app = App("a")
    left, right = sides(app)
    left.outer_join(right, pair, within=WITHIN, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("left", [(f"k{n:03}", f"l{n}") for n in range(95)], 100)
        driver.pipe_input("right", "k000", "r", 1_000)
        driver.pipe_input("right", "k000", "r", 2_000)
        values = [value for _, value, _ in results(driver)]
    assert values == [*(f"l{n}|None" for n in range(95)), "None|r"]


def test_a_value_that_a_joiner_or_a_reader_changes_is_not_the_stores_own() -> None:
    def joined(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
        left["seen"] = left.get("seen", 0) + 1
        right["seen"] = right.get("seen", 0) + 1
        return right

    app = App("a")
    left, right = (app.stream(name, key=str, value=dict[str, int]) for name in ("left", "right"))
    left.join(right, joined, within=WITHIN, value=dict[str, int]).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("right", "a", {"r": 1}, 100)
        for time in (100, 101):
            driver.pipe_input("left", "a", {}, time)
        assert [value for _, value, _ in results(driver)] == [{"r": 1, "seen": 1}] * 2


def test_a_value_that_the_serde_refuses_fails_with_its_record() -> None:
    app = App("a")
    left, right = sides(app)
    wrong: Any = lambda value: len(value)  # noqa: E731
    left.map_values(wrong, value=str).join(right, pair, within=WITHIN, value=str).to("out")
    with TopologyTestDriver(app) as driver, pytest.raises(StreamletError, match="expected str"):
        driver.pipe_input("left", "a", "l1", 100)


def test_records_of_a_store_can_be_read_in_the_order_of_their_times() -> None:
    app = App("a")
    left, right = sides(app)
    left.join(right, pair, within=WITHIN, value=str, store="j").to("out")
    with TopologyTestDriver(app) as driver:
        for number, time in enumerate([130, 100, *[120] * 20, 110]):
            driver.pipe_input("left", "ab"[number % 2], f"l{number}", time)
        store = inside(driver, "j-this-join-store")
        rows = [(window.start, window.key, value) for window, value in store.range()]
        assert [time for time, _, _ in rows] == [100, 110, *[120] * 20, 130]
        assert [key for time, key, _ in rows if time == 120] == ["a"] * 10 + ["b"] * 10
        assert store.fetch("a", 120) == "l20"
        assert [value for _, value in store.range(121, 130)] == ["l0"]


def test_a_key_with_very_many_records_keeps_them_all() -> None:
    app = App("a")
    left, right = sides(app)
    left.join(right, pair, within=sl.join_windows("10s"), value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("left", [("a", f"l{number}") for number in range(3_000)])
        driver.pipe_input("right", "a", "r")
        values = [value for _, value, _ in results(driver)]
    assert values == [f"l{number}|r" for number in range(3_000)]


@pytest.mark.parametrize("kind", ["join", "outer_join"])
def test_results_of_two_streams_have_no_origins_and_those_of_one_have(kind: str) -> None:
    app = App("a")
    left, right = sides(app)
    joined = getattr(left, kind)(right, pair, within=WITHIN, value=str)
    joined.filter(lambda k, v: True).to("out", origin=True)
    with pytest.raises(TopologyError, match="joins records of left and right"):
        app.topology()
    app = App("b")
    left, _ = sides(app)
    getattr(left, kind)(left, pair, within=WITHIN, value=str).to("out", origin=True)
    assert app.topology().topics_with_origins == {"out"}


def test_stores_whose_numbers_moved_are_not_taken_for_new_ones() -> None:
    def topology(*, peeked: bool) -> Topology:
        app = App("a")
        left, right = sides(app)
        if peeked:
            left = left.peek(print)
        left.join(right, pair, within=WITHIN, value=str).to("out")
        return app.topology()

    (part,) = topology(peeked=False).subtopologies
    with pytest.raises(TopologyError, match=r"JOINTHIS-0000000004-store-changelog became .*000005"):
        check_moved(topology(peeked=True), "a", part.changelog_topics)
    check_moved(topology(peeked=False), "a", part.changelog_topics)


def test_unmatched_results_are_looked_for_once_an_interval() -> None:
    """By the clock, for both sides together; the first interval begins with the first record."""
    app = App("a")
    left, right = sides(app)
    within = sl.join_windows(10, emit_interval="1s")
    left.outer_join(right, pair, within=within, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("left", "a", "l", 100)
        driver.pipe_input("right", "b", "r", 200)
        driver.advance_wall_clock(999)
        driver.pipe_input("left", "c", "l", 300)
        assert results(driver) == []
        driver.advance_wall_clock(1)
        assert results(driver) == []
        driver.pipe_input("left", "d", "l", 400)
        assert [key for key, _, _ in results(driver)] == ["a", "b", "c"]
        driver.advance_wall_clock(999)
        driver.pipe_input("right", "e", "r", 500)
        assert results(driver) == []


def test_an_interval_is_for_joins_that_send_unmatched_results() -> None:
    left, right = sides(App("a"))
    with pytest.raises(TopologyError, match="is for unmatched results"):
        left.join(right, pair, within=sl.join_windows(10, emit_interval="1s"), value=str)
