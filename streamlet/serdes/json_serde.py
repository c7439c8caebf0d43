"""JSON: any document for ``dict`` and ``list``, checked against the type for everything typed.

msgspec reads and writes both. It was measured against orjson, which is as fast on a single value
but gives each result a kilobyte first: a column of results that are kept costs 25 times as much.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
from collections.abc import Callable
from typing import Any, TypeVar, Union, get_args, get_origin, is_typeddict, overload

import attrs
import msgspec
import msgspec.inspect as kinds

from streamlet.errors import SerdeError
from streamlet.serdes.plain_copy import document_copier
from streamlet.serdes.serde import Serde, build, encode_error

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()
_DOCUMENTS: tuple[object, ...] = (dict, list, dict[str, Any], list[Any])
_UNSURVIVING = (set, frozenset, bytes, bytearray, memoryview)
_FROZEN_KINDS = (
    kinds.NoneType,
    kinds.BoolType,
    kinds.IntType,
    kinds.FloatType,
    kinds.StrType,
    kinds.BytesType,
    kinds.DateTimeType,
    kinds.DateType,
    kinds.TimeType,
    kinds.TimeDeltaType,
    kinds.UUIDType,
    kinds.DecimalType,
    kinds.EnumType,
    kinds.LiteralType,
)
_SHORTEST: dict[type[kinds.Type], bytes] = {
    kinds.AnyType: b"0",
    kinds.DictType: b"{}",
    kinds.ListType: b"[]",
    kinds.SetType: b"[]",
    kinds.FrozenSetType: b"[]",
    kinds.VarTupleType: b"[]",
}


@overload
def json() -> Serde[Any]: ...
@overload
def json(of: type[T]) -> Serde[T]: ...
def json(of: Any = Any) -> Serde[Any]:
    """JSON for a type: a dataclass, an attrs class, a ``msgspec.Struct``, or what they may contain.

    Without a type any document is taken as it comes. With one, a document that does not fit is an
    error that names the place in it; for ``dict`` and ``list`` alone only the outermost level
    counts. Supported inside: str, int, float, bool, None, bytes (base64), datetime and its kin,
    Decimal, UUID, Enum, Literal, list, tuple, set, dict, TypedDict, NamedTuple, unions that JSON
    can tell apart.
    Not supported: any other class, ``object``, and None as the outermost value, which would be a
    tombstone (the document ``null`` is read as None by ``json()`` alone).

    JSON has no NaN and no infinity: they are written as null and refused when read back as a float.
    An untyped document returns as JSON knows it (a tuple as a list, a datetime as text); dict keys
    other than str, sets and bytes are refused there, which a column checks on its first value.

    Raises:
        SerdeError: JSON cannot carry the type.
    """
    name = "json" if of is Any else f"json({type_name(of)})"
    described = describe(of)
    accepts = accepted_types(of)
    decoder = msgspec.json.Decoder(of)
    if of is not Any and of not in _DOCUMENTS:
        return build(
            name,
            _ENCODER.encode,
            decoder.decode,
            accepts=accepts,
            immutable=is_immutable(described),
            decode_all=_mapped(decoder.decode),
            shortest=_shortest(described, decoder.decode),
            declared=of,
        )
    return _document(name, decoder.decode, accepts, _shortest(described, decoder.decode))


def document(of: type[T]) -> Serde[T]:
    """The serde of plain ``dict`` or ``list``, called by that name."""
    decode = msgspec.json.Decoder(of).decode
    return _document(type_name(of), decode, frozenset({of}), _shortest(describe(of), decode))


def _mapped(function: Callable[[bytes], Any]) -> Callable[[list[bytes]], list[Any]]:
    return lambda column: list(map(function, column))


def _shortest(described: kinds.Type, decode: Callable[[bytes], Any]) -> bytes | None:
    """The shortest document of a type whose decoding runs no code of the user's."""
    for sort, raw in _SHORTEST.items():
        if isinstance(described, sort):
            try:
                decode(raw)
            except msgspec.ValidationError:  # the type demands more than to be a dict, say
                return None
            return raw
    return None


