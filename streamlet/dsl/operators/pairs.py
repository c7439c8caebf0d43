"""Pairs of key and value that users' functions return, or that are put into a store."""

from __future__ import annotations

from typing import Any

from streamlet.lazy_results import refuse_promise
from streamlet.user_code import shown

_EXPECTED = "expected a pair (key, value)"


def plain_pair(given: Any) -> tuple[Any, Any]:
    """A pair of a record, which is a tuple: a list of two is refused.

    Raises:
        TypeError: it is none.
    """
    if type(given) is tuple and len(given) == 2:
        return given
    raise _refused(given, _EXPECTED)


def pair(given: Any, expected: str = _EXPECTED) -> Any:
    """A pair that may also be a list, or of a class of tuples; two characters of a text are none.

    Raises:
        TypeError: it is none; ``expected`` begins the message.
    """
    if is_pair(given):
        return given
    raise _refused(given, expected)


def is_pair(given: Any) -> bool:
    """True for what ``pair`` takes."""
    return isinstance(given, tuple | list) and len(given) == 2


def _refused(given: Any, expected: str) -> TypeError:
    refuse_promise(given)
    return TypeError(f"{expected}, got {shown(given)}")
