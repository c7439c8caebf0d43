"""JSON: any document for ``dict`` and ``list``, checked against the type for everything typed.

msgspec reads and writes both. It was measured against orjson, which is as fast on a single value
but gives each result a kilobyte first: a column of results that are kept costs 25 times as much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

import attrs
import msgspec
import msgspec.inspect as kinds

from streamlet.arguments import told_by_form
from streamlet.columnwise import are_documents, document_copies
from streamlet.errors import SerdeError
from streamlet.serdes.json_bytes import (
    NO_NUMBER,
    PLAIN,
    Encode,
    EncodeAll,
    JsonForm,
    RoundTripCheck,
    encoders,
)
from streamlet.serdes.json_decoders import readers
from streamlet.serdes.json_floats import Look, look_for_floats
from streamlet.serdes.json_types import accepted_types, describe, parts, type_name
from streamlet.serdes.json_whole import UNSURVIVING, documents_survive, fields_of
from streamlet.serdes.pydantic_models import is_pydantic, pydantic_json
from streamlet.serdes.serde import Serde, build, encode_error

T = TypeVar("T")

_DOCUMENTS: tuple[object, ...] = (dict, list, dict[str, Any], list[Any])
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
@told_by_form
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
    with None where its annotation has none; in an untyped document they are written as null, but
    for one that is all of it, which is refused. A value with parts of other types than their
    annotations, at any depth, is refused, as is a key that is sent to a topic.
    Numbers and times keep their form, also in keys: ``Decimal("1.0")`` and ``Decimal("1.00")``, or
    one moment in two time zones, are two keys.
    An untyped document, and what is below ``Any``, returns as JSON knows it (a tuple as a list, a
    datetime as text), in memory too; dict keys other than str, sets and bytes are refused there.

    Raises:
        SerdeError: JSON cannot carry the type.
    """
    if is_pydantic(of):
        return pydantic_json(of)
    name = "json" if of is Any else f"json({type_name(of)})"
    described = describe(of)
    accepts = accepted_types(of)
    decoders = readers(of, parts(described))
    if of is Any or of in _DOCUMENTS:
        return _documents(name, described, decoders[0], accepts)
    serde = _typed(name, of, described, decoders, accepts)
    floats = look_for_floats(described) if serde.immutable else None
    return serde if floats is None else _with_floats(serde, floats)


def _typed(
    name: str, of: Any, described: kinds.Type, decoders: tuple[Any, Any], accepts: frozenset[type]
) -> Serde[Any]:
    """The serde of keys of a type, and that of values."""
    decode, decode_all = decoders
    shortest, check = _shortest(described, decode), RoundTripCheck.of(name, described, decode)
    canonical, in_order = encoders(described, decode)

    def make(one: Encode, encode_all: EncodeAll) -> Serde[Any]:
        return build(
            name,
            one,
            decode,
            accepts=accepts,
            immutable=check.frozen,
            encode_all=encode_all,
            decode_all=decode_all,
            shortest=shortest,
            declared=of,
            format="json of a type",
            many_forms=True,
        )

    quick = check.quick(canonical.all)
    keys = attrs.evolve(
        make(check.quick_one(canonical.one), quick),
        survives=check.whole,
        encode_whole=make(check.one(canonical.one), quick).encode,
    )
    values = make(check.one(in_order.one), check.column(in_order.all))
    copied = check.copy(in_order.one, check.decode)
    values = attrs.evolve(
        values,
        encode_read=in_order.all,
        fast_copy=_fast_copy(copied, accepts, lambda value: values.decode(values.encode(value))),
    )
    return attrs.evolve(keys, as_value=values)


def _with_floats(serde: Serde[Any], floats: Look) -> Serde[Any]:
    """The serde, of values that cannot change, with whole numbers kept as floats."""
    values = serde.as_value or serde

    def kept(value: Any) -> Any:
        try:
            same = value is None or floats(value)
        except Exception:  # the bytes say what is wrong with it
            same = False
        return value if same else values.decode(values.encode(value))

    return attrs.evolve(serde, as_kept=kept, as_value=attrs.evolve(values, as_kept=kept))


def _fast_copy(
    copied: Callable[[Any], Any], accepts: frozenset[type], checked: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """A function that copies values quickly, and what that fails on as ``checked`` does."""

    def copy(value: Any) -> Any:
        if accepts and type(value) not in accepts and value is not None:
            return checked(value)
        try:
            return copied(value)
        except Exception:  # the check says what is wrong with it
            return checked(value)

    return copy


def document(of: type[T]) -> Serde[T]:
    """The serde of plain ``dict`` or ``list``, called by that name."""
    return _documents(type_name(of), describe(of), msgspec.json.Decoder(of).decode, frozenset({of}))


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
    described: kinds.Type,
    decode: Callable[[bytes], Any],
    accepts: frozenset[type],
) -> Serde[Any]:
    """The serde of any documents, and that of values, which keeps the order of their names."""
    canonical, _ = encoders(described, decode)
    shortest, decodes = _shortest(described, decode), _decodes(described)
    forms = (_document(name, decode, accepts, shortest, one) for one in (canonical, PLAIN))
    keys, values = (attrs.evolve(form, decodes=decodes) for form in forms)
    return attrs.evolve(keys, as_value=values)


def _decodes(described: kinds.Type) -> Callable[[list[bytes]], bool] | None:
    """Tells of a column whether each entry surely is a document of any shape."""
    if are_documents is None:
        return None
    # A document "null" is no value, so those that are neither objects nor arrays are decoded.
    letters = {kinds.DictType: "{", kinds.ListType: "["}.get(type(described), "{[")
    certain = are_documents
    return lambda column: certain(column, letters)


def _document(
    name: str,
    decode: Callable[[bytes], Any],
    accepts: frozenset[type],
    shortest: bytes | None,
    form: JsonForm,
) -> Serde[Any]:
    encode = form.one

    def encode_one(value: Any) -> bytes:
        if not documents_survive(value):
            _refuse_unsurviving(name, value, value)
        raw = encode(value)
        if raw == b"null":  # which would delete a row
            raise encode_error(name, value, NO_NUMBER)
        return raw

    def encode_all(column: list[Any]) -> list[bytes]:
        if not documents_survive(column):
            for value in column:
                _refuse_unsurviving(name, value, value)
        raws = form.all(column)
        return [] if b"null" in raws else raws  # then one by one, which names it

    serde = build(
        name,
        encode_one,
        decode,
        accepts=accepts,
        encode_all=encode_all,
        shortest=shortest,
        format="json",
        many_forms=True,
    )

    def copied(value: Any) -> Any:
        if value is None:
            return None
        new = decode(encode(value))
        if not new == value:
            raise SerdeError(f"{name}: not the same")
        return new

    copy = _fast_copy(copied, accepts, lambda value: serde.decode(serde.encode(value)))
    copy_all = _copies(*accepts) if len(accepts) == 1 and form is PLAIN else None
    return attrs.evolve(serde, fast_copy=copy, copy_all=copy_all)


def _copies(of: type) -> Callable[[list[Any]], list[Any] | None] | None:
    """Copies columns of documents of a type by the extension, where that was built."""
    copies = document_copies
    return None if copies is None else lambda column: copies(column, of)


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
    elif isinstance(part, UNSURVIVING):
        raise encode_error(name, value, f"JSON has no {type(part).__name__}; give the type")
    else:
        for field in fields_of(part):
            _refuse_unsurviving(name, value, getattr(part, field, None))
