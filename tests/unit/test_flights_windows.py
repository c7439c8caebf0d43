"""Windows over real flights, in and out of order, give what pandas finds in the same data."""

from __future__ import annotations

from typing import Any

import pytest

pd = pytest.importorskip("pandas")
np = pytest.importorskip("numpy")

import streamlet as sl  # noqa: E402 - only where pandas is
from examples.flights import data  # noqa: E402
from streamlet.dsl.windowing.windows import SessionWindows, TimeWindows, Windows  # noqa: E402
from streamlet.testing import TopologyTestDriver  # noqa: E402

FLIGHTS = 20_000
BATCH = 997
#: A flight comes up to this much after another one that departs later.
DISORDER_MIN = 50
#: (airport, start, end) -> flights and mean delay.
Found = dict[tuple[str, int, int], tuple[int, float | None]]


@pytest.fixture(scope="module")
def in_order() -> Any:
    return data.load_flights(FLIGHTS)


@pytest.fixture(scope="module")
def out_of_order(in_order: Any) -> Any:
    noise_ms = np.random.default_rng(7).integers(0, DISORDER_MIN * 60_000, len(in_order))
    arrival = in_order["scheduled_ms"] + noise_ms
    return in_order.loc[arrival.sort_values(kind="stable").index].reset_index(drop=True)


def by_streamlet(flights: Any, windows: Windows, emit: Any = "updates") -> tuple[Found, int]:
    """What the output topic ends with, and how many records were late."""
    app = sl.App("delays")
    flown = app.stream("in", key=str, value=dict, timestamp=lambda k, v, t: v["at"])
    windowed = flown.group_by_key().windowed_by(windows, emit=emit)
    departed = sl.sum_(sl.col("departed"))
    delays = {"flights": sl.count(), "departed": departed, "total": sl.sum_(sl.col("delay"))}
    kept = sl.Materialized("delays", retention="1d")  # airports sleep for hours
    windowed.aggregate(delays, value=dict, store=kept).to_stream().to("out")
    records = [
        (origin, {"at": at, "delay": None if gone else int(delay), "departed": int(not gone)})
        for origin, at, delay, gone in zip(
            flights["origin"],
            flights["scheduled_ms"],
            flights["dep_delay"],
            flights["dep_delay"].isna(),
            strict=True,
        )
    ]
    last: dict[Any, Any] = {}
    with TopologyTestDriver(app) as driver:
        for first in range(0, len(records), BATCH):
            driver.pipe_inputs("in", records[first : first + BATCH])
            for update in driver.read_output("out"):
                last[tuple(update.key)] = update.value
        late = driver.late()
    found = {
        window: (
            value["flights"],
            value["total"] / value["departed"] if value["departed"] else None,
        )
        for window, value in last.items()
        if value is not None
    }
    return found, late


def of_frame(frame: Any) -> Found:
    """A row for each window, with the columns origin, start and end, and dep_delay."""
    table = frame.groupby(["origin", "start", "end"])["dep_delay"].agg(["size", "mean"])
    return {
        (str(origin), int(start), int(end)): (int(count), None if pd.isna(mean) else float(mean))
        for (origin, start, end), count, mean in table.itertuples()
    }


def in_time_windows(flights: Any, windows: TimeWindows) -> Any:
    """Each flight with each of its windows, and the stream time when it came."""
    flights = flights.assign(stream_time=flights["scheduled_ms"].cummax())
    latest = flights["scheduled_ms"] // windows.advance_ms * windows.advance_ms
    parts = [
        flights.assign(start=latest - back, end=latest - back + windows.size_ms)
        for back in range(0, windows.size_ms, windows.advance_ms)
    ]
    frame = pd.concat(parts)
    return frame[frame["end"] > frame["scheduled_ms"]]


def in_sessions(flights: Any, windows: SessionWindows) -> Any:
    """Each flight with its session, where none is late."""
    flights = flights.sort_values(["origin", "scheduled_ms"], kind="stable")
    silence = flights.groupby("origin")["scheduled_ms"].diff()
    number = (silence.isna() | (silence > windows.gap_ms)).cumsum()
    times = flights["scheduled_ms"].groupby(number)
    return flights.assign(start=times.transform("min"), end=times.transform("max"))


TIME_WINDOWS = [
    sl.tumbling("1h", grace="1h"),
    sl.hopping("3h", "1h", grace="1h"),
    sl.hopping("90m", "1h", grace="1h"),
]


@pytest.mark.parametrize("windows", TIME_WINDOWS, ids=str)
@pytest.mark.parametrize("order", ["in_order", "out_of_order"])
def test_delays_by_hour_are_those_of_pandas(
    windows: TimeWindows, order: str, request: pytest.FixtureRequest
) -> None:
    flights = request.getfixturevalue(order)
    assert by_streamlet(flights, windows) == (of_frame(in_time_windows(flights, windows)), 0)


@pytest.mark.parametrize("windows", [sl.tumbling("1h"), sl.hopping("3h", "1h", grace="5m")])
def test_flights_that_are_late_for_an_hour_are_left_out_of_it(
    windows: TimeWindows, out_of_order: Any
) -> None:
    frame = in_time_windows(out_of_order, windows)
    taken = frame["end"] + windows.grace_ms > frame["stream_time"]
    found, late = by_streamlet(out_of_order, windows)
    assert found == of_frame(frame[taken])
    assert late == (~taken).sum() > 1_000


@pytest.mark.parametrize("order", ["in_order", "out_of_order"])
def test_final_results_are_those_of_the_hours_that_closed(
    order: str, request: pytest.FixtureRequest
) -> None:
    flights = request.getfixturevalue(order)
    windows = sl.tumbling("1h", grace="1h")
    frame = in_time_windows(flights, windows)
    closed = frame["end"] + windows.grace_ms <= flights["scheduled_ms"].max()
    found, late = by_streamlet(flights, windows, "final")
    assert (found, late) == (of_frame(frame[closed]), 0)
    assert len(found) > 1_000


@pytest.mark.parametrize("gap", ["10m", "30m"])
@pytest.mark.parametrize("order", ["in_order", "out_of_order"])
def test_sessions_of_departures_are_those_of_pandas(
    gap: str, order: str, request: pytest.FixtureRequest
) -> None:
    flights = request.getfixturevalue(order)
    windows = sl.session(gap, grace="1h")
    wanted = of_frame(in_sessions(flights, windows))
    assert len(wanted) > 60
    assert by_streamlet(flights, windows) == (wanted, 0)
