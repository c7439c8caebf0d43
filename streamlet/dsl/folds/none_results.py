"""Functions of folds that return None: says once what that does to a value that can be changed.

None deletes the row, as in Kafka Streams. It is also what ``list.append`` and ``dict.update``
return, and a function without ``return``: then each second record of a key begins its row again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.dsl.graph.functions import name_of
from streamlet.logs import get_logger
from streamlet.serdes import Serde

log = get_logger(__name__)


@attrs.define(eq=False)
class Noticed:
    """A function of a fold whose aggregate can be changed in place.

    Args:
        function: the user's.
        at: the place of the aggregate among its arguments.
        operator: the operator's name, once it has one.
    """

    function: Callable[..., Any]
    at: int
    operator: str = ""
    _warned: bool = attrs.field(default=False, init=False)

    def __call__(self, *arguments: Any) -> Any:
        """The function's result."""
        result = self.function(*arguments)
        if result is None and not self._warned and _holds_something(arguments[self.at]):
            self._warned = True
            log.warning(
                "operator %s: %s returned None for a %s that it was given, and None deletes the "
                "row. If it was to change that value, it has to return it; if the row was to go, "
                "all is well. This is said once",
                self.operator,
                name_of(self.function),
                type(arguments[self.at]).__name__,
            )
        return result


def noticed(function: Callable[..., Any], value: Serde[Any] | None, at: int) -> Callable[..., Any]:
    """The function, watched if values of the serde can be changed in place.

    ``at`` is the place of the aggregate among its arguments.
    """
    if value is None or value.immutable or hasattr(function, "made_of"):
        return function
    return Noticed(function, at)


def name_operator(operator: str, *functions: Any) -> None:
    """Set the operator's name in the warnings of these functions."""
    for function in functions:
        if isinstance(function, Noticed):
            function.operator = operator


def _holds_something(value: Any) -> bool:
    """True unless it is None, or as empty as a fold may begin with."""
    try:
        return bool(value)
    except Exception:  # an object of the user's, of which anything may be asked but this
        return value is not None
