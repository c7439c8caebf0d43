"""The flights as events, and what pandas makes of them."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

pd = pytest.importorskip("pandas")

from examples.flights import data, expected  # noqa: E402 - only where pandas is
from examples.flights.app import Delays, app  # noqa: E402
from streamlet.testing import TopologyTestDriver  # noqa: E402
from streamlet.topology.edges import edges_of  # noqa: E402

AIRLINES = pd.DataFrame({"carrier": ["AA", "UA"], "name": ["American", "United"]})
FLIGHTS = pd.DataFrame(
    {
        "carrier": ["UA", "UA", "AA", "UA", "??", "AA"],
        "origin": ["EWR", "JFK", "JFK", "EWR", "EWR", "JFK"],
        "dep_delay": [4.0, -2.0, None, 31.0, 7.0, None],
    }
)


def test_delays_of_an_airline_are_told_by_hand() -> None:
    assert expected.by_airline(FLIGHTS, AIRLINES) == {
        "UA": {"name": "United", "flights": 3, "cancelled": 0, "total": 33, "worst": 31},
        "AA": {"name": "American", "flights": 2, "cancelled": 2, "total": 0, "worst": None},
    }


def test_delays_of_an_airport_are_those_of_all_airlines() -> None:
    """Flights are counted by airport before the join with the airlines."""
    assert expected.by_origin(FLIGHTS) == {
        "EWR": {"name": "EWR", "flights": 3, "cancelled": 0, "total": 42, "worst": 31},
        "JFK": {"name": "JFK", "flights": 3, "cancelled": 2, "total": -2, "worst": -2},
    }


def test_hours_are_closed_by_a_later_flight_of_the_airport() -> None:
    minutes = pd.Series([0, 59, 60, 61, 60, 120])
    flights = FLIGHTS.assign(scheduled_ms=expected.HOUR_MS * 24 + minutes * 60_000)
    closed, last = expected.by_hour(flights)
    assert closed == {
        "EWR 1970-01-02 00:00": {
            "name": "EWR",
            "flights": 1,
            "cancelled": 0,
            "total": 4,
            "worst": 4,
        },
        "JFK 1970-01-02 00:00": {
            "name": "JFK",
            "flights": 1,
            "cancelled": 0,
            "total": -2,
            "worst": -2,
        },
        "JFK 1970-01-02 01:00": {
            "name": "JFK",
            "flights": 1,
            "cancelled": 1,
            "total": 0,
            "worst": None,
        },
    }
    assert last.keys() == {"EWR 1970-01-02 01:00", "JFK 1970-01-02 02:00"}


def test_the_application_finds_the_hours_that_pandas_finds() -> None:
    flights = data.load_flights(3_000)
    found = {}
    with TopologyTestDriver(app, partitions={"departures": 4}) as driver:
        for event in data.departure_events(flights):
            driver.pipe_bytes("departures", event.key.encode(), event.value, event.timestamp_ms)
        for result in driver.read_output("delays-by-hour"):
            found[expected.hour_name(*result.key[:2])] = asdict(result.value)
        assert driver.late() == 0
    closed, last = expected.by_hour(flights)
    assert len(closed) > 150
    assert closed.items() <= found.items()
    assert found.items() <= (closed | last).items()


def test_no_airport_sleeps_for_longer_than_hours_are_kept() -> None:
    """Else the first departure afterwards would drop the results that it closes."""
    flights = data.load_flights()
    silence_ms = flights.groupby("origin")["scheduled_ms"].diff().max()
    [store] = [s for part in app.topology().subtopologies for s in part.stores if s.window]
    assert store.window.retention_ms > silence_ms + expected.HOUR_MS


def test_differences_name_what_is_wrong_missing_and_too_much() -> None:
    one, two = {"flights": 1}, {"flights": 2}
    assert expected.differences("airline", {"A": one, "B": one, "C": one}, {"A": one}) == [
        "airline B: expected {'flights': 1}, got None",
        "airline C: expected {'flights': 1}, got None",
    ]
    assert expected.differences("airline", {"A": one}, {"A": two, "Z": one}) == [
        "airline A: expected {'flights': 1}, got {'flights': 2}",
        "airline Z: expected None, got {'flights': 1}",
    ]
    assert expected.differences("airline", {"A": one}, {"A": one}) == []


def test_events_of_real_flights_lead_to_what_pandas_finds() -> None:
    """The application's own folding, over the events, gives pandas' numbers."""
    flights = data.load_flights(5_000)
    by_origin: dict[str, Delays] = {}
    for event in data.flight_events(flights):
        flight = json.loads(event.value)
        origin = flight["origin"]
        before = by_origin.get(origin, Delays())
        by_origin[origin] = before.after(origin, flight["dep_delay"])
    found = {
        origin: {
            "name": delays.name,
            "flights": delays.flights,
            "cancelled": delays.cancelled,
            "total": delays.total,
            "worst": delays.worst,
        }
        for origin, delays in by_origin.items()
    }
    assert found == expected.by_origin(flights)


def test_events_are_in_order_of_departure_and_each_has_its_own_key() -> None:
    flights = data.load_flights()
    events = list(data.flight_events(flights))
    assert len(events) == 336_776
    assert len({event.key for event in events}) == len(events)
    times = [event.timestamp_ms for event in events]
    assert times == sorted(times)
    first = events[0]
    # 05:15 in New York, on the first of January 2013.
    assert (first.key, first.timestamp_ms) == ("UA1545-EWR-2013-01-01", 1_357_035_300_000)


def test_airlines_are_known_before_the_first_flight() -> None:
    events = list(data.airline_events(data.load_airlines()))
    assert len(events) == 16
    assert all(0 < event.timestamp_ms < 1_357_035_300_000 for event in events)
    assert json.loads(next(e.value for e in events if e.key == "UA")) == {
        "name": "United Air Lines Inc."
    }


def test_both_repartition_topics_are_exact() -> None:
    """The demo kills an instance, and its results must be those of pandas all the same."""
    edges = edges_of(app.topology())
    assert [(edge.topic, edge.exact) for edge in edges] == [
        ("flights-delays-by-origin-repartition", True),
        ("flights-flights-by-carrier-repartition", True),
    ]
