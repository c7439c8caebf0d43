"""The user's function that an operator calls, for messages about what it has returned."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType

from streamlet.lazy_results import called
from streamlet.user_code import Place, is_users

#: Attributes in which operators have functions of the user, or what is around them.
_ATTRIBUTES = (
    *("inner", "function", "predicate", "joiner", "on", "reducer", "initializer", "aggregator"),
    *("first", "add", "subtract", "merge", "windows", "windows_for"),
)


def function_place(operator: object) -> Place | None:
    """The line at which an operator's function begins.

    None if it is none of the user's, or if there are several: it is not known then which of them
    an error is about.
    """
    codes = {code for code in _codes(operator) if is_users(code.co_filename)}
    if len(codes) != 1:
        return None
    code = codes.pop()
    return Place(code.co_filename, code.co_firstlineno, code.co_name)


def _codes(one: object) -> Iterator[CodeType]:
    """The code of a function, or of those that an object of streamlet's has."""
    for function in map(inspect.unwrap, called(one)):
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType):
            yield code
    if type(one).__module__.startswith("streamlet."):  # others may have any attribute
        for name in _ATTRIBUTES:
            yield from _codes(getattr(one, name, None))
