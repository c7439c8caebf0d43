"""Tells what type a user's function returns, as far as that can be known without calling it.

From its annotations; or, for the one-line functions that have none, from what they are made of: an
attribute of a typed argument (``lambda k, f: f.carrier``), a dict in braces, an f-string, a
constant. Anything else is unknown, and the user is asked.
"""

from __future__ import annotations

import dis
import functools
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any, Final, get_args, get_origin

from streamlet.dsl.graph.record_context import ContextFunction
from streamlet.errors import TopologyError
from streamlet.user_code import shown

#: Stands for a type that is not known.
UNKNOWN: Final[Any] = type("Unknown", (), {"__repr__": lambda self: "unknown"})()

_LOADS = {"LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK"}
_IDLE = {"RESUME", "NOP", "COPY_FREE_VARS", "CACHE", "PRECALL"}
_MADE_BY = {
    "BUILD_MAP": dict,
    "BUILD_CONST_KEY_MAP": dict,
    "DICT_UPDATE": dict,
    "DICT_MERGE": dict,
    "BUILD_STRING": str,
    "FORMAT_VALUE": str,
    "FORMAT_SIMPLE": str,
    "FORMAT_WITH_SPEC": str,
    "IS_OP": bool,
    "CONTAINS_OP": bool,
    "UNARY_NOT": bool,
}


#: Builtins that are often given as they are; Python knows nothing of their results.
_BUILTINS: dict[Any, Any] = {
    len: int,
    repr: str,
    str.lower: str,
    str.upper: str,
    str.title: str,
    str.strip: str,
    str.split: list[str],
    str.splitlines: list[str],
    str.encode: bytes,
    bytes.decode: str,
}


def result_type(function: Callable[..., Any], *arguments: Any) -> Any:
    """The type a function returns when called with arguments of these types, or ``UNKNOWN``.

    ``X | None`` counts as ``X``: null is a tombstone, not a type.
    """
    if isinstance(function, ContextFunction):
        function = function.function
    if isinstance(function, type):
        return function
    if isinstance(function, types.BuiltinFunctionType | types.MethodDescriptorType):
        return _BUILTINS.get(function, UNKNOWN)
    hint = hint_of(function, "return")
    return without_none(_from_code(function, arguments) if hint is UNKNOWN else hint)


def first_type(initializer: Callable[[], Any]) -> Any:
    """The type of what an initializer returns; it is called if nothing else tells.

    Raises:
        TopologyError: it fails.
    """
    inferred = result_type(initializer)
    if inferred is not UNKNOWN:
        return inferred
    try:
        return type(initializer())
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise TopologyError(f"aggregate(): its initializer failed: {shown(error)}") from error


def awaited_type(of: Any) -> Any:
    """The type of what is awaited: ``X`` for an ``Awaitable[X]``, any other as it is."""
    origin = get_origin(of)
    if isinstance(origin, type) and issubclass(origin, Awaitable):
        return without_none(get_args(of)[-1])
    return of


def element_type(of: Any) -> Any:
    """The type that a container or iterator type yields, or ``UNKNOWN``."""
    origin, inside = get_origin(of), get_args(of)
    if not (isinstance(origin, type) and issubclass(origin, Iterable)) or not inside:
        return UNKNOWN
    if issubclass(origin, tuple) and not (len(inside) == 2 and inside[1] is Ellipsis):
        return inside[0] if len(set(inside)) == 1 else UNKNOWN
    return without_none(inside[0])


def column_type(of: Any) -> Any:
    """The type of the values of a column: of a list or of an array of numpy; else ``UNKNOWN``."""
    origin, inside = get_origin(of), get_args(of)
    if (meant := getattr(origin, "__value__", None)) is not None:  # ``type NDArray[T] = …``
        return column_type(meant[inside])
    if origin in (list, Sequence):
        return element_type(of)
    kind = get_args(inside[1])[:1] if len(inside) == 2 else ()  # of ndarray[shape, dtype[kind]]
    if not hasattr(origin, "tolist") or not (kind and isinstance(kind[0], type)):
        return UNKNOWN
    if issubclass(kind[0], Integral):
        return int
    return float if issubclass(kind[0], Real) else UNKNOWN


def pair_types(of: Any) -> tuple[Any, Any]:
    """The two types of a ``tuple[K, V]``, or ``UNKNOWN`` twice."""
    inside = get_args(of)
    if get_origin(of) is tuple and len(inside) == 2 and inside[1] is not Ellipsis:
        return without_none(inside[0]), without_none(inside[1])
    return UNKNOWN, UNKNOWN


def hint_of(function: Any, name: str) -> Any:
    """The annotation of a function's parameter, or of its ``return``; UNKNOWN without a use."""
    if isinstance(function, functools.partial):
        function = function.func
    if not isinstance(function, types.FunctionType | types.MethodType):
        function = getattr(type(function), "__call__", function)  # noqa: B004 - not a question
    try:
        hint = typing.get_type_hints(function).get(name, UNKNOWN)
    except (NameError, TypeError, AttributeError):
        return UNKNOWN  # an annotation that cannot be read is as good as none
    return UNKNOWN if hint in (Any, object, types.NoneType) else hint


def without_none(of: Any) -> Any:
    """``X`` for ``X | None``, anything else as it is."""
    if get_origin(of) not in (typing.Union, types.UnionType):
        return of
    rest = [part for part in get_args(of) if part is not types.NoneType]
    return functools.reduce(lambda one, other: one | other, rest)


def _from_code(function: Any, arguments: tuple[Any, ...]) -> Any:
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & (0x20 | 0x80 | 0x100 | 0x200):  # generators, coroutines
        return UNKNOWN
    steps = [step for step in dis.get_instructions(code) if step.opname not in _IDLE]
    if any("JUMP" in step.opname or step.opname == "FOR_ITER" for step in steps[:-1]):
        return UNKNOWN  # several ways to a result
    last = steps[-1]
    if last.opname == "RETURN_CONST":
        return _constant(last.argval)
    if last.opname != "RETURN_VALUE" or len(steps) < 2:
        return UNKNOWN
    return _from_steps(steps[:-1], dict(zip(code.co_varnames, arguments, strict=False)))


def _from_steps(steps: list[dis.Instruction], types_of: dict[str, Any]) -> Any:
    first, last = steps[0], steps[-1]
    if first.opname in _LOADS and all(step.opname == "LOAD_ATTR" for step in steps[1:]):
        of = types_of.get(first.argval, UNKNOWN)
        for step in steps[1:]:
            of = _attribute(without_none(of), step.argval)
        return of
    if last.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and len(steps) == 1:
        return _constant(last.argval)
    return _MADE_BY.get(last.opname, UNKNOWN)


def _attribute(of: Any, name: str) -> Any:
    if not isinstance(of, type):
        return UNKNOWN
    found = getattr(of, name, None)
    if isinstance(found, property):
        return hint_of(found.fget, "return")
    return _hint_of_class(of, name)


def _hint_of_class(of: type, name: str) -> Any:
    try:
        return typing.get_type_hints(of).get(name, UNKNOWN)
    except (NameError, TypeError, AttributeError):
        return UNKNOWN


def _constant(value: Any) -> Any:
    return type(value) if type(value) in (str, int, float, bytes, bool) else UNKNOWN
