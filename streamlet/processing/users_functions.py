"""The user's function that an operator calls, for messages about what it has returned."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from streamlet.lazy_results import called
from streamlet.user_code import Place, is_users

#: Attributes in which operators have the function that makes their results, or one around it.
_ATTRIBUTES = ("inner", "function", "predicate", "joiner", "reducer", "aggregator")


def function_place(operator: object) -> Place | None:
    """The line at which the function of an operator begins; None if it is none of the user's."""
    for one in _inside(operator):
        code = getattr(one, "__code__", None)
        if code is not None and is_users(code.co_filename):
            return Place(code.co_filename, code.co_firstlineno, code.co_name)
    return None


def _inside(one: object) -> Iterator[object]:
    """An object and what it has in these attributes, from the outermost inwards."""
    yield from map(inspect.unwrap, called(one))
    for name in _ATTRIBUTES:
        found = getattr(one, name, None)
        if found is not None:
            yield from _inside(found)
