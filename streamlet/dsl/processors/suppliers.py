"""Makes processors of what ``process`` and ``process_values`` are given: a class, or a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterable, Iterator
from types import CodeType, NoneType
from typing import Any, TypeVar, get_args, get_origin

import attrs

from streamlet.arguments import call_problem, check_callable
from streamlet.dsl.graph.inference import UNKNOWN, result_type, without_none
from streamlet.dsl.processors.processor import Processor
from streamlet.dsl.processors.record import Record
from streamlet.errors import TopologyError
from streamlet.lazy_results import FINE, is_async, is_generator, makes_manager, refuse_promise
from streamlet.user_code import shown

#: Makes the processor of one task.
Supplier = Callable[[], Any]


@attrs.define
class FunctionProcessor:
    """A function ``(record)`` or ``(record, context)`` in the place of a processor."""

    function: Callable[..., Any]
    asks: bool
    context: Any = None

    def init(self, context: Any) -> None:
        """Keep what the function asks for."""
        self.context = context

    def process(self, record: Record[Any, Any]) -> Any:
        """Call the function; its result."""
        return self.function(record, self.context) if self.asks else self.function(record)


def supplier_of(call: str, given: Any) -> Supplier:
    """A function that makes the processor of each task.

    A class, a function without arguments that returns a processor, or a function of the record.

    Raises:
        TopologyError: it is none of these.
    """
    _check(call, given)
    if isinstance(given, type):
        return given
    arguments = parameters(given)
    if not arguments:
        return given  # type: ignore[no-any-return]
    if len(arguments) > 2:
        raise TopologyError(
            f"{call} calls its function as (record) or (record, context), but it takes "
            f"({', '.join(arguments)})"
        )
    return lambda: FunctionProcessor(given, asks=len(arguments) == 2)


#: What the methods of processors are called with.
_METHODS = {"init": ("context",), "process": ("record",), "close": ()}


def _check(call: str, given: Any) -> None:
    if hasattr(given, "process") and not isinstance(given, type):
        raise TopologyError(
            f"{call} makes a processor for each task, so it takes the class {type(given).__name__} "
            "or a function that returns a new one, not one that is made already"
        )
    check_awaits_nothing(call, given, "a class or a function")


def check_awaits_nothing(call: str, given: Any, what: str = "a function") -> None:
    """Make sure that something can be called, and need not be awaited.

    Raises:
        TopologyError: its result would have to be awaited.
        WrongTypeError: it cannot be called.
    """
    check_callable(call, given, what)
    process = getattr(given, "process", given)
    if is_async(process):
        name = getattr(process, "__qualname__", None) or shown(given)
        raise TopologyError(
            f"{call} cannot await, and {name} is an async function: have KStream.map_values_async()"
            " await before it"
        )


def made(call: str, supplier: Supplier) -> Any:
    """A processor to inspect when the topology is built; each task makes its own.

    Raises:
        TopologyError: it cannot be made, has no ``process``, or is the same one each time.
    """
    try:
        one, other = supplier(), supplier()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise TopologyError(f"{call}: the processor cannot be made: {error!r}") from error
    if isinstance(one, type):
        raise TopologyError(
            f"{call}: its function returns the class {one.__name__}; return an object of it"
        )
    lacks = getattr(type(one), "process", None) is Processor.process
    if lacks or not callable(getattr(one, "process", None)):
        raise TopologyError(f"{call}: {type(one).__name__} has no method process(record)")
    for name, given in _METHODS.items():
        method = getattr(one, name, None)
        if callable(method) and (problem := call_problem(method, *given)):
            raise TopologyError(f"{call} calls {name}() of its processor as {problem}")
        if is_async(method):
            does = "cannot await"
        elif makes_manager(method):
            does = "enters no context manager"
        elif name != "process" and is_generator(method):
            does = "goes through nothing that it yields"
        else:
            does = ""
        if does:
            raise TopologyError(
                f"{call}: {name}() of {type(one).__name__} would never run: {call} {does}"
            )
    if one is other:
        raise TopologyError(f"{call}: its function returns the same processor for each task")
    return one


def parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the positional parameters that a function requires."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    empty = inspect.Parameter.empty
    return tuple(p.name for p in found if p.kind in positional and p.default is empty)


# Punctuators.


def schedules(processor: Any) -> bool:
    """True if the code of a processor's class, or of its function, calls ``schedule``."""
    function = getattr(processor, "function", None)
    codes = [_code(function)] if isinstance(processor, FunctionProcessor) else []
    for kind in type(processor).__mro__:
        codes += [_code(member) for member in vars(kind).values()]
    return any(_names_schedule(code) for code in codes if code is not None)


