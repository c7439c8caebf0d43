"""Windows of a calendar and of a function: which there are, and that each fold takes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.errors import ProcessingError, SerdeError, TopologyError
from streamlet.testing import TopologyTestDriver
from tests.shares import share_of

HOUR = 3_600_000
DAY = 24 * HOUR


def ms(text: str) -> int:
    """A time in ISO 8601, ms since the epoch."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def text_of(time: int, tz: str) -> str:
    """What clocks show at a time."""
    return datetime.fromtimestamp(time / 1000, ZoneInfo(tz)).strftime("%Y-%m-%d %H:%M")


# Calendars.


@pytest.mark.parametrize(
    ("size", "tz", "offset", "time", "start", "hours"),
    [
        ("1d", "Europe/Berlin", 0, "2026-03-29T00:00:00+00:00", "2026-03-29 00:00", 23),
        ("1d", "Europe/Berlin", 0, "2026-10-25T00:00:00+00:00", "2026-10-25 00:00", 25),
        ("1d", "Europe/Berlin", "18h", "2026-03-29T00:00:00+00:00", "2026-03-28 18:00", 23),
        ("1d", "Europe/Berlin", "18h", "2026-03-28T16:59:59+00:00", "2026-03-27 18:00", 24),
        # 02:30 is not shown on this day, and shown twice on the other.
        ("1d", "Europe/Berlin", "150m", "2026-03-29T12:00:00+00:00", "2026-03-29 03:30", 23),
        ("1d", "Europe/Berlin", "150m", "2026-10-25T12:00:00+00:00", "2026-10-25 02:30", 25),
        ("1d", "Europe/Berlin", "150m", "2026-03-29T01:10:00+00:00", "2026-03-28 02:30", 24),
        ("1d", "Europe/Berlin", "150m", "2026-10-25T01:10:00+00:00", "2026-10-25 02:30", 25),
        # Clocks go from 24:00 to 01:00, so this day begins at 01:00.
        ("1d", "America/Sao_Paulo", 0, "2018-11-04T12:00:00+00:00", "2018-11-04 01:00", 23),
        # The whole of December 30th is left out.
        ("1d", "Pacific/Apia", 0, "2011-12-30T09:59:59+00:00", "2011-12-29 00:00", 24),
        ("1d", "Pacific/Apia", 0, "2011-12-30T10:00:00+00:00", "2011-12-31 00:00", 24),
        ("1w", "UTC", 0, "2026-11-26T00:00:00+00:00", "2026-11-23 00:00", 7 * 24),
        (
            "1w",
            "America/New_York",
            "9h",
            "2026-11-02T13:59:00+00:00",
            "2026-10-26 09:00",
            7 * 24 + 1,
        ),
        ("1mo", "UTC", 0, "2024-02-29T23:59:59+00:00", "2024-02-01 00:00", 29 * 24),
        ("3mo", "Asia/Tokyo", 0, "2026-06-30T15:00:00+00:00", "2026-07-01 00:00", 92 * 24),
        ("1mo", "UTC", "1d", "2026-03-01T12:00:00+00:00", "2026-02-02 00:00", 28 * 24),
        ("1y", "Europe/London", 0, "2024-06-01T00:00:00+00:00", "2024-01-01 00:00", 366 * 24),
        ("1d", "America/New_York", 0, "1970-01-01T00:00:00+00:00", "1969-12-31 19:00", 5),
    ],
)
def test_a_window_begins_by_the_clock_of_its_zone(
    size: str, tz: str, offset: Any, time: str, start: str, hours: int
) -> None:
    windows = sl.calendar(size, tz=tz, offset=offset)
    ((begin, end),) = windows.at(ms(time))
    assert (text_of(begin, tz), (end - begin) / HOUR) == (start, hours)


ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia"]


