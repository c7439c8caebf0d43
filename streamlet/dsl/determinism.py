"""Functions that a program declares to be non-deterministic."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from streamlet.arguments import check_callable, told_by_form
from streamlet.dsl.graph.record_context import MARK, ContextFunction

F = TypeVar("F", bound=Callable[..., Any])


@told_by_form
def non_deterministic(function: F) -> F:
    """Declares that a function may make something else of the same record when it sees it again.

    Such a function depends on more than its arguments: the clock, random numbers, a service. After
    a crash, records since the last commit are processed again, and what is written again may have
    other keys. So in a repartition topic that its results reach without another one between, each
    record waits for the commit of the task that wrote it. State behind it counts what that task's
    commits contain, each record once. ``streamlet describe --json`` names the operator.

    For the functions of stateless operators of a stream, and of ``group_by``. A decorator, too.

    Raises:
        TopologyError: it is no function.
    """
    check_callable("non_deterministic()", function, "a function")
    if isinstance(function, ContextFunction):
        return ContextFunction(non_deterministic(function.function))  # type: ignore[return-value]
    try:
        setattr(function, MARK, True)
    except (AttributeError, TypeError):  # a builtin, or a bound method
        return non_deterministic(_wrapped(function))
    return function


def _wrapped(function: F) -> F:
    @functools.wraps(function)
    def wrapped(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapped  # type: ignore[return-value]
