"""What the application must find, worked out by pandas from the same data."""

from __future__ import annotations

from typing import Any

import pandas as pd

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
