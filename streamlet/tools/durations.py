"""Durations as options of commands give them."""

from __future__ import annotations

import math
from typing import TypeVar

from streamlet.config.values import ValueKind, duration, optional
from streamlet.errors import ConfigError

T = TypeVar("T")


def duration_ms(text: str | None, option: str) -> int | None:
    """Milliseconds, of a text with a unit; None for an option that was not given.

    Raises:
        ConfigError: it is no duration.
    """
    return None if text is None else _parsed(duration(), text, option)


def timeout_ms(text: str | None, option: str = "--timeout") -> float | None:
    """Milliseconds of a time limit, or ``math.inf`` for ``infinite``, as in the settings.

    Raises:
        ConfigError: it is neither.
    """
    if text is None:
        return None
    found = limit_ms(text, option)
    return math.inf if found is None else found


def limit_ms(text: str, option: str) -> int | None:
    """Milliseconds of a time limit; None for ``infinite``. Raises as ``timeout_ms``."""
    return _parsed(optional(duration(), "infinite"), text, option)


def _parsed(kind: ValueKind[T], text: str, option: str) -> T:
    try:
        return kind.parse(text)
    except ValueError as error:
        raise ConfigError([f"{option} {text}: {error}"]) from error
