"""Checks what public calls are given, where they are made.

``told_by_form`` is the door of each: it refuses arguments that the call does not have, and those
whose type is not the annotated one, as far as that is text, a number, a flag or a length of time.
What else an argument has to be is said by the call itself.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import wraps
from math import isnan
from numbers import Real
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin

import attrs

from streamlet.errors import WrongTypeError
from streamlet.user_code import plain_hint, shown

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_ZONES = 'windows of a time zone are calendar("1d", tz=...)'
_STORES = "a store is store=, a name or a Materialized"
_TYPES = "types are key= and value="
_BROKERS = 'brokers are bootstrap_servers="host:port", given to an App or a Consumer'
_GROUP = "the group is called by the application's name, the first argument of App"
_FIRST = "a source begins where reset= says, and others by config={'auto.offset.reset': ...}"
_CONFIG = "settings are config={'key': value}, given to an App"
#: What arguments of other libraries and of other calls are here.
_ELSEWHERE = {
    **dict.fromkeys(("tz", "timezone"), _ZONES),
    **dict.fromkeys(("key_serde", "key_type", "key_serializer", "key_deserializer"), _TYPES),
    **dict.fromkeys(("value_serde", "value_type", "value_serializer"), _TYPES),
    **dict.fromkeys(("value_deserializer", "key_schema", "value_schema", "serde"), _TYPES),
    **dict.fromkeys(("materialized", "store_name", "state_store"), _STORES),
    **dict.fromkeys(("broker", "brokers", "broker_address", "bootstrap_server"), _BROKERS),
    "bootstrap_servers": _BROKERS,
    "config": _CONFIG,
    **{
        key.replace(".", "_"): f"it is a setting: App(config={{'{key}': ...}})"
        for key in ("processing.guarantee", "state.dir", "commit.interval.ms", "replication.factor")
    },
    "num_standby_replicas": "it is a setting: App(config={'num.standby.replicas': ...})",
    **dict.fromkeys(
        ("workers", "threads", "num_stream_threads", "processes"),
        "run several instances, or `streamlet run --processes N`",
    ),
    **dict.fromkeys(("application_id", "consumer_group", "group", "group_id"), _GROUP),
    **dict.fromkeys(("auto_offset_reset", "offset_reset", "starting_offsets"), _FIRST),
}


def check_is(call: str, given: object, expected: tuple[type, ...], what: str) -> None:
    """Refuse an argument that is of none of these types; ``what`` says what is expected.

    Raises:
        WrongTypeError: it is of another type.
    """
    if not isinstance(given, expected) or (isinstance(given, bool) and bool not in expected):
        raise WrongTypeError(f"{call} expects {what}, got {shown(given)}{plain_hint(given)}")


def check_callable(call: str, given: object, what: str) -> Any:
    """The argument, if it can be called.

    Raises:
        WrongTypeError: it cannot.
    """
    if not callable(given):
        raise WrongTypeError(f"{call} expects {what}, got {shown(given)}")
    return given


def call_problem(function: Callable[..., Any], *arguments: str) -> str:
    """The end of a message that a function is called as these; empty if it can be.

    Python cannot tell of some builtins.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*arguments)
    except TypeError as error:
        name = getattr(function, "__qualname__", None) or shown(function)
        return f"({', '.join(arguments)}), but {name} takes {signature}: {error}"
    return ""


@attrs.frozen
class _Kind:
    """The kind of an argument: its types, in words, and the type of each entry of a list."""

    types: tuple[type, ...]
    expected: str
    entries: type | None = None

    def takes(self, given: object) -> bool:
        if (isinstance(given, bool) and bool not in self.types) or _is_nan(given):
            return False
        if self.entries is None or given is None:
            return isinstance(given, self.types)
        if isinstance(given, str | bytes) or not isinstance(given, self.types):
            return False
        return all(isinstance(one, self.entries) for one in given)  # type: ignore[attr-defined]


def _is_nan(given: object) -> bool:
    return isinstance(given, float) and isnan(given)


