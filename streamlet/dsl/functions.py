"""Asks a user's function how many arguments it takes, once, while the topology is built."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from streamlet.errors import TopologyError


def check_takes(call: str, function: Callable[..., Any], *arguments: str) -> None:
    """Make sure that a function can be called with these positional arguments.

    Raises:
        TopologyError: it cannot; the message names the call and the arguments.
    """
    _check_callable(call, function)
    signature = _signature(function)
    if signature is None:
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise TopologyError(
            f"{call} calls its function as ({', '.join(arguments)}), but {_name(function)} "
            f"takes {signature}: {error}"
        ) from error


def takes(call: str, function: Callable[..., Any], *arguments: str) -> int:
    """How many of the arguments a function wants: all of them, or all but the first.

    A function that requires all gets all; anything else, and what Python cannot tell of (some
    builtins), goes without the first: ``map_values(str.upper)`` and
    ``map_values(lambda k, v: ...)`` both do what they say.

    Raises:
        TopologyError: neither number will do.
    """
    _check_callable(call, function)
    signature = _signature(function)
    if signature is None or _required(signature) < len(arguments):
        check_takes(call, function, *arguments[1:])
        return len(arguments) - 1
    check_takes(call, function, *arguments)
    return len(arguments)


def _check_callable(call: str, function: Any) -> None:
    if not callable(function):
        raise TopologyError(f"{call} expects a function, got {function!r}")
    if is_async(function):
        raise TopologyError(
            f"{call} cannot await, and {_name(function)} is an async function: its results would "
            "be coroutines that never run; pass a function that returns the result itself"
        )


def is_async(function: Any) -> bool:
    """Whether calling it returns a coroutine or an async generator, as far as Python can tell."""
    while isinstance(function, functools.partial):
        function = function.func
    called = getattr(type(function), "__call__", None)  # noqa: B004 - an object's own
    return any(
        inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one)
        for one in (function, called)
    )


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _required(signature: inspect.Signature) -> int:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(
        one.kind in positional and one.default is inspect.Parameter.empty
        for one in signature.parameters.values()
    )


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
