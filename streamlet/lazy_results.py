"""Results that are a promise only: a coroutine, a generator or a context manager that never runs.

A call of an async or a generator function does nothing by itself. Where the function can be looked
at, it is refused when the topology is built. What is behind a lambda or a decorator shows in its
results. The first one of each batch is looked at, by ``operators/columns`` of ``dsl`` for most; of
predicates that of the first batch, and of each ``LARGE`` one. All are looked at where nothing else
uses them, and where they go no further than to the next function.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    FunctionType,
    GeneratorType,
    MethodType,
    NoneType,
)
from typing import Any

_MANAGERS: tuple[type, ...] = (
    contextlib._GeneratorContextManager,
    contextlib._AsyncGeneratorContextManager,
)
#: Types of results that are meant; those that were looked at are added, so that each is once.
FINE: set[type] = {NoneType, bool, int, str, float, bytes, dict, list, tuple}
#: A batch so large that the first result of each can be looked at.
LARGE = 64
#: More types than a program has are those that it makes as it runs, and they are not kept.
_MOST = 1_000
_AWAITED = (
    "nothing awaits it, so it never runs; return the result itself, or await it by "
    "map_values_async()"
)
_YIELDED = (
    "nothing goes through it, so it never runs; return the result itself, or let "
    "flat_map_values() or flat_map() take what is yielded"
)
_ENTERED = "nothing enters it, so it never runs; return the result itself"
_CALLED = "nothing calls it, and it is always true; call it, and return its result"
#: Iterators that do their work when something goes through them.
_LAZY: tuple[type, ...] = (map, filter, zip)
#: What is called; as an answer it is always true.
_FUNCTIONS: tuple[type, ...] = (FunctionType, BuiltinFunctionType, MethodType, functools.partial)


def is_async(function: Any) -> bool:
    """True if calling it returns a coroutine or an async generator, as far as Python can tell."""
    return any(
        inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one)
        for one in called(function)
    )


def is_generator(function: Any) -> bool:
    """True if calling it returns a generator, as far as Python can tell.

    One that ``types.coroutine`` marks is awaited like a coroutine.
    """
    return any(
        inspect.isgeneratorfunction(one) and not _is_awaited(one) for one in called(function)
    )


def _is_awaited(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & inspect.CO_ITERABLE_COROUTINE)


def never_runs(function: Any) -> bool:
    """True if calling it does nothing by itself, as far as Python can tell."""
    return is_async(function) or is_generator(function) or makes_manager(function)


def makes_manager(function: Any) -> bool:
    """True for what ``contextlib.contextmanager`` made of a function, or its async sister."""
    codes = [getattr(one, "__code__", None) for one in called(function)]
    return any(code is not None and code.co_filename == contextlib.__file__ for code in codes)


def called(function: Any) -> tuple[Any, Any]:
    """A function without its partial arguments, and the one that an object is called by."""
    while isinstance(function, functools.partial):
        function = function.func
    return function, getattr(type(function), "__call__", None)  # noqa: B004 - an object's own


def promise_text(result: Any, *, yields: bool = False) -> str | None:
    """The reason why a result cannot be meant, for a message; None for any other result.

    ``yields`` if a generator may be. A coroutine is closed, so that Python does not warn of it too.
    """
    kind = type(result)
    if kind in FINE:
        return None
    if hasattr(kind, "__await__"):
        if inspect.iscoroutine(result):
            result.close()
        return f"the function returned {_named(result)}: {_AWAITED}"
    if isinstance(result, AsyncGeneratorType) or (isinstance(result, GeneratorType) and not yields):
        return f"the function returned {_named(result)}: {_YIELDED}"
    if kind in _MANAGERS:
        return f"the function returned {_named(result)}: {_ENTERED}"
    if kind is not GeneratorType and len(FINE) < _MOST:
        FINE.add(kind)
    return None


def refuse_promise(result: Any, *, yields: bool = False) -> None:
    """Check one result.

    Raises:
        TypeError: it is a coroutine or the like.
    """
    if type(result) in FINE:
        return
    text = promise_text(result, yields=yields)
    if text is not None:
        raise TypeError(text)


def lazy_text(result: Any) -> str | None:
    """The reason why an iterator that nothing goes through cannot be meant; None for another."""
    if isinstance(result, _LAZY) or type(result).__module__ == "itertools":
        return f"the function returned {_named(result)}: {_YIELDED}"
    return None


def refuse_answer(answer: Any) -> None:
    """Check one answer of a predicate, of which only the truth is used.

    Raises:
        TypeError: it is a coroutine, an iterator that has done nothing yet, or a function.
    """
    if answer is True or answer is False:
        return
    text = lazy_text(answer)
    if text is None and isinstance(answer, _FUNCTIONS):
        text = f"the function returned {_named(answer)}: {_CALLED}"
    if text is not None:
        raise TypeError(text)
    refuse_promise(answer)


def looking(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, of whose results each is looked at: for those that are called seldom."""
    if hasattr(function, "made_of"):  # streamlet's own
        return function

    @functools.wraps(function, updated=())  # a class has attributes that are not a function's
    def looked(*arguments: Any) -> Any:
        result = function(*arguments)
        if type(result) not in FINE:
            refuse_promise(result)
        return result

    return looked


def looked_at(
    results: Iterable[Any], check: Callable[[Any], None] = refuse_promise
) -> Iterator[Any]:
    """The same results, lazily, with a look at the first; the others come as quickly as before."""
    rest = iter(results)
    return chain(_first(rest, check), rest)


def _first(results: Iterator[Any], check: Callable[[Any], None]) -> Iterator[Any]:
    for result in results:
        check(result)
        yield result
        return


#: What becomes of a ``GeneratorExit`` of a user's code, which would end a generator of ours.
EXITED = "the function raised GeneratorExit"


class Results:
    """Results one by one; a ``GeneratorExit`` of the code that makes them is an ordinary error."""

    def __init__(self, results: Iterator[Any]) -> None:
        self._results = results

    def __iter__(self) -> Results:
        """The iterator."""
        return self

    def __next__(self) -> Any:
        """The next result."""
        try:
            return next(self._results)
        except GeneratorExit as error:
            raise RuntimeError(EXITED) from error


def count_before_promise(results: list[Any]) -> tuple[int, str]:
    """The number of results before the first promise, and what is wrong with that; all are closed.

    Without a promise the number is that of all results.
    """
    found = [
        (at, text)
        for at, one in enumerate(results)
        if (text := promise_text(one) or lazy_text(one))
    ]
    return found[0] if found else (len(results), "")


def _named(result: Any) -> str:
    kind = type(result).__name__.strip("_")
    inner = getattr(result, "gen", result)  # of a context manager
    name = getattr(inner, "__qualname__", "")
    return f"a {kind}" + (f" of {name}" if name else "")
