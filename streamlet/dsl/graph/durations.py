"""Lengths of time, as users give them."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

from streamlet.config.values import duration
from streamlet.errors import TopologyError
from streamlet.types import LONGEST_MS

#: What stands for a length of time.
Duration: TypeAlias = str | timedelta | int


def milliseconds(what: str, given: Duration, minimum_ms: int = 0) -> int:
    """A length of time in ms; raises ``TopologyError`` if it is none, or too long a one."""
    try:
        length = duration(minimum_ms).parse(given)
        if length > LONGEST_MS:
            raise ValueError(f"expected at most {LONGEST_MS} ms")
    except ValueError as error:
        raise TopologyError(f"{what} {given!r}: {error}") from error
    return length
