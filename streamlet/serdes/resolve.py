"""From a Python type to its serde: the one function behind ``key=`` and ``value=``."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, overload

import attrs
import msgspec

from streamlet.arguments import call_problem, told_by_form
from streamlet.errors import SerdeError
from streamlet.serdes.basic import BY_TYPE, checked, custom
from streamlet.serdes.json_serde import document, json
from streamlet.serdes.json_types import bare_type, plain_type, refuse_unheeded, type_name
from streamlet.serdes.serde import Serde, build
from streamlet.user_code import shown

T = TypeVar("T")

#: What users may give for a key or a value. None stands for "always null", as Kafka's VoidSerde.
SerdeLike: TypeAlias = Serde[T] | type[T] | tuple[Callable[[T], bytes], Callable[[bytes], T]] | None


@overload
def serde(of: Serde[T]) -> Serde[T]: ...
@overload
def serde(of: None) -> Serde[None]: ...
@overload
def serde(of: type[T]) -> Serde[T]: ...
@overload
def serde(of: tuple[Callable[[T], bytes], Callable[[bytes], T]]) -> Serde[T]: ...
@told_by_form
def serde(of: Any) -> Serde[Any]:
    """The serde of a Python type.

    ``str int float bool uuid.UUID bytes None`` are written as Kafka's own serdes write them,
    ``dict`` and ``list`` as JSON, and a dataclass, an attrs class, a ``msgspec.Struct`` or a typed
    container such as ``dict[str, int]`` as JSON checked against the type (see ``json``). A pair of
    functions ``(encode, decode)`` and a ready ``Serde`` are taken as they are. A model or dataclass
    of pydantic is written, read and checked by pydantic, as JSON.

    A ``decode`` that returns None says that the key or value is null, as a deserializer of Kafka
    Streams does: the record goes on, a table deletes its row, and a warning says so once. For
    bytes that cannot be read it raises an error, about which ``on_error=`` decides.

    ``NewType``, ``Annotated`` and aliases are what they stand for; what ``msgspec.Meta`` demands in
    an ``Annotated`` is demanded of each value that is read or written.

    ``Optional[X]`` is refused: null is a tombstone in Kafka, never a value; ask for ``X``, and null
    is None anyway.

    Raises:
        SerdeError: there is no serde for it; the message says what to use instead.
    """
    if isinstance(of, Serde):
        return of if hasattr(of.encode, "__wrapped__") else checked(of)
    if isinstance(of, tuple):
        return _pair(of)
    refuse_unheeded(of)
    of = plain_type(of)
    _refuse_optional(bare_type(of))
    if _is_plain(bare_type(of)):
        return _plain(of)
    if of is dict or of is list:
        return document(of)
    if of is Any or of is object:
        raise SerdeError(f"no serde for {type_name(of)}: use json() for documents of any shape")
    if not isinstance(of, type) and get_origin(of) is None:
        raise SerdeError(f"no serde for {shown(of)}: {_instead(of)}")
    return json(of)


def _is_plain(of: Any) -> bool:
    # Asked by identity: `of in BY_TYPE` would need a hash, which not everything has.
    return any(of is kind for kind in BY_TYPE)


def _plain(of: Any) -> Serde[Any]:
    """The serde of a type that is written by itself, perhaps with demands of ``msgspec.Meta``."""
    bare = bare_type(of)
    inner = BY_TYPE[bare]()
    if bare is of:
        return inner

    def meets(value: Any) -> Any:
        return msgspec.convert(value, of)

    def meet(column: list[Any]) -> list[Any]:
        found: list[Any] = msgspec.convert(column, list[of])
        return found

    def encode_all(column: list[Any]) -> list[Any]:
        return inner.encode_column(meet(column))

    def decode_all(column: list[Any]) -> list[Any]:
        return meet(inner.decode_column(column))

    found = build(
        inner.name,
        lambda value: inner.encode(meets(value)),
        lambda raw: meets(inner.decode(raw)),
        accepts=inner.accepts,
        exact=None,  # demands are asked where a key becomes bytes
        immutable=inner.immutable,
        encode_all=encode_all,
        decode_all=decode_all,
        declared=of,
        format=inner.format,
    )
    return attrs.evolve(found, as_kept=inner.as_kept)


#: What has the types of a topic, by the name of its class, and how it reads the topic.
_READERS = {
    "Debezium": "it has both types, and reads topics itself: call its stream(app, topic) or "
    "table(app, topic)"
}


def _instead(of: Any) -> str:
    """The type that is meant by something that is none."""
    if inspect.isfunction(of) and of.__module__.startswith("streamlet."):
        return f"call it, as {of.__name__}(...), which gives the Serde"
    reads = _READERS.get(type(of).__name__)
    if reads is not None:
        return reads
    if isinstance(of, str | bytes | int | float | list | set | dict):
        return (
            f"expected a type, such as {type(of).__name__}, a Serde or a pair (encode, decode), "
            "not a value"
        )
    return "expected a type, a Serde or a pair (encode, decode)"


def _pair(of: tuple[Any, ...]) -> Serde[Any]:
    if len(of) != 2 or not all(map(callable, of)):
        raise SerdeError(f"no serde for {shown(of)}: a pair must be two functions (encode, decode)")
    if any(map(inspect.iscoroutinefunction, of)):
        raise SerdeError(f"no serde for {shown(of)}: an async function cannot encode or decode")
    for function, given in zip(of, ("value", "raw"), strict=True):
        if problem := call_problem(function, given):
            raise SerdeError(f"no serde for {shown(of)}: a pair is called as {problem}")
    name = getattr(of[1], "__qualname__", type(of[1]).__name__)
    return custom(of[0], of[1], name=f"custom({name})")


def _refuse_optional(of: Any) -> None:
    if get_origin(of) not in (Union, types.UnionType) or types.NoneType not in get_args(of):
        return
    rest = " | ".join(type_name(part) for part in get_args(of) if part is not types.NoneType)
    raise SerdeError(
        f"no serde for {type_name(of)}: null is a tombstone, not a value; use {rest}, "
        "and a null key or value is None without asking"
    )
