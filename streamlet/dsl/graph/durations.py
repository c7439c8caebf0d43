"""Lengths of time, as users give them."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

from streamlet.config.values import duration
from streamlet.errors import TopologyError
from streamlet.logs import get_logger
from streamlet.types import LONGEST_MS
from streamlet.user_code import shown

log = get_logger(__name__)

#: What stands for a length of time.
Duration: TypeAlias = str | timedelta | int

#: A length that bears no unit and is below this looks like a number of seconds, ms.
_SHORT_MS = 1000


def window_ms(what: str, given: Duration, minimum_ms: int = 1) -> int:
    """The length of a window or a wait in ms, with a warning if it was probably meant in seconds.

    That is one of less than a second without a unit: ``60`` and ``"60"`` are 60 ms.

    Raises:
        TopologyError: it is no length of time, or too long a one.
    """
    length = milliseconds(what, given, minimum_ms)
    bare = isinstance(given, int) or (isinstance(given, str) and given.strip().isdigit())
    if bare and 0 < length < _SHORT_MS:
        log.warning(
            "%s %r is %d milliseconds; write '%ds' for seconds, or '%dms' if that is meant",
            *(what, given, length, length, length),
        )
    return length


def milliseconds(what: str, given: Duration, minimum_ms: int = 0) -> int:
    """A length of time in ms; raises ``TopologyError`` if it is none, or too long a one."""
    try:
        length = duration(minimum_ms).parse(given)
        if length > LONGEST_MS:
            raise ValueError(f"expected at most {LONGEST_MS} ms")
    except ValueError as error:
        raise TopologyError(f"{what} {shown(given)}: {error}") from error
    return length
