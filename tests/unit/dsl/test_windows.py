"""Folds of windows: what users may give, what goes out, and what fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

import streamlet as sl
from streamlet.dsl.windowed import WindowedKStream
from streamlet.dsl.windowing.windows import Windows
from streamlet.errors import TopologyError
from streamlet.testing.driver import TopologyTestDriver
from streamlet.topology.describe import as_json
from tests.unit.inside import inside

ALL: list[Windows] = [
    sl.tumbling(100),
    sl.hopping(100, 50),
    sl.sliding(50),
    sl.session(50),
    sl.unlimited(),
]
names = [windows.format for windows in ALL]


def windowed(app: sl.App, windows: Windows) -> WindowedKStream[str, int]:
    """Records whose values are their times."""
    stream = app.stream("in", key=str, value=int, timestamp=lambda k, v, t: t if v is None else v)
    return stream.group_by_key().windowed_by(windows)


def outputs(driver: TopologyTestDriver) -> list[tuple[Any, Any, int]]:
    return [(record.key, record.value, record.timestamp) for record in driver.read_output("out")]


Build = Callable[[WindowedKStream[str, int]], sl.KTable[Any, Any]]


def through(windows: Windows, build: Build, records: list[tuple[str | None, int | None]]) -> Any:
    """The updates when the records are piped in as one batch, and the same one by one."""
    found = []
    for at_once in (True, False):
        app = sl.App("a", on_error="skip")
        build(windowed(app, windows)).to_stream().to("out")
        with TopologyTestDriver(app, start_ms=0) as driver:
            for chunk in [records] if at_once else [[record] for record in records]:
                driver.pipe_inputs("in", chunk)
            counters = driver.dropped(), driver.late(), driver.skipped()
            found.append((outputs(driver), counters, list(inside(driver, "w").range())))
            inside(driver, "w").commits.check_invariants()
    assert found[0] == found[1]
    return found[0]


def test_durations_are_text_timedeltas_or_milliseconds() -> None:
    assert sl.tumbling("5m") == sl.tumbling(timedelta(minutes=5)) == sl.tumbling(300_000)
    assert sl.tumbling("1h", grace="30s").grace_ms == 30_000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sl.tumbling("5 parsecs"), r"tumbling\(size=\) '5 parsecs': expected"),
        (lambda: sl.tumbling(0), r"tumbling\(size=\) 0: expected at least 1 ms"),
        (lambda: sl.tumbling("1m", grace=-1), r"tumbling\(grace=\) -1: expected"),
        (lambda: sl.hopping(100, 101), "an advance of 101 ms is longer than windows of 100 ms"),
        (lambda: sl.hopping(100, 0), r"hopping\(advance=\) 0: expected at least 1 ms"),
        (lambda: sl.session(0), r"session\(gap=\) 0: expected at least 1 ms"),
    ],
)
def test_windows_that_cannot_be_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        make()


@pytest.mark.parametrize("windows", ALL, ids=names)
def test_records_without_a_value_count_but_in_sliding_windows(windows: Windows) -> None:
    records: list[tuple[str | None, int | None]] = [("a", None), (None, 3), ("a", 5)]
    updates, counters, _ = through(windows, lambda w: w.count(store="w"), records)
    sliding = windows.format.startswith("sliding")
    assert updates[-1][1] == (1 if sliding else 2)
    assert counters == (2 if sliding else 1, 0, 0)


def test_a_record_with_no_key_does_not_move_stream_time() -> None:
    records: list[tuple[str | None, int | None]] = [("a", 10), (None, 500), ("a", 20)]
    updates, _, _ = through(sl.tumbling(100), lambda w: w.count(store="w"), records)
    assert [value for _, value, _ in updates] == [1, 2]


def test_a_record_before_an_unlimited_window_is_left_out() -> None:
    records: list[tuple[str | None, int | None]] = [("a", 49), ("a", 50), ("a", 10), ("a", 99)]
    updates, counters, _ = through(sl.unlimited(50), lambda w: w.count(store="w"), records)
    end = 2**63 - 1
    assert updates == [(("a", 50, end), 1, 50), (("a", 50, end), 2, 99)]
    assert counters == (0, 0, 0)


def test_the_time_of_an_update_is_the_highest_in_its_window() -> None:
    records: list[tuple[str | None, int | None]] = [("a", 30), ("a", 10), ("b", 20), ("a", 40)]
    updates, _, _ = through(sl.tumbling(100), lambda w: w.count(store="w"), records)
    assert [time for _, _, time in updates] == [30, 30, 20, 40]


def test_a_late_record_counts_in_those_of_its_windows_that_are_open() -> None:
    records: list[tuple[str | None, int | None]] = [("a", 120), ("a", 60), ("a", 40)]
    updates, counters, _ = through(sl.hopping(100, 50), lambda w: w.count(store="w"), records)
    assert [(k.start, n) for k, n, _ in updates] == [(50, 1), (100, 1), (50, 2)]
    assert counters == (0, 2, 0)


def test_tables_of_windows_have_operators_that_see_previous_values() -> None:
    app = sl.App("a")
    counts = windowed(app, sl.tumbling(100)).count(store="w")
    counts.filter(lambda window, n: n % 2 == 1).map_values(lambda n: -n, value=int).to_stream().to(
        "out"
    )
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_inputs("in", [("a", 1), ("a", 2), ("a", 3), ("b", 4)])
        assert [value for _, value, _ in outputs(driver)] == [-1, None, -3, -1]


@dataclass
class Times:
    """An aggregate that its aggregator changes in place."""

    times: list[int] = field(default_factory=list)

    def add(self, time: int) -> Times:
        self.times.append(time)
        return self


def collected(stream: WindowedKStream[str, int]) -> sl.KTable[Any, Times]:
    def merged(key: str, one: Times, other: Times) -> Times:
        one.times += other.times
        return one

    sessions = merged if stream._windows.format.startswith("session") else None
    return stream.aggregate(Times, lambda k, v, x: x.add(v), sessions, store="w")


@pytest.mark.parametrize("windows", ALL, ids=names)
def test_an_aggregate_that_changes_in_place_was_sent_as_it_was_then(windows: Windows) -> None:
    records: list[tuple[str | None, int | None]] = [("a", 60), ("a", 75), ("a", 90)]
    updates, _, rows = through(windows, collected, records)
    sizes = [len(value.times) for _, value, _ in updates if value is not None]
    assert sizes[-1] == 3
    assert max(len(value.times) for _, value in rows) == 3
    seen: set[int] = set()
    for _, value, _ in updates:
        assert value is None or id(value.times) not in seen
        seen.add(id(value and value.times))


@pytest.mark.parametrize("windows", ALL, ids=names)
def test_a_record_whose_aggregator_fails_changes_nothing_but_stream_time(windows: Windows) -> None:
    def failing(k: str, v: int, x: int) -> int:
        if v % 10:
            raise ValueError("no tens")
        return x + v

    def build(stream: WindowedKStream[str, int]) -> sl.KTable[Any, int]:
        sessions = windows.format.startswith("session")
        merger = (lambda k, a, b: a + b) if sessions else None
        return stream.aggregate(int, failing, merger, store="w")

    records: list[tuple[str | None, int | None]] = [("a", 60), ("a", 75), ("b", 81), ("a", 90)]
    _, counters, rows = through(windows, build, records)
    assert counters == (0, 0, 2)
    assert max(value for _, value in rows) == 150
    late = [*records, ("a", 100_001), ("a", 70)]
    _, counters, _ = through(windows, build, late)
    unlimited = windows.format.startswith("unlimited")
    assert (counters[1] > 0) is not unlimited


@pytest.mark.parametrize("windows", ALL, ids=names)
def test_a_result_none_deletes_the_window(windows: Windows) -> None:
    def build(stream: WindowedKStream[str, int]) -> sl.KTable[Any, int]:
        return stream.reduce(lambda x, v: None, store="w")

    updates, _, rows = through(windows, build, [("a", 60), ("a", 60)])
    values = [value for _, value, _ in updates]
    assert values[0] == 60
    assert values[-1] is None
    assert rows == []


def test_an_aggregate_of_the_wrong_type_is_that_records_failure() -> None:
    def build(stream: WindowedKStream[str, int]) -> sl.KTable[Any, int]:
        wrong: Any = lambda k, v, x: "many" if v == 2 else v  # noqa: E731
        return stream.aggregate(int, wrong, value=int, store="w")

    updates, counters, _ = through(sl.tumbling(100), build, [("a", 1), ("a", 2), ("a", 3)])
    assert [value for _, value, _ in updates] == [1, 3]
    assert counters == (0, 0, 1)


@pytest.mark.parametrize("windows", ALL, ids=names)
def test_expressions_aggregate_windows_and_merge_sessions(windows: Windows) -> None:
    wanted = {"n": sl.count(), "sum": sl.sum_(sl.value()), "min": sl.min_(sl.value())}

    def build(stream: WindowedKStream[str, int]) -> sl.KTable[Any, Any]:
        return stream.aggregate({**wanted, "max": sl.max_(sl.value())}, store="w")

    _, _, rows = through(windows, build, [("a", 10), ("a", 20), ("a", 30)])
    assert {"n": 3, "sum": 60, "min": 10, "max": 30} in [value for _, value in rows]


def test_a_merger_is_for_sessions_and_sessions_need_one() -> None:
    add: Any = lambda k, v, x: x + v  # noqa: E731
    with pytest.raises(TopologyError, match="sessions merge, so it needs a merger"):
        windowed(sl.App("a"), sl.session(10)).aggregate(int, add)
    with pytest.raises(TopologyError, match="only sessions merge"):
        windowed(sl.App("a"), sl.tumbling(10)).aggregate(int, add, lambda k, a, b: a + b)


def test_a_retention_is_for_windows_and_not_shorter_than_they_take_records() -> None:
    app = sl.App("a")
    stream = windowed(app, sl.tumbling(100, grace=50))
    with pytest.raises(TopologyError, match="149 ms is too short: these windows take records for"):
        stream.count(store=sl.Materialized("w", retention=149))
    with pytest.raises(TopologyError, match=r"retention=\) 'long': expected"):
        stream.count(store=sl.Materialized("w", retention="long"))
    with pytest.raises(TopologyError, match="only a store of windows has a retention"):
        app.table("t", key=str, value=str, store=sl.Materialized("t", retention="1d"))


def test_a_store_shows_windows_for_its_retention() -> None:
    app = sl.App("a")
    windowed(app, sl.tumbling(100)).count(store=sl.Materialized("w", retention=300))
    with TopologyTestDriver(app, start_ms=0) as driver:
        for time in (50, 150, 320):
            driver.pipe_input("in", "a", time)
        assert [window.start for window, _ in driver.store("w").all()] == [100, 300]


def test_description_and_hash_have_window_grace_and_retention() -> None:
    def described(windows: Windows, retention: str | None = None) -> tuple[Any, bytes]:
        app = sl.App("a")
        windowed(app, windows).count(store=sl.Materialized("w", retention=retention))
        topology = app.topology()
        (store,) = as_json(topology)["subtopologies"][0]["stores"]
        return store, topology.subtopologies[0].hash

    store, _ = described(sl.hopping("1m", "20s", grace="5s"))
    assert store["windows"] == "hopping 60000 ms by 20000 ms"
    assert (store["grace_ms"], store["retention_ms"]) == (5_000, 65_000)
    assert store["key"] == "hopping 60000 ms by 20000 ms of str"
    variants = [
        described(sl.tumbling("1m")),
        described(sl.tumbling("2m")),
        described(sl.tumbling("1m", grace="1s")),
        described(sl.tumbling("1m"), "1h"),
        described(sl.session("1m")),
    ]
    assert len({found for _, found in variants}) == len(variants)


def test_windowed_keys_are_regrouped_and_read_again() -> None:
    app = sl.App("a")
    counts = windowed(app, sl.tumbling(100)).count(store="w").to_stream()
    per_start = counts.group_by(lambda window, n: window.start, key=int)
    per_start.reduce(lambda one, two: one + two, store="sums").to_stream().to("sums")
    counts.repartition(name="again").to("out", key=sl.windowed_json(str))
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_inputs("in", [("a", 110), ("b", 120)])
        assert [(r.key, r.value) for r in driver.read_output("sums")] == [(100, 1), (100, 2)]
        (first, _) = driver.read_output("out", key=bytes)
        assert first.key == b'{"key":"a","start":100,"end":200}'
