"""The bytes of a store's row: its timestamp, then its value.

The time is eight bytes, highest first, of the milliseconds plus one, so that rows compare by their
times. They are the same on the medium and in the changelog. An aggregate's time is the highest of
its records; while times rise no row's own is looked up, since none is younger than the store's
``latest``, which is kept beside the positions.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import attrs

from streamlet.columnwise import timed_values

#: What stands for the time of a row without one. ms.
NO_TIME = -1
TIME_BYTES = 8
#: The time of a row with headers (``state.headed_rows``) reads as this one, ms, or a later one.
HEADED_TIME = (1 << 63) - 1

#: What stands for the time of a row without one.
UNTIMED = bytes(TIME_BYTES)


def rows_of(values: Sequence[bytes | None], times: Collection[int]) -> list[bytes | None]:
    """The values with their times (ms) in front; None stays None."""
    return timed_values(list(values), list(times), 1)


def untimed(values: Iterable[bytes | None]) -> list[bytes | None]:
    """Rows without a time, of values that an earlier version of streamlet kept."""
    return [None if value is None else UNTIMED + value for value in values]


def time_of_row(row: bytes) -> int:
    """The time of a row, ms; -1 if it has none."""
    return int.from_bytes(row[:TIME_BYTES], "big") - 1


def times_of_rows(rows: Iterable[bytes]) -> list[int]:
    """The times of rows, ms; -1 of those that have none."""
    heads = b"".join([row[:TIME_BYTES] for row in rows])
    return [time - 1 for time in struct.unpack(f">{len(heads) // TIME_BYTES}Q", heads)]


def latest_of(rows: Iterable[bytes | None]) -> int:
    """The time of the youngest of these rows, ms; -1 where there is none."""
    return time_of_row(max(filter(None, rows), default=UNTIMED))


@attrs.frozen
class Changes:
    """Rows that the next commit writes, in columns.

    A value None is a row that is deleted or was not there. ``olds`` are the values as of the last
    commit, None if they were not asked for.
    """

    keys: list[Any]
    values: list[Any]
    olds: list[Any] | None
    times: list[int]