@settings(max_examples=share_of(100), deadline=None)
@given(
    st.sampled_from(["1d", "2d", "1w", "1mo", "5mo", "1y"]),
    st.sampled_from(ZONES),
    st.integers(0, 23 * 60),
    st.integers(0, 4 * 10**12),
)
def test_calendar_windows_lie_one_behind_the_other(
    size: str, tz: str, minutes: int, time: int
) -> None:
    windows = sl.calendar(size, tz=tz, offset=timedelta(minutes=minutes))
    ((start, end),) = windows.at(time)
    assert start <= time < end <= start + windows.max_size_ms
    fresh = sl.calendar(size, tz=tz, offset=timedelta(minutes=minutes))
    assert fresh.at(end - 1) == fresh.at(start) == ((start, end),)
    assert fresh.at(end)[0][0] == end
    assert windows.ends([start]) == [end]
    assert windows.last_closed(time) == start - 1
    assert windows.last_closed(end) == end - 1
    local = datetime.fromtimestamp(start / 1000, ZoneInfo(tz))
    wanted = local.replace(hour=minutes // 60, minute=minutes % 60)
    shown = wanted.astimezone(UTC).astimezone(ZoneInfo(tz)).replace(tzinfo=None)
    if start > 0 and shown == wanted.replace(tzinfo=None):  # clocks show that time at all
        assert (local.hour, local.minute) == (wanted.hour, wanted.minute)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sl.calendar("1h", tz="UTC"), "a number and a unit"),
        (lambda: sl.calendar("0d", tz="UTC"), "a number and a unit"),
        (lambda: sl.calendar(DAY, tz="UTC"), r"size=\) expects text"),  # type: ignore[arg-type]
        (lambda: sl.calendar("1d", tz="Europe/Nowhere"), "no such time zone"),
        (lambda: sl.calendar("1d", tz=None), "the name of a time zone"),  # type: ignore[arg-type]
        (lambda: sl.calendar("1d", tz="UTC", offset="24h"), "less than 1 days"),
        (lambda: sl.calendar("1d", tz="UTC", grace="soon"), "grace"),
        (lambda: sl.custom_windows("", lambda time: [], max_size="1h"), "expected a text"),
        (lambda: sl.custom_windows("w", lambda: [], max_size="1h"), "takes"),  # type: ignore[arg-type, misc]
        (lambda: sl.custom_windows("w", lambda time: [], max_size=0), "max_size"),
    ],
)
def test_what_is_no_definition_is_refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        build()


# Folds.


def stream_in(app: sl.App) -> Any:
    """A stream whose values tell the times of their records, so that one batch has many times."""
    stream = app.stream("in", key=str, value=int, timestamp=lambda key, value, time: value // 10)
    return stream.map_values(lambda value: value % 10, value=int)


def piped(app: sl.App, records: list[tuple[str, int, int]], together: bool) -> TopologyTestDriver:
    """A driver that was given records, in one batch or one by one."""
    driver = TopologyTestDriver(app)
    given_ = [(key, time * 10 + value) for key, value, time in records]
    for batch in [given_] if together else [[one] for one in given_]:
        driver.pipe_inputs("in", batch)
    return driver


def outputs(driver: TopologyTestDriver, topic: str = "out") -> list[tuple[Any, Any, int]]:
    return [(one.key, one.value, one.timestamp) for one in driver.read_output(topic)]


def hopping_of(size: int, advance: int) -> Callable[[int], list[tuple[int, int]]]:
    """Hopping windows as a function of one's own."""

    def windows_for(time: int) -> list[tuple[int, int]]:
        first = max(0, time - size + advance) // advance * advance
        return [(start, start + size) for start in range(first, time + 1, advance)]

    return windows_for


FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "count": lambda grouped, windows: grouped.windowed_by(windows).count(store="s"),
    "reduce": lambda grouped, windows: grouped.windowed_by(windows).reduce(max, store="s"),
    "aggregate": lambda grouped, windows: grouped.windowed_by(windows).aggregate(
        list, lambda key, value, seen: [*seen, value], value=list, store="s"
    ),
    "final": lambda grouped, windows: grouped.windowed_by(windows, emit="final").count(
        store=sl.Materialized("s", retention="1h")
    ),
    "on commit": lambda grouped, windows: grouped.windowed_by(windows, emit="on_commit").count(
        store="s"
    ),
    "suppress": lambda grouped, windows: (
        grouped.windowed_by(windows).count(store="s").suppress(sl.until_window_closes())
    ),
    "cogroup": lambda grouped, windows: (
        grouped.cogroup(lambda key, value, sum: sum + value)
        .windowed_by(windows)
        .aggregate(int, store="s")
    ),
    "joined": lambda grouped, windows: (
        table := grouped.windowed_by(windows).count().to_stream().to_table(store="s")
    ).join(
        table.map_values(lambda count: -count, value=int, store="t"),
        lambda one, other: (one, other),
        value=tuple,
    ),
}


@pytest.mark.parametrize("fold", FOLDS)
@settings(max_examples=share_of(12), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.integers(0, 300)), max_size=25),
    st.sampled_from([(20, 20, 0), (20, 20, 15), (30, 10, 5)]),
    st.booleans(),
)
def test_a_function_that_gives_hopping_windows_gives_their_results(
    fold: str, records: list[Any], shape: tuple[int, int, int], together: bool
) -> None:
    size, advance, grace = shape
    shown = []
    for windows in (
        sl.hopping(size, advance, grace=grace),
        sl.custom_windows("mine", hopping_of(size, advance), max_size=size, grace=grace),
    ):
        app = sl.App("a")
        FOLDS[fold](stream_in(app).group_by_key(), windows).to_stream().to("out")
        with piped(app, records, together) as driver:
            shown.append((outputs(driver), driver.late()))
    assert shown[0] == shown[1]