_LISTS = (Sequence, Set)
#: By annotation: what is taken, and what a message calls it.
_KINDS: dict[str, _Kind] = {
    "None": _Kind((NoneType,), ""),
    "str": _Kind((str,), "text"),
    "bytes": _Kind((bytes,), "bytes"),
    "bool": _Kind((bool,), "True or False"),
    "int": _Kind((int,), "a whole number"),
    "float": _Kind((Real,), "a number"),
    "timedelta": _Kind((timedelta,), "a timedelta"),
    "datetime": _Kind((datetime,), "a datetime"),
    "Path": _Kind((Path,), "a Path"),
    "Duration": _Kind(
        (str, timedelta, int), 'whole milliseconds, a timedelta, or text such as "30s"'
    ),
    "Seconds": _Kind((Real, timedelta), "a time in seconds, or a timedelta"),
    "Sequence[str]": _Kind(_LISTS, "a list of texts", str),
    "Collection[int]": _Kind(_LISTS, "a list of whole numbers", int),
    "Mapping[str, object]": _Kind((Mapping,), "a dict"),
    "Mapping[str, str]": _Kind((Mapping,), "a dict"),
}


#: Texts that are called by more than that, by the names of arguments.
_TEXTS = {"topic": "the name of a topic", "tz": "the name of a time zone, a text"}
#: Classes that are checked, too, by what a message calls their objects.
_CLASSES = {
    "Settings": "what load_settings() gives",
    "Position": "a Position",
    "PositionBound": "a PositionBound",
    "Query": "a query such as KeyQuery(key)",
    "StateRestoreListener": "a StateRestoreListener",
    "StandbyUpdateListener": "a StandbyUpdateListener",
}


def _kinds(function: Callable[..., Any]) -> dict[str, _Kind]:
    """The kinds of arguments by their names, as far as their annotations say them."""
    module = vars(sys.modules[function.__module__])
    found = {
        name: _kind(annotation, module, _TEXTS.get(name, "text"))
        for name, annotation in function.__annotations__.items()
        if name != "return" and isinstance(annotation, str)
    }
    return {name: kind for name, kind in found.items() if kind is not None}


def _kind(annotation: str, module: Mapping[str, Any], text: str) -> _Kind | None:
    """The kind that an annotation says; None: more than is checked here."""
    if annotation == "str":
        return _Kind((str,), text)
    annotation = annotation.replace("timedelta | float", "Seconds")
    kinds = [_KINDS.get(part) or _named(part, module) for part in annotation.split(" | ")]
    named = [kind for kind in kinds if kind is not None]
    lists = [kind for kind in named if kind.entries is not None]
    if len(named) < len(kinds) or (lists and len(named) - (_KINDS["None"] in named) > 1):
        return None
    types = tuple(one for kind in named for one in kind.types)
    expected = " or ".join(kind.expected for kind in named if kind.expected)
    return _Kind(types, expected, lists[0].entries if lists else None)


def _named(part: str, module: Mapping[str, Any]) -> _Kind | None:
    """The kind that a name of the module says: a class; or any text, if the call has words."""
    if part.startswith("Literal["):
        return _Kind((str,), part[len("Literal[") : -1].replace(", ", " or "))
    name = part.partition("[")[0]
    found = module.get(name)
    if name in _CLASSES and isinstance(found, type):
        return _Kind((found,), _CLASSES[name])
    if get_origin(found) is Literal:
        return _Kind((str,), " or ".join(repr(word) for word in get_args(found)))
    return None


def told_by_form(function: F) -> F:
    """The function, whose call with other arguments than it takes shows those that it takes.

    Raises (when called so):
        WrongTypeError: an argument is missing, too many are given, or one has no such name or is
            of another type than its annotation says.
    """
    return _told(function, _kinds(function))


def types_checked_inside(function: F) -> F:
    """The function as by ``told_by_form``, but that it answers itself for arguments' types."""
    return _told(function, {})