def _document(
    name: str, decode: Callable[[bytes], Any], accepts: frozenset[type], shortest: bytes | None
) -> Serde[Any]:
    encode = _ENCODER.encode

    def encode_one(value: Any) -> bytes:
        _refuse_unsurviving(name, value, value)
        return encode(value)

    def encode_all(column: list[Any]) -> list[bytes]:
        # A mistake in a program is in every record; looking at all of them would cost more than
        # encoding them.
        _refuse_unsurviving(name, column[0], column[0])
        return list(map(encode, column))

    serde = build(
        name,
        encode_one,
        decode,
        accepts=accepts,
        encode_all=encode_all,
        decode_all=_mapped(decode),
        shortest=shortest,
    )
    return attrs.evolve(serde, fast_copy=document_copier(serde))


def _refuse_unsurviving(name: str, value: Any, part: Any) -> None:
    """Refuse what could be written but not read back: {1: …} would return as {"1": …}."""
    if isinstance(part, dict):
        if set(map(type, part)) - {str}:
            raise encode_error(name, value, "JSON keys are text; use dict[int, …] as the type")
        for inner in part.values():
            _refuse_unsurviving(name, value, inner)
    elif isinstance(part, list | tuple):
        for inner in part:
            _refuse_unsurviving(name, value, inner)
    elif isinstance(part, _UNSURVIVING):
        raise encode_error(name, value, f"JSON has no {type(part).__name__}; give the type")


def describe(of: Any) -> kinds.Type:
    """The description of a type by msgspec, after making sure that JSON can carry all of it.

    Raises:
        SerdeError: it cannot; the message names the class in the way.
    """
    try:
        described = kinds.type_info(of)
        msgspec.json.Decoder(of)
    except (TypeError, NameError, ValueError, RuntimeError) as error:
        raise SerdeError(f"no JSON for {type_name(of)}: {error}") from error
    for part in _parts(described):
        if isinstance(part, kinds.CustomType | kinds.ExtType):
            culprit = type_name(getattr(part, "cls", "Ext"))
            raise SerdeError(
                f"no JSON for {type_name(of)}: cannot carry {culprit}; use a dataclass, an attrs "
                "class or a msgspec.Struct in its place, or a pair (encode, decode) for the whole"
            )
    return described


def _parts(described: kinds.Type) -> list[kinds.Type]:
    """A described type and all types inside, each once, though types may contain themselves."""
    met: dict[int, kinds.Type] = {}
    todo = [described]
    while todo:
        part = todo.pop()
        if id(part) not in met:
            met[id(part)] = part
            todo.extend(_children(part))
    return list(met.values())


def _children(part: kinds.Type) -> list[kinds.Type]:
    found: list[kinds.Type] = []
    for field in getattr(part, "fields", ()):
        found.append(field.type)
    for attribute in ("item_type", "key_type", "value_type"):
        if hasattr(part, attribute):
            found.append(getattr(part, attribute))
    for attribute in ("item_types", "types"):
        found.extend(getattr(part, attribute, ()))
    return found


def is_immutable(described: kinds.Type) -> bool:
    """True if no value of the type can change in place, at any depth."""
    return all(_is_frozen(part) for part in _parts(described))


def _is_frozen(part: kinds.Type) -> bool:
    if isinstance(part, kinds.StructType):
        return bool(part.cls.__struct_config__.frozen)
    if isinstance(part, kinds.DataclassType):
        # attrs before 25.4 has no such property; its classes then count as mutable, which only
        # costs a copy.
        own: Any = vars(part.cls)
        frozen = own.get("__dataclass_params__") or own.get("__attrs_props__")
        return bool(getattr(frozen, "frozen", getattr(frozen, "is_frozen", False)))
    shells = (kinds.VarTupleType, kinds.TupleType, kinds.FrozenSetType, kinds.UnionType)
    return isinstance(part, (*_FROZEN_KINDS, *shells, kinds.NamedTupleType))


def accepted_types(of: Any) -> frozenset[type]:
    """The exact types of values that may be written as ``of``; empty if they are not known.

    A subclass is not accepted: it would come back as its base.
    """
    origin = get_origin(of) or of
    if origin in (Union, types.UnionType):
        members = [accepted_types(member) for member in get_args(of)]
        return frozenset().union(*members) if all(members) else frozenset()
    if is_typeddict(origin):
        return frozenset({dict})
    if origin in (Any, object) or not isinstance(origin, type) or inspect.isabstract(origin):
        return frozenset()
    if origin.__module__ == collections.abc.__name__:
        return frozenset()
    return frozenset({float, int}) if origin is float else frozenset({origin})


def type_name(of: Any) -> str:
    """A type as one writes it."""
    if isinstance(of, type) and get_origin(of) is None:
        return of.__name__
    return str(of).replace("typing.", "")
