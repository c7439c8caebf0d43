"""JSON: any document for ``dict`` and ``list``, checked against the type for everything typed.

msgspec reads and writes both. It was measured against orjson, which is as fast on a single value
but gives each result a kilobyte first: a column of results that are kept costs 25 times as much.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, TypeVar, overload

import attrs
import msgspec
import msgspec.inspect as kinds

from streamlet.serdes.json_bytes import Encode, RoundTripCheck, encoders, plain, survives
from streamlet.serdes.json_decoders import decoder_of
from streamlet.serdes.json_types import accepted_types, describe, is_immutable, parts, type_name
from streamlet.serdes.serde import Serde, build, encode_error

T = TypeVar("T")

_DOCUMENTS: tuple[object, ...] = (dict, list, dict[str, Any], list[Any])
_SCALARS = frozenset({str, int, float, bool, types.NoneType})
_CONTAINERS = frozenset({dict, list, tuple})
_UNSURVIVING = (set, frozenset, bytes, bytearray, memoryview)
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
    Not supported: any other class, ``object``, private attributes and cached properties of attrs
    classes, ``InitVar``, dicts whose keys are neither text nor numbers, a default None where the
    annotation has none, and None as the outermost value, which would be a tombstone (the document
    ``null`` is read as None by ``json()`` alone). Converters of attrs classes are not called.

    Equal keys have one form: names in dicts and members of sets are sorted, and fields that a
    document leaves out are written with their defaults. Values keep the order of their dicts.

    JSON has no NaN and no infinity: a typed value with one is refused when it is written, as is one
    with None where its annotation has none; in an untyped document they are written as null. A
    value whose fields are of other types than their annotations is refused where it is kept.
    Numbers and times keep their form, also in keys: ``Decimal("1.0")`` and ``Decimal("1.00")``, or
    one moment in two time zones, are two keys.
    An untyped document returns as JSON knows it (a tuple as a list, a datetime as text); dict keys
    other than str, sets and bytes are refused there: in each document that is kept in a store, in
    a batch that is written to a topic in the first one.

    Raises:
        SerdeError: JSON cannot carry the type.
    """
    name = "json" if of is Any else f"json({type_name(of)})"
    described = describe(of)
    accepts = accepted_types(of)
    decode = decoder_of(of, parts(described)).decode
    shortest = _shortest(described, decode)
    canonical, in_order = encoders(described, decode)
    if of is Any or of in _DOCUMENTS:
        return _documents(name, decode, accepts, shortest, canonical)
    check = RoundTripCheck.of(name, described, decode)

    def typed(encode: Encode, looked_at: bool = True, kept: bool = False) -> Serde[Any]:
        serde = build(
            name,
            check.checking(encode, by_itself=kept) if looked_at else encode,
            decode,
            accepts=accepts,
            immutable=is_immutable(described),
            encode_all=check.checking_all(encode) if looked_at else None,
            decode_all=_mapped(decode),
            shortest=shortest,
            declared=of,
        )
        return attrs.evolve(serde, survives=survives(described)) if kept else serde

    return attrs.evolve(typed(canonical, check.for_keys), as_value=typed(in_order, kept=True))


def document(of: type[T]) -> Serde[T]:
    """The serde of plain ``dict`` or ``list``, called by that name."""
    decode = msgspec.json.Decoder(of).decode
    described = describe(of)
    shortest, (canonical, _) = _shortest(described, decode), encoders(described, decode)
    return _documents(type_name(of), decode, frozenset({of}), shortest, canonical)


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


def _documents(
    name: str,
    decode: Callable[[bytes], Any],
    accepts: frozenset[type],
    shortest: bytes | None,
    canonical: Encode,
) -> Serde[Any]:
    """The serde of any documents, and that of values, which keeps the order of their names."""
    serde = _document(name, decode, accepts, shortest, canonical)
    return attrs.evolve(serde, as_value=_document(name, decode, accepts, shortest, plain))


def _document(
    name: str,
    decode: Callable[[bytes], Any],
    accepts: frozenset[type],
    shortest: bytes | None,
    encode: Encode,
) -> Serde[Any]:
    def encode_one(value: Any) -> bytes:
        _refuse_unsurviving(name, value, value)
        return encode(value)

    def encode_all(column: list[Any]) -> list[bytes]:
        # A mistake in a program is in every record; looking at all of them would cost more than
        # encoding them. What is kept is looked at (``encode_rows``).
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
    copy = _copier(encode, decode, accepts, lambda value: serde.decode(serde.encode(value)))
    return attrs.evolve(serde, fast_copy=copy, survives=_survives)


def _copier(
    encode: Encode,
    decode: Callable[[bytes], Any],
    accepts: frozenset[type],
    checked: Callable[[Any], Any],
) -> Callable[[Any], Any]:
    """A function that copies documents as their bytes would return; None stays None.

    One that returns equal has nothing in it that is refused, or changed; what has is ``checked``.
    """

    def copy(value: Any) -> Any:
        if value is None:
            return None
        if accepts and type(value) not in accepts:
            return checked(value)
        try:
            new = decode(encode(value))
            same = bool(new == value)
        except Exception:  # the check says what is wrong with it
            same = False
        return new if same else checked(value)

    return copy


def _survives(column: list[Any]) -> bool:
    """True if documents have nothing that JSON would change; False if it is not known.

    All documents are looked at together, a level at a time.
    """
    level = column
    while True:
        kinds_here = set(map(type, level))
        if not kinds_here - _SCALARS:
            return True
        if kinds_here - _SCALARS - _CONTAINERS:
            return False
        dicts = [part for part in level if type(part) is dict]
        if set(map(type, chain.from_iterable(dicts))) - {str}:
            return False
        inner: Iterable[Any] = chain.from_iterable(map(dict.values, dicts))
        if len(kinds_here - _SCALARS) > 1 or dict not in kinds_here:
            lists = (part for part in level if type(part) in (list, tuple))
            inner = chain(inner, chain.from_iterable(lists))
        level = list(inner)


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
