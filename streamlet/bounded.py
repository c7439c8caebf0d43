"""Bounds of numbers from outside, checked where they enter.

Bytes of a broker, a disk or another member can be any bytes. A number that is read here is within
the bounds that Kafka's formats have, or a ``ValueError``.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

#: The highest offset, and the highest of all numbers that Kafka's formats hold.
INT64_MAX = (1 << 63) - 1
INT32_MAX = (1 << 31) - 1
#: The last ms of the year 9999; a later time is no date.
TIME_MAX = 253_402_300_799_999
#: The highest number of a subtopology or a partition of an application; clusters have fewer.
TASK_NUMBER_MAX = 199_999

#: Fields of values that msgspec reads.
TimeMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX)]
Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=INT32_MAX)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-INT64_MAX, le=INT64_MAX)]


def whole(value: object, least: int = 0, most: int = INT64_MAX) -> int:
    """The whole number that a value must be.

    Raises:
        ValueError: it is none, or out of its bounds.
    """
    if type(value) is not int:
        raise ValueError(f"{str(value)[:40]!r} is no whole number")
    if not least <= value <= most:
        shown = str(value) if value.bit_length() < 100 else f"a number of {value.bit_length()} bits"
        raise ValueError(f"{shown} is not from {least} to {most}")
    return value
