"""What the application must find, worked out by pandas from the same data."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pandas as pd

HOUR_MS = 3_600_000
_HOUR = "%Y-%m-%d %H:%M"

#: Key -> the value that the output topic must end with.
Results = dict[str, dict[str, Any]]


def by_airline(flights: pd.DataFrame, airlines: pd.DataFrame) -> Results:
    """The last value per key of ``delays-by-airline``.

    A flight of an unknown airline is not in it.
    """
    named = flights.merge(airlines, on="carrier", how="inner")
    return _delays(named, "carrier", named.groupby("carrier")["name"].first().to_dict())


def by_origin(flights: pd.DataFrame) -> Results:
    """The last value per key of ``delays-by-origin``."""
    return _delays(flights, "origin", {origin: origin for origin in flights["origin"].unique()})


def by_hour(flights: pd.DataFrame) -> tuple[Results, Results]:
    """The values of ``delays-by-hour``: those that must be there, and those that may.

    The latter are of the last hour of each airport. Only a later flight closes it, of another
    airport whose departures are in the same partition.
    """
    hours = pd.to_datetime(flights["scheduled_ms"] // HOUR_MS * HOUR_MS, unit="ms")
    keys = flights["origin"] + hours.dt.strftime(f" {_HOUR}")
    names = dict(zip(keys, flights["origin"], strict=True))
    last = set(keys.groupby(flights["origin"]).max())
    found = _delays(flights.assign(hour=keys), "hour", names)
    return (
        {key: delays for key, delays in found.items() if key not in last},
        {key: found[key] for key in last},
    )


def hour_name(airport: str, start_ms: int) -> str:
    """``EWR 2013-01-01 05:00``: the key of an hour in results, UTC."""
    return f"{airport} {datetime.fromtimestamp(start_ms / 1000, UTC):{_HOUR}}"


def all_differences(
    results: dict[str, Results], flights: pd.DataFrame, airlines: pd.DataFrame
) -> list[str]:
    """``differences`` of all topics with results."""
    closed, last = by_hour(flights)
    hours = results["delays-by-hour"]
    closed |= {key: delays for key, delays in last.items() if key in hours}
    return [
        *differences("airline", by_airline(flights, airlines), results["delays-by-airline"]),
        *differences("origin", by_origin(flights), results["delays-by-origin"]),
        *differences("hour", closed, hours),
    ]


def differences(title: str, expected: Results, got: Results) -> list[str]:
    """A line for every key whose value is another one, missing, or not expected."""
    return [
        f"{title} {key}: expected {expected.get(key)}, got {got.get(key)}"
        for key in sorted(expected.keys() | got.keys())
        if expected.get(key) != got.get(key)
    ]


def _delays(flights: pd.DataFrame, column: str, names: dict[str, str]) -> Results:
    table = flights.groupby(column)["dep_delay"].agg(["size", "count", "sum", "max"])
    return {
        str(key): {
            "name": names[key],
            "flights": int(row["size"]),
            "cancelled": int(row["size"] - row["count"]),
            "total": int(row["sum"]),
            "worst": None if pd.isna(row["max"]) else int(row["max"]),
        }
        for key, row in table.iterrows()
    }
