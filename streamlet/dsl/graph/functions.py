"""Asks a user's function how many arguments it takes, once, while the topology is built."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

from streamlet.arguments import call_problem, check_callable
from streamlet.dsl.graph.record_context import ContextFunction, is_marked
from streamlet.errors import TopologyError, WrongTypeError
from streamlet.lazy_results import called, is_async, is_generator, makes_manager
from streamlet.user_code import shown


def check_takes(
    call: str,
    function: Callable[..., Any],
    *arguments: str,
    context: bool = False,
    yields: bool = False,
    varies: bool = False,
) -> None:
    """Make sure that a function can be called with these positional arguments.

    ``context`` if it may ask for the ``RecordContext``, which then comes behind them; ``yields`` if
    it may be a generator function; ``varies`` if it may be ``non_deterministic``.

    Raises:
        TopologyError: it cannot; the message names the call and the arguments.
    """
    function, arguments = _asking(call, function, arguments, context, varies)
    _check_callable(call, function, yields)
    _check_binds(call, function, arguments)


def check_begins(call: str, initializer: Any) -> None:
    """Make sure that an aggregate begins with what a function returns.

    Raises:
        WrongTypeError: it is no function, but perhaps the value itself.
        TopologyError: it needs arguments.
    """
    if not callable(initializer):
        raise WrongTypeError(
            f"{call} begins with what a function returns, and takes that first: pass a function "
            f"without arguments, such as lambda: 0, not {shown(initializer)}"
        )
    check_takes(call, initializer)


def _check_binds(call: str, function: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    if problem := call_problem(function, *arguments):
        raise TopologyError(f"{call} calls its function as {problem}")


def takes(
    call: str,
    function: Callable[..., Any],
    *arguments: str,
    context: bool = False,
    yields: bool = False,
) -> int:
    """The number of arguments a function takes: all of them, or all but the first.

    ``context`` and ``yields`` as of ``check_takes``; the context is not counted.

    A function that requires all gets all; anything else, and what Python cannot tell of (some
    builtins), goes without the first: ``map_values(str.upper)`` and
    ``map_values(lambda k, v: ...)`` both do what they say.

    Raises:
        TopologyError: neither number will do.
    """
    function, wanted = _asking(call, function, arguments, context)
    _check_callable(call, function, yields)
    signature = _signature(function)
    if signature is None or _required(signature) < len(wanted):
        _check_binds(call, function, wanted[1:])
        return len(arguments) - 1
    _check_binds(call, function, wanted)
    return len(arguments)


def takes_async(call: str, function: Callable[..., Any], *arguments: str) -> int:
    """The number of arguments of a function whose results are awaited, as ``takes``.

    It may be ``non_deterministic``.

    Raises:
        TopologyError: neither number will do, or it is a generator, or makes a context manager.
    """
    if isinstance(function, ContextFunction):
        check_takes(call, function)
    check_callable(call, function, "an async function")
    if any(map(inspect.isasyncgenfunction, called(function))) or is_generator(function):
        raise TopologyError(
            f"{call}: {name_of(function)} yields, and one result is awaited for each value: "
            "return it"
        )
    if makes_manager(function):
        raise TopologyError(
            f"{call} enters no context manager, and {name_of(function)} makes one: give it an "
            "async function that returns the result"
        )
    signature = _signature(function)
    wanted = arguments
    if signature is None or _required(signature) < len(arguments):
        wanted = arguments[1:]
    _check_binds(call, function, wanted)
    return len(wanted)


def form_of(call: str, function: Callable[..., Any], *forms: tuple[str, ...]) -> int:
    """The number of arguments of a function, checked against the allowed forms.

    These go from the longest to the shortest. A function that requires as many as a form has gets
    that one, anything else the last one.

    Raises:
        TopologyError: no form will do.
    """
    check_not_marked(call, function)
    _asking(call, function, forms[-1], context=False)
    _check_callable(call, function)
    signature = _signature(function)
    required = 0 if signature is None else _required(signature)
    form = next((one for one in forms if required >= len(one)), forms[-1])
    _check_binds(call, function, form)
    return len(form)


def _asking(
    call: str,
    function: Callable[..., Any],
    arguments: tuple[str, ...],
    context: bool,
    varies: bool = False,
) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """A user's own function, and the arguments that it is called with."""
    if getattr(function, "of_record", False) is True and arguments != ("key", "value"):
        raise TopologyError(
            f"{call} calls its function as ({', '.join(arguments)}), and an expression such as "
            "sl.col('price') is of a key and a value: pass a function"
        )
    if not (context or varies):
        check_not_marked(call, function)
    if not isinstance(function, ContextFunction):
        return function, arguments
    if not context:
        raise TopologyError(
            f"{call} has no RecordContext for its function: put what is needed into the value, by "
            "map_values(with_context(function)) before it"
        )
    return function.function, (*arguments, "context")


