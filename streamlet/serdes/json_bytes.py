"""The bytes of JSON values: one form for equal keys, and none that could not be read back.

The canonical form has the names of dicts and the members of sets in the order of their bytes, and
numbers as their type writes them. Fields of classes are in the order of the class in either form,
and members of sets are sorted where that needs no look at each: hashes differ between processes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any
from uuid import UUID

import attrs
import msgspec
import msgspec.inspect as kinds

from streamlet.errors import SerdeError
from streamlet.serdes.json_decoders import class_of
from streamlet.serdes.json_types import bare_kind, has_demands, parts, takes_none
from streamlet.serdes.serde import encode_error

Encode = Callable[[Any], bytes]

plain: Encode = msgspec.json.Encoder().encode
_sorted: Encode = msgspec.json.Encoder(order="deterministic").encode

_SETS = (kinds.SetType, kinds.FrozenSetType)
#: Members of sets that Python sorts.
_SORTABLE = (
    kinds.IntType,
    kinds.StrType,
    kinds.BytesType,
    kinds.UUIDType,
    kinds.DateType,
)
#: Types of a float's values as they are read.
_READ = frozenset({float, NoneType})
_ATTRS = "__attrs_attrs__"
_NO_NUMBER = (
    "JSON has no NaN and no infinity: use None (float | None), Decimal, or a pair (encode, decode)"
)


def encoders(described: kinds.Type, decode: Callable[[bytes], Any]) -> tuple[Encode, Encode]:
    """Functions that write values of a type: in the canonical form, and with dicts as they are."""
    found = parts(described)
    sets = [bare_kind(part.item_type) for part in found if isinstance(part, _SETS)]
    dicts = [part for part in found if isinstance(part, kinds.DictType | kinds.TypedDictType)]
    is_open = any(isinstance(part, kinds.AnyType) for part in found)
    if not (sets or dicts or is_open):
        return _as_read(plain, described, decode), plain
    simple = all(isinstance(one, _SORTABLE) for one in sets) and all(
        isinstance(bare_kind(part.key_type), kinds.StrType | kinds.AnyType)
        for part in dicts
        if isinstance(part, kinds.DictType)
    )
    canonical = _deterministic if simple else canonical_bytes
    in_order = canonical if sets and not (dicts or is_open) else plain
    return _as_read(canonical, described, decode), in_order


def _as_read(encode: Encode, described: kinds.Type, decode: Callable[[bytes], Any]) -> Encode:
    """The same, by way of what is read, where a program may make a value that is written otherwise.

    A float may be given as an int; fields that are no arguments may be unset, or set in any order.
    """
    found = parts(described)

    def as_read(value: Any) -> bytes:
        return encode(decode(encode(value)))

    late = any(map(_sets_late, found))
    if not late and not any(isinstance(part, kinds.FloatType) for part in found):
        return encode
    names = () if late else _own_floats(described, found)
    if not names:
        return as_read
    get = attrgetter(*names)
    if len(names) == 1:
        return lambda value: encode(value) if type(get(value)) in _READ else as_read(value)
    return lambda value: (
        encode(value) if _READ.issuperset(map(type, get(value))) else as_read(value)
    )


def _own_floats(described: kinds.Type, found: list[kinds.Type]) -> tuple[str, ...]:
    """The fields of a record type that are floats, if no other part of it is one."""
    names = []
    within = sum(isinstance(part, kinds.FloatType) for part in found)
    for field in getattr(described, "fields", ()):
        kind = bare_kind(field.type)
        inner = kind.types if isinstance(kind, kinds.UnionType) else (kind,)
        rest = [one for one in inner if not isinstance(one, kinds.NoneType)]
        if len(rest) == 1 and isinstance(rest[0], kinds.FloatType):
            names.append(field.name)
            within -= 1
    is_record = isinstance(described, kinds.DataclassType | kinds.StructType)
    return tuple(names) if is_record and not within else ()


def _sets_late(part: kinds.Type) -> bool:
    cls = class_of(part)
    fields = (*getattr(cls, "__dataclass_fields__", {}).values(), *getattr(cls, _ATTRS, ()))
    return isinstance(part, kinds.DataclassType) and not all(one.init for one in fields)


def _deterministic(value: Any) -> bytes:
    try:
        return _sorted(value)
    except TypeError:  # names that are no text, or values that cannot be sorted
        return canonical_bytes(value)


def canonical_bytes(value: Any) -> bytes:
    """The canonical form of a value, by a look at each part of it."""
    kind = type(value)
    if kind is set or kind is frozenset:
        return b"[%b]" % b",".join(sorted(map(canonical_bytes, value)))
    if kind is dict:
        named = [(plain({name: None})[1:-5], one) for name, one in value.items()]
        named.sort(key=itemgetter(0))
        return b"{%b}" % b",".join(b"%b%b" % (name, canonical_bytes(one)) for name, one in named)
    if isinstance(value, list | tuple):
        return b"[%b]" % b",".join(map(canonical_bytes, value))
    names = _fields(value)
    if not names:
        return plain(value)
    changed = {}
    for name in names:
        inner = getattr(value, name, None)
        if isinstance(inner, set | frozenset | dict | list | tuple) or _fields(inner):
            raw = canonical_bytes(inner)
            if raw != plain(inner):
                changed[name] = msgspec.Raw(raw)
    return plain(_with(value, changed) if changed else value)


def _fields(value: Any) -> tuple[str, ...]:
    cls: Any = type(value)
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    fields = getattr(cls, "__dataclass_fields__", None)
    if fields is not None:
        return tuple(fields)
    return tuple(one.name for one in getattr(cls, _ATTRS, ()))


def _with(value: Any, changed: Mapping[str, Any]) -> Any:
    """A copy of an object, frozen or not, with other values in some of its fields."""
    copied = copy.copy(value)
    is_struct = isinstance(value, msgspec.Struct)
    set_field: Any = msgspec.structs.force_setattr if is_struct else object.__setattr__
    for name, inner in changed.items():
        set_field(copied, name, inner)
    return copied


#: The exact types of values by the kind of their field, where JSON reads just these back.
_FIELD_TYPES: dict[type[kinds.Type], frozenset[type]] = {
    kinds.BoolType: frozenset({bool}),
    kinds.IntType: frozenset({int}),
    kinds.FloatType: frozenset({float, int}),
    kinds.StrType: frozenset({str}),
    kinds.BytesType: frozenset({bytes}),
    kinds.DateTimeType: frozenset({datetime}),
    kinds.DateType: frozenset({date}),
    kinds.TimeType: frozenset({time}),
    kinds.TimeDeltaType: frozenset({timedelta}),
    kinds.UUIDType: frozenset({UUID}),
    kinds.NoneType: frozenset({NoneType}),
}


def survives(described: kinds.Type) -> Callable[[list[Any]], bool] | None:
    """A function that tells of values whether the plain fields have values of their types.

    Of a record type; Python sets a field to anything, also to what could not be read back. None:
    the type has no such fields.
    """
    fields = []
    for field in getattr(described, "fields", ()):
        allowed = _allowed(field.type)
        if allowed and not isinstance(described, kinds.TypedDictType):
            fields.append((attrgetter(field.name), allowed))
    if not fields:
        return None
    return lambda column: all(
        allowed.issuperset(map(type, map(get, column))) for get, allowed in fields
    )


def _allowed(kind: kinds.Type) -> frozenset[type]:
    """The types of a field's values; empty if they are not plain."""
    kind = bare_kind(kind)
    if not isinstance(kind, kinds.UnionType):
        return _FIELD_TYPES.get(type(kind), frozenset())
    members = [_allowed(one) for one in kind.types]
    return frozenset().union(*members) if all(members) else frozenset()


