"""Checks the types of what calls of the topology are given, where they are made."""

from __future__ import annotations

from typing import Any

from streamlet.errors import WrongTypeError
from streamlet.user_code import shown


def check_is(call: str, given: object, expected: tuple[type, ...], what: str) -> None:
    """Refuse an argument that is of none of these types; ``what`` says what is expected.

    Raises:
        WrongTypeError: it is of another type.
    """
    if not isinstance(given, expected) or (isinstance(given, bool) and bool not in expected):
        raise WrongTypeError(f"{call} expects {what}, got {shown(given)}")


def check_callable(call: str, given: object, what: str) -> Any:
    """The argument, if it can be called.

    Raises:
        WrongTypeError: it cannot.
    """
    if not callable(given):
        raise WrongTypeError(f"{call} expects {what}, got {shown(given)}")
    return given
