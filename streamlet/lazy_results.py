"""Results that are a promise only: a coroutine, a generator or a context manager that never runs.

A call of an async or a generator function does nothing by itself. Where the function can be looked
at, ``dsl/functions`` refuses it when the topology is built. What is behind a lambda or a decorator
shows in its results: the first one of each batch is looked at, and all where nothing else uses
them.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Iterator
from itertools import chain
from types import AsyncGeneratorType, GeneratorType, NoneType
from typing import Any

_MANAGERS: tuple[type, ...] = (
    contextlib._GeneratorContextManager,
    contextlib._AsyncGeneratorContextManager,
)
#: Types of most results, which are known at once.
_PLAIN = frozenset({NoneType, bool, int, str, float, bytes, dict, list, tuple})
_AWAITED = (
    "nothing awaits it, so it never runs; return the result itself, or await it by "
    "map_values_async()"
)
_YIELDED = (
    "nothing goes through it, so it never runs; return the result itself, or let "
    "flat_map_values() or flat_map() take what is yielded"
)
_ENTERED = "nothing enters it, so it never runs; return the result itself"


def promise_text(result: Any, *, yields: bool = False) -> str | None:
    """The reason why a result cannot be meant, for a message; None for any other result.

    ``yields`` if a generator may be. A coroutine is closed, so that Python does not warn of it too.
    """
    kind = type(result)
    if kind in _PLAIN:
        return None
    if hasattr(kind, "__await__"):
        if inspect.iscoroutine(result):
            result.close()
        return f"the function returned {_named(result)}: {_AWAITED}"
    if isinstance(result, AsyncGeneratorType) or (isinstance(result, GeneratorType) and not yields):
        return f"the function returned {_named(result)}: {_YIELDED}"
    if kind in _MANAGERS:
        return f"the function returned {_named(result)}: {_ENTERED}"
    return None


def refuse_promise(result: Any, *, yields: bool = False) -> None:
    """Check one result.

    Raises:
        TypeError: it is a coroutine or the like.
    """
    text = promise_text(result, yields=yields)
    if text is not None:
        raise TypeError(text)


def looked_at(results: Iterable[Any], *, yields: bool = False) -> Iterator[Any]:
    """The same results, lazily, with a look at the first; the others come as quickly as before."""
    rest = iter(results)
    return chain(_first(rest, yields), rest)


def _first(results: Iterator[Any], yields: bool) -> Iterator[Any]:
    for result in results:
        refuse_promise(result, yields=yields)
        yield result
        return


def count_before_promise(results: list[Any]) -> tuple[int, str]:
    """The number of results before the first promise, and what is wrong with that; all are closed.

    Without a promise the number is that of all results.
    """
    found = [(at, text) for at, one in enumerate(results) if (text := promise_text(one))]
    return found[0] if found else (len(results), "")


def _named(result: Any) -> str:
    kind = type(result).__name__.strip("_")
    inner = getattr(result, "gen", result)  # of a context manager
    name = getattr(inner, "__qualname__", "")
    return f"a {kind}" + (f" of {name}" if name else "")
