"""Departure delays by airline, by airport, and by airport and hour.

::

    flights ──┬──by carrier──> join airlines ──┬── named-flights
    airlines ─│──────────────────^             └── delays by carrier ──> delays-by-airline
              └──by origin──> delays by origin ──> delays-by-origin
    departures ──> delays by airport and hour ──> delays-by-hour

Two arrows carry records to another key, through a repartition topic each: so there are four
subtopologies, and each instance works on some partitions of each. Both begin before the join, whose
results depend on which of its two inputs is read first: so with ``repartition.exact`` all counts
are exact whatever crashes. ``named-flights`` says where its records stem from.

Behind a repartition topic records of several tasks come in any order. An instance that stops for a
second would make its flights late by eight days, at the speed of the demo. So hours are those of
``departures``, which are in the order of time for each airport, and no departure is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlet as sl


@dataclass(frozen=True)
class Flight:
    carrier: str
    flight: int
    origin: str
    dest: str
    #: Minutes after the scheduled departure, negative when early; None: the flight was cancelled.
    dep_delay: int | None


@dataclass(frozen=True)
class Departure:
    #: As ``Flight.dep_delay``.
    delay: int | None


@dataclass(frozen=True)
class NamedFlight:
    airline: str
    carrier: str
    flight: int
    origin: str
    dest: str
    dep_delay: int | None


@dataclass(frozen=True)
class Delays:
    """What is known of an airline or an airport. ``total`` and ``worst`` are minutes."""

    name: str = ""
    flights: int = 0
    cancelled: int = 0
    total: int = 0
    worst: int | None = None

    def after(self, name: str, delay: int | None) -> Delays:
        if delay is None:
            return Delays(name, self.flights + 1, self.cancelled + 1, self.total, self.worst)
        worst = delay if self.worst is None else max(self.worst, delay)
        return Delays(name, self.flights + 1, self.cancelled, self.total + delay, worst)


def name_airline(flight: Flight, airline: dict[str, Any]) -> NamedFlight:
    return NamedFlight(
        airline["name"],
        flight.carrier,
        flight.flight,
        flight.origin,
        flight.dest,
        flight.dep_delay,
    )


app = sl.App("flights")

airlines = app.table("airlines", key=str, value=dict, store="airlines")

flights = app.stream("flights", key=str, value=Flight)

named = (
    flights.select_key(lambda _, flight: flight.carrier)
    .repartition(name="flights-by-carrier")
    .join(airlines, name_airline)
)
named.to("named-flights", origin=True)

by_airline = named.group_by_key().aggregate(
    Delays,
    lambda carrier, flight, delays: delays.after(flight.airline, flight.dep_delay),
    store="delays-by-airline",
)
by_airline.to_stream().to("delays-by-airline")

by_origin = flights.group_by(lambda _, flight: flight.origin).aggregate(
    Delays,
    lambda origin, flight, delays: delays.after(origin, flight.dep_delay),
    store="delays-by-origin",
)
by_origin.to_stream().to("delays-by-origin")

departures = app.stream("departures", key=str, value=Departure)

# A result is sent with the first departure of another hour. The store keeps hours for longer than
# an airport sleeps, or results would be dropped with that departure before they were sent.
by_hour = (
    departures.group_by_key()
    .windowed_by(sl.tumbling("1h"), emit="final")
    .aggregate(
        Delays,
        lambda airport, departure, delays: delays.after(airport, departure.delay),
        store=sl.Materialized("delays-by-hour", retention="7d"),
    )
)
by_hour.to_stream().to("delays-by-hour", key=sl.windowed_json(str))