def test_days_of_a_zone_are_counted_fetched_and_expire() -> None:
    app = sl.App("a")
    days = sl.calendar("1d", tz="Europe/Berlin")
    orders = app.stream("in", key=str, value=int).group_by_key()
    orders.windowed_by(days).count(store="c").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        for day in ("2026-03-28", "2026-03-29", "2026-03-30"):
            driver.pipe_input("in", "k", 1, ms(f"{day}T12:00:00+02:00"))
        keys = [record.key for record in driver.read_output("out")]
        assert [key.end - key.start for key in keys] == [24 * HOUR, 23 * HOUR, 24 * HOUR]
        assert driver.store("c").fetch("k", ms("2026-03-29T00:00:00+01:00")) == 1
        assert [key for key, _ in driver.store("c").all()] == keys[1:]  # retention: 28 h
        driver.pipe_input("in", "k", 1, ms("2026-03-28T13:00:00+01:00"))
        assert driver.late() == 1


def test_a_topic_of_windowed_keys_is_read_with_their_ends() -> None:
    days = sl.calendar("1d", tz="Europe/Berlin")
    start, key = ms("2026-03-29T00:00:00+01:00"), days.serde(str)
    window = sl.Windowed("k", start, start + 23 * HOUR)
    assert key.decode(key.encode(window)) == window
    with pytest.raises(SerdeError, match="no window begins at"):
        key.decode(key.encode(sl.Windowed("k", start + 1, start + 2)))


BAD: dict[str, tuple[Any, str]] = {
    "none": (None, "expected pairs"),
    "a number": ([5], "expected pairs"),
    "texts": ([("0", "100")], "is not of two numbers"),
    "before": ([(0, 5)], "does not hold it"),
    "behind": ([(50, 90)], "does not hold it"),
    "too long": ([(0, 1000)], "longer than max_size"),
    "before the epoch": ([(-5, 50)], "before the epoch"),
    "one start": ([(0, 50), (0, 60)], "have one start"),
    "without an end": (((n, 60) for n in count(-1_000)), "more than 1000 windows"),
    "not of its start": ([(5, 65)], "not of its own start"),
}


@pytest.mark.parametrize("emit", ["updates", "final"])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("what", [*BAD, "an exception", "an exit"])
def test_bad_windows_are_refused_at_their_record(what: str, together: bool, emit: Any) -> None:
    def windows_for(time: int) -> Any:
        if time != 10:
            return [(time // 50 * 50, time // 50 * 50 + 50)]
        if what == "an exception":
            raise RuntimeError("of the function")
        if what == "an exit":
            raise SystemExit(3)
        return BAD[what][0]

    app = sl.App("a", on_error="skip")
    windows = sl.custom_windows("mine", windows_for, max_size=100)
    counted = stream_in(app).group_by_key().windowed_by(windows, emit=emit)
    counted.count(store=sl.Materialized("s", retention=1_000)).to_stream().to("out")
    records = [("k", 1, 9), ("k", 1, 10), ("k", 1, 11), ("k", 1, 60)]
    with piped(app, records, together) as driver:
        assert driver.skipped() == 1
        found = [(key.start, count) for key, count, _ in outputs(driver)]
        assert found == ([(0, 1), (0, 2), (50, 1)] if emit == "updates" else [(0, 2)])


@pytest.mark.parametrize("what", BAD)
def test_each_error_says_what_is_wrong(what: str) -> None:
    given_, message = BAD[what]

    def windows_for(time: int) -> Any:
        return [(5, 70)] if what == "not of its start" and time != 10 else given_

    windows = sl.custom_windows("mine", windows_for, max_size=100)
    with pytest.raises(ValueError, match=message):
        windows.at(10)


def test_the_error_names_the_windows_and_the_time() -> None:
    app = sl.App("a")
    windows = sl.custom_windows("shifts", lambda time: [(0, 5)], max_size="8h")
    app.stream("in", key=str, value=int).group_by_key().windowed_by(windows).count()
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(ProcessingError, match=r"custom shifts: window \(0, 5\) of the time 7"),
    ):
        driver.pipe_input("in", "k", 1, 7)


def test_records_in_no_window_are_left_out_and_windows_may_differ_in_size() -> None:
    def opening_hours(time: int) -> list[tuple[int, int]]:
        """From 8 to 18, with the first two hours once more; closed at night."""
        day, hour = divmod(time, DAY)
        start = day * DAY + 8 * HOUR
        whole = [(start, start + 10 * HOUR)] if 8 * HOUR <= hour < 18 * HOUR else []
        late = day * DAY + 16 * HOUR
        return [*whole, (late, late + 2 * HOUR)] if 16 * HOUR <= hour < 18 * HOUR else whole

    app = sl.App("a")
    windows = sl.custom_windows("hours", opening_hours, max_size="10h")
    grouped = app.stream("in", key=str, value=int).group_by_key()
    grouped.windowed_by(windows, emit="final").count().to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        for hour in (7, 9, 16, 17, 19, 33):
            driver.pipe_input("in", "k", 1, hour * HOUR)
        found = [(k.start // HOUR, k.end // HOUR, n) for k, n, _ in outputs(driver)]
    assert found == [(8, 18, 3), (16, 18, 2)]