def _code(member: Any) -> CodeType | None:
    if isinstance(member, functools.partial):
        member = member.func
    found = getattr(inspect.unwrap(getattr(member, "__func__", member)), "__code__", None)
    return found if isinstance(found, CodeType) else None


def _names_schedule(code: CodeType) -> bool:
    inside = (one for one in code.co_consts if isinstance(one, CodeType))
    return "schedule" in code.co_names or any(map(_names_schedule, inside))


# Results.


def as_record(result: Any, record: Record[Any, Any] | None, time: int) -> Record[Any, Any]:
    """The record that ``process`` makes of a result: a ``Record`` or a pair ``(key, value)``.

    A pair gets the time and the headers of the record of the call.

    Raises:
        TypeError: it is neither.
    """
    if type(result) is Record:
        return result
    if type(result) is not tuple or len(result) != 2:
        refuse_promise(result)
        hint = "yield each of several" if type(result) is list else "process_values() takes a value"
        raise TypeError(f"expected a Record or a pair (key, value), got {shown(result)}; {hint}")
    return Record(*result, time, () if record is None else record.headers)


def as_value(result: Any, record: Record[Any, Any] | None, time: int) -> Record[Any, Any]:
    """The record that ``process_values`` makes of a result: a ``Record``, or a new value.

    Raises:
        TypeError: there is no record of whose key it could be.
    """
    if type(result) is Record:
        return result
    if type(result) not in FINE:
        refuse_promise(result)
    if record is None:
        raise TypeError("process_values() forwards with a record only, not in punctuators")
    return record.with_value(result)


def function_types(function: Any, fixed_key: bool) -> tuple[Any, Any]:
    """Types of the keys and values that a function makes, or ``UNKNOWN``."""
    of = without_none(result_type(function))
    key, value = _of_record(of)
    if not fixed_key or value is not UNKNOWN:
        return key, value
    return UNKNOWN, _known(_inside(of))


def result_types(processor: Any) -> tuple[Any, Any]:
    """Types of the keys and values that a processor forwards, or ``UNKNOWN``."""
    for base in _bases(type(processor)):
        if get_origin(base) is Processor:
            key, value = get_args(base)[2:]
            return _known(key), _known(value)
    return UNKNOWN, UNKNOWN


def _bases(kind: type) -> Iterator[Any]:
    for one in kind.__mro__:
        yield from vars(one).get("__orig_bases__", ())


def _of_record(of: Any) -> tuple[Any, Any]:
    """The types of ``Record[K, V]`` or ``tuple[K, V]``, or of an iterator of them."""
    of = without_none(_inside(of))
    inside = get_args(of)
    if get_origin(of) in (Record, tuple) and len(inside) == 2:
        return _known(inside[0]), _known(inside[1])
    return UNKNOWN, UNKNOWN


def _inside(of: Any) -> Any:
    """The type that an iterator yields, or the type itself."""
    inside = get_args(of)
    return inside[0] if get_origin(of) in (Iterator, Iterable, Generator) and inside else of


def _known(of: Any) -> Any:
    of = without_none(of)
    return UNKNOWN if of in (Any, object, None, Record, NoneType) or isinstance(of, TypeVar) else of
