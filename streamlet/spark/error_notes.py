"""Notes that errors bear where they leave code of ours in a Python process of Spark's.

A Python worker sends Spark the text of its traceback, in which anything may stand that a user's
error or record has. Python prints a note last, behind all of that: a line of JSON with the type and
the text of the error, so that the driver need not go by what the rest says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from streamlet import errors
from streamlet.bounded import parsed
from streamlet.user_code import text_of

P = ParamSpec("P")
T = TypeVar("T")

#: How a note begins.
_NOTE = "streamlet reports: "


def reported(call: Callable[P, T]) -> Callable[P, T]:
    """A function that Spark calls in a Python process: errors leave it with their note."""

    @wraps(call)
    def noting(*args: P.args, **more: P.kwargs) -> T:
        try:
            return call(*args, **more)
        except Exception as error:
            _note(error)
            raise

    return noting


def reported_rows(call: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """A function that yields, with its errors noted, as ``reported``."""

    @wraps(call)
    def noting(*args: P.args, **more: P.kwargs) -> Iterator[T]:
        try:
            yield from call(*args, **more)
        except Exception as error:
            _note(error)
            raise

    return noting


def noted(text: str) -> tuple[str | None, str] | None:
    """The type, by its name in ``errors``, and the text of the last note in what Python printed.

    The type is None where it is none of ours, and all of it where there is no note: a text of users
    may begin like one.
    """
    lines = [line for line in text.splitlines() if line.startswith(_NOTE)]
    if not lines:
        return None
    line = lines[-1].removeprefix(_NOTE).replace("%5C", "\\").replace("%25", "%")
    try:
        kind, message = parsed(line)
    except (ValueError, TypeError):
        return None
    known = kind is None or (isinstance(kind, str) and isinstance(getattr(errors, kind, 0), type))
    return (kind, message) if known and isinstance(message, str) else None


def _note(error: Exception) -> None:
    ours = (one.__name__ for one in type(error).__mro__ if one.__module__ == errors.__name__)
    line = json.dumps([next(ours, None), text_of(error)])
    # Without backslashes: logs of Spark's have them for ends of lines.
    error.add_note(_NOTE + line.replace("%", "%25").replace("\\", "%5C"))