def _told(function: F, kinds: Mapping[str, _Kind]) -> F:
    name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    code = inspect.unwrap(function).__code__
    places = code.co_varnames[: code.co_argcount]

    @wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        for one, value in (*zip(places, args, strict=False), *given.items()):
            kind = kinds.get(one)
            if kind is not None and not kind.takes(value):
                hint = plain_hint(value)
                raise WrongTypeError(
                    f"{name}({one}=) expects {kind.expected}, got {shown(value)}{hint}"
                )
        try:
            return function(*args, **given)
        except TypeError as error:
            inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            if inside or isinstance(error, WrongTypeError):
                raise
            raise WrongTypeError(_form(function, error, given)) from None

    return call  # type: ignore[return-value]  # it has the function's signature


def calls_told_by_form(of: type[T]) -> type[T]:
    """The class, each public method and the constructor of which is made by ``told_by_form``.

    Those that are made so already stay as they are.
    """
    for name, member in [*vars(of).items()]:
        if not inspect.isfunction(member) or hasattr(member, "__wrapped__"):
            continue
        if name == "__init__" or not name.startswith("_"):
            setattr(of, name, told_by_form(member))
    return of


def never_copied(how: str) -> Callable[[type[T]], type[T]]:
    """Have the objects of a class refuse to be pickled or copied; ``how`` says what to do instead.

    Python's own answer would be about a part of theirs, or the copy would work on the same part.
    """

    def refuse(self: object, _: object) -> NoReturn:
        raise WrongTypeError(f"a {type(self).__name__} cannot be pickled or copied: {how}")

    def guarded(of: type[T]) -> type[T]:
        setattr(of, "__reduce_ex__", refuse)  # noqa: B010  # type checkers refuse the plain form
        return of

    return guarded


def rare_calls_told_by_form(of: type[T]) -> type[T]:
    """The class, as by ``calls_told_by_form``, for calls that check their own arguments.

    Methods that are called once a record are left alone: those with ``*more: Never``, which begin
    with ``refuse_more``.
    """
    for name, member in [*vars(of).items()]:
        if inspect.isfunction(member) and not name.startswith("_"):
            annotations = member.__annotations__.values()
            if "Never" not in annotations and not hasattr(member, "__wrapped__"):
                setattr(of, name, types_checked_inside(member))
    return of


def refuse_more(form: str, instead: str) -> NoReturn:
    """Refuse arguments that a call does not have.

    Raises:
        WrongTypeError: always.
    """
    raise WrongTypeError(f"{form} takes no other arguments: {instead}")


def never_by_hand(how: str, *, at: int = 0) -> Callable[[type[T]], type[T]]:
    """Have the constructor of a class of streamlet's own objects say what makes them.

    It refuses a call whose argument at that place is not of one of streamlet's own classes.
    """

    def guarded(of: type[T]) -> type[T]:
        make: Any = vars(of)["__init__"]
        name = [*inspect.signature(make).parameters][at + 1]

        @wraps(make)
        def call(self: Any, *args: Any, **given: Any) -> None:
            one = args[at] if at < len(args) else given.get(name)
            while isinstance(one, tuple) and one:
                one = one[0]
            if not type(one).__module__.startswith("streamlet."):
                raise WrongTypeError(f"{type(self).__name__} is not made by hand: {how}")
            make(self, *args, **given)

        setattr(of, "__init__", call)  # noqa: B010  # type checkers refuse the plain form
        return of

    return guarded


def _form(function: Callable[..., Any], error: TypeError, given: dict[str, Any]) -> str:
    """The message: Python's own, what was probably meant, and the arguments that there are."""
    name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    said = str(error).replace(function.__qualname__, name)
    parameters = inspect.signature(function).parameters
    listed = [one.replace(annotation=one.empty) for one in parameters.values()]
    form = str(inspect.Signature([one for one in listed if one.name != "self"]))
    unknown = next((one for one in given if one not in parameters), None)
    hint = ""
    if unknown is not None:
        close = get_close_matches(unknown, parameters, n=1)
        hint = f"; did you mean {close[0]}=?" if close else ""
        hint = f"; {_ELSEWHERE[unknown]}" if unknown in _ELSEWHERE else hint
    return f"{said}{hint}; it is called as {name}{form}"