@attrs.frozen
class RoundTripCheck:
    """Refuses values that would not be read back as they are, which each class can be given.

    ``always``: all values are looked at, else only those with ``null`` in their bytes, as which
    None is written, and each number that JSON does not have.
    """

    name: str
    decode: Callable[[bytes], Any]
    always: bool
    #: Whether there may be a number that JSON does not have.
    has_numbers: bool
    #: Whether it would be read as None.
    _loses: bool

    @property
    def for_keys(self) -> bool:
        """False if only a None in the wrong field could be met: keys go without a look for it."""
        return self.always or self.has_numbers

    @classmethod
    def of(cls, name: str, described: kinds.Type, decode: Callable[[bytes], Any]) -> RoundTripCheck:
        """The check for a type, by the name of its serde."""
        found = parts(described)
        has_numbers = any(isinstance(part, kinds.FloatType | kinds.AnyType) for part in found)
        loses = has_numbers and any(map(takes_none, found))
        return cls(name, decode, has_demands(found), has_numbers, loses)

    def checking(self, encode: Encode, *, by_itself: bool) -> Encode:
        """The same function, for values that can be read back.

        It raises ``SerdeError`` for others. ``by_itself``: each value is read back, since it stands
        for one that is to be kept.
        """
        check, always = self._check, self.always or by_itself

        def checked(value: Any) -> bytes:
            try:
                raw = encode(value)
            except msgspec.ValidationError as error:  # it was read back to be written
                raise self._refused(value, error) from error
            if always or b"null" in raw:
                check(value, raw)
            return raw

        return checked

    def checking_all(self, encode: Encode) -> Callable[[list[Any]], list[bytes]]:
        """The same for a column."""
        check, always = self._check, self.always

        def checked(column: list[Any]) -> list[bytes]:
            raws = list(map(encode, column))
            if always or b"null" in b"".join(raws):
                for value, raw in zip(column, raws, strict=True):
                    if always or b"null" in raw:
                        check(value, raw)
            return raws

        return checked

    def _check(self, value: Any, raw: bytes) -> None:
        if self._loses and not _is_finite(msgspec.to_builtins(value)):
            raise encode_error(self.name, value, _NO_NUMBER)
        try:
            self.decode(raw)
        except msgspec.ValidationError as error:
            raise self._refused(value, error) from error

    def _refused(self, value: Any, error: msgspec.ValidationError) -> SerdeError:
        """The error for a value whose bytes could not be read."""
        finite = _is_finite(msgspec.to_builtins(value))
        why = f"it could not be read back: {error}" if finite else _NO_NUMBER
        return encode_error(self.name, value, why)


def _is_finite(value: Any) -> bool:
    """False if there is a NaN or an infinity in a document."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value)) and all(map(_is_finite, value.values()))
    return not isinstance(value, list | tuple | set | frozenset) or all(map(_is_finite, value))
