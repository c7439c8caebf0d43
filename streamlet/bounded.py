"""JSON and numbers from outside: read in one way, with bounds, where they enter.

Bytes of a broker, a disk or another member can be any bytes. What is read here is plain values
within the bounds that Kafka's formats have, or a ``ValueError``, and never another exception.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, TypeAlias

import msgspec

#: The highest offset, and the highest of all numbers that Kafka's formats hold.
INT64_MAX = (1 << 63) - 1
INT32_MAX = (1 << 31) - 1
UINT32_MAX = (1 << 32) - 1
#: The last ms of the year 9999; a later time is no date.
TIME_MAX = 253_402_300_799_999
#: The highest number of a subtopology or a partition of an application; clusters have fewer.
TASK_NUMBER_MAX = 199_999

#: Fields of values that msgspec reads.
TimeMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX)]
Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=INT32_MAX)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-INT64_MAX, le=INT64_MAX)]


def read_json(raw: str | bytes) -> Any:
    """Read a JSON document.

    Raises:
        ValueError: it is no JSON, no UTF-8, nests too deeply, or has a number of too many digits.
    """
    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError("it nests too deeply") from error


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


def partition_of(text: str) -> int:
    """The number of a partition, written as text.

    Raises:
        ValueError: it is no number, or none of a partition.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise ValueError(f"{text[:40]!r} is no partition")
    return whole(int(text), 0, INT32_MAX)


def positive(value: float) -> float:
    """A finite number above zero.

    Raises:
        ValueError: it is none.
    """
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{value} is not finite and above zero")
    return value