def check_not_marked(call: str, function: Any) -> None:
    """Refuse a function that was declared non-deterministic, for a call that cannot note it.

    Raises:
        TopologyError: it was.
    """
    if is_marked(function):
        raise TopologyError(
            f"{call} takes no function that is non_deterministic(): put what varies into the value "
            "before it, or mark the function of a group_by() or map_values() behind it"
        )


def _check_callable(call: str, function: Any, yields: bool = False) -> None:
    check_callable(call, function, "a function")
    if is_async(function):
        raise TopologyError(
            f"{call} cannot await, and {name_of(function)} is an async function: its results would "
            "be coroutines that never run; pass a function that returns the result itself, or have "
            "KStream.map_values_async() await it"
        )
    if makes_manager(function):
        raise TopologyError(
            f"{call} enters no context manager, and {name_of(function)} makes one: its code would "
            "never run; pass a function that uses it in a with statement"
        )
    if not yields and is_generator(function):
        raise TopologyError(
            f"{call} goes through no results, and {name_of(function)} is a generator function: its "
            "code would never run; let it return, or let flat_map_values() or flat_map() take what "
            "it yields"
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


def name_of(function: Callable[..., Any]) -> str:
    """A function as messages name it."""
    return getattr(function, "__qualname__", repr(function))


#: Functions of these may leave objects behind them, or go on with them later.
_LASTING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def reaches_only_arguments(function: object) -> bool:
    """True if what a function returns is made of its arguments and constants, and kept nowhere.

    Its code has no global name, no attribute, no closure and no default, and so no call: it can
    only look into its arguments, calculate, and make dicts, lists and the like. False if that is
    not known.
    """
    if type(function) is not FunctionType:
        return False
    code = function.__code__
    if function.__defaults__ or function.__kwdefaults__ or code.co_flags & _LASTING:
        return False
    inner = any(isinstance(constant, CodeType) for constant in code.co_consts)
    return not (inner or code.co_names or code.co_freevars or code.co_cellvars)


#: Instructions that change a dict, a list or an object in place.
_STORING = frozenset({"STORE_SUBSCR", "STORE_SLICE", "STORE_ATTR", "DELETE_SUBSCR", "DELETE_ATTR"})


#: Instructions that make a new dict or list, or put something into it, and leave it for the next.
_MAKING = frozenset(
    {"BUILD_MAP", "BUILD_CONST_KEY_MAP", "BUILD_LIST", "DICT_UPDATE", "DICT_MERGE", "LIST_EXTEND"}
)


def makes_new(function: object) -> bool:
    """True if all that a function returns is a dict or list that it has just made.

    False if that is not known.
    """
    if type(function) is not FunctionType:
        return False
    code = list(dis.get_instructions(function))
    before = {one.offset: made for made, one in pairwise(code)}
    returns = [one for one in code if one.opname.startswith("RETURN_")]
    if any(one.opname != "RETURN_VALUE" or one.is_jump_target for one in returns):
        return False
    made = (before[one.offset].opname for one in returns if one.offset in before)
    return bool(returns) and all(name in _MAKING for name in made)


def only_reads(function: object) -> bool:
    """True if a function reaches only its arguments, and its code changes nothing in them.

    False if that is not known.
    """
    return reaches_only_arguments(function) and not any(
        # ``|=`` and the like change a dict or a list in place.
        one.opname in _STORING or (one.opname == "BINARY_OP" and one.argrepr.endswith("="))
        for one in dis.get_instructions(function)  # type: ignore[arg-type]
    )
