"""Checks what calls of the topology are given, where they are made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from streamlet.errors import WrongTypeError
from streamlet.user_code import shown

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

#: What arguments of other libraries and of other calls are here.
_ELSEWHERE = {
    "tz": 'windows of a time zone are calendar("1d", tz=...)',
    "timezone": 'windows of a time zone are calendar("1d", tz=...)',
    "key_serde": "types are key= and value=",
    "value_serde": "types are key= and value=",
    "key_type": "types are key= and value=",
    "value_type": "types are key= and value=",
    "materialized": "a store is store=, a name or a Materialized",
    "store_name": "a store is store=, a name or a Materialized",
}


def check_is(call: str, given: object, expected: tuple[type, ...], what: str) -> None:
    """Refuse an argument that is of none of these types; ``what`` says what is expected.

    Raises:
        WrongTypeError: it is of another type.
    """
    if not isinstance(given, expected) or (isinstance(given, bool) and bool not in expected):
        raise WrongTypeError(f"{call} expects {what}, got {shown(given)}")


def check_flags(call: str, **given: object) -> None:
    """Refuse what is neither True nor False; each flag is given by its name.

    Raises:
        WrongTypeError: one is something else.
    """
    for name, flag in given.items():
        check_is(call.replace("()", f"({name}=)"), flag, (bool,), "True or False")


def check_callable(call: str, given: object, what: str) -> Any:
    """The argument, if it can be called.

    Raises:
        WrongTypeError: it cannot.
    """
    if not callable(given):
        raise WrongTypeError(f"{call} expects {what}, got {shown(given)}")
    return given


def told_by_form(function: F) -> F:
    """The function, whose call with other arguments than it has shows those that it has.

    Raises (when called so):
        WrongTypeError: an argument is missing, too many are given, or one has no such name.
    """

    @wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except TypeError as error:
            inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            if inside or isinstance(error, WrongTypeError):
                raise
            raise WrongTypeError(_form(function, error, given)) from None

    return call  # type: ignore[return-value]  # it has the function's signature


def calls_told_by_form(of: type[T]) -> type[T]:
    """The class, each public method and the constructor of which is made by ``told_by_form``."""
    for name, member in [*vars(of).items()]:
        if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(of, name, told_by_form(member))
    return of


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
