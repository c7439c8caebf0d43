"""Looks by types whether JSON returns all values of a column as they are.

Python sets a field to anything, and an ``Any`` is anything. The types in a column are asked for
all at once, field by field. What that does not settle is written and read back, value by value.

Of documents of any shape orjson asks in one call, by writing them: it refuses sets, bytes and names
that are no text, and is several times as fast at that as a look at their types from Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import chain
from math import isfinite
from operator import attrgetter
from types import NoneType
from typing import Any
from uuid import UUID

import msgspec
import msgspec.inspect as kinds
import orjson

from streamlet.columnwise import FLAT, all_flat
from streamlet.serdes.json_decoders import class_of
from streamlet.serdes.json_types import bare_kind

#: True of a column whose values all return as they are; False if that is not known.
Whole = Callable[[Iterable[Any]], bool]

#: Types that JSON writes as others, which cannot be told from these when they are read.
UNSURVIVING = (set, frozenset, bytes, bytearray, memoryview)
_CONTAINERS = frozenset({dict, list, tuple})
#: The exact types of values of a kind, where JSON reads just these back.
_PLAIN: dict[type[kinds.Type], frozenset[type]] = {
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
    kinds.DecimalType: frozenset({Decimal}),
    kinds.NoneType: frozenset({NoneType}),
}
_ARRAYS: dict[type[kinds.Type], type] = {
    kinds.ListType: list,
    kinds.SetType: set,
    kinds.FrozenSetType: frozenset,
    kinds.VarTupleType: tuple,
}
_flat = chain.from_iterable
_TIMED = kinds.DateTimeType | kinds.TimeType
_MINUTE = timedelta(minutes=1)
_zone_of = attrgetter("tzinfo")


def documents_survive(documents: Any) -> bool:
    """False if there is a set, bytes or a name that is no text in documents of any shape.

    False may also mean that a look at each part of them has to tell.
    """
    if type(documents) is list and all_flat(documents):
        return True
    try:
        orjson.dumps(documents, default=_parts, option=orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError:
        return False
    return True


def _parts(part: Any) -> list[Any]:
    """The parts of what orjson does not write, to be looked at in its place."""
    if isinstance(part, UNSURVIVING):
        raise TypeError(type(part).__name__)
    return [getattr(part, name, None) for name in fields_of(part)]


def fields_of(value: Any) -> tuple[str, ...]:
    """The names of the fields of an object of a class that declares them; empty for another.

    Such are structs, dataclasses, attrs classes and pydantic's models.
    """
    cls: Any = type(value)
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    fields = getattr(cls, "__dataclass_fields__", None) or model_fields(cls)
    if fields:
        return tuple(fields)
    return tuple(one.name for one in getattr(cls, "__attrs_attrs__", ()))


def model_fields(cls: Any) -> dict[str, Any]:
    """The fields of a class of pydantic by their names; empty for another class."""
    if not hasattr(cls, "__pydantic_validator__"):
        return {}
    since_2_10: dict[str, Any] | None = getattr(cls, "__pydantic_fields__", None)
    found: dict[str, Any] = cls.model_fields if since_2_10 is None else since_2_10
    return found


def whole_documents(column: Iterable[Any]) -> bool:
    """True of documents of any shape that JSON writes as they are, but for tuples.

    Their numbers are those that JSON has. All documents are looked at together, a level at a time.
    """
    level = list(column)
    while True:
        there = set(map(type, level))
        if float in there and not _numbers(v for v in level if type(v) is float):
            return False
        if there <= FLAT:
            return True
        if there - FLAT - _CONTAINERS:
            return False
        dicts = [part for part in level if type(part) is dict]
        if set(map(type, _flat(dicts))) - {str}:
            return False
        lists = (part for part in level if type(part) in (list, tuple))
        level = list(chain(_flat(map(dict.values, dicts)), _flat(lists)))


def whole(described: kinds.Type, documents: Whole = lambda column: True) -> Whole:
    """A function that tells of columns of a type, without None, whether they are whole.

    ``documents`` tells it of what is annotated as ``Any``.
    """
    check = _Checks(documents).of(described)

    def whole_column(column: Iterable[Any]) -> bool:
        try:
            return check(column)
        except Exception:  # too deep to be looked at, an attribute that fails, one without a hash
            return False

    return whole_column


class _Checks:
    """Makes the functions for the parts of a type, which may contain itself."""

    def __init__(self, documents: Whole) -> None:
        self._documents = documents
        self._made: dict[int, Whole] = {}

    def of(self, kind: kinds.Type) -> Whole:
        """The function for one part."""
        kind = bare_kind(kind)
        at = id(kind)
        if at not in self._made:
            self._made[at] = lambda column: self._made[at](column)
            self._made[at] = self._new(kind)
        return self._made[at]

    def _new(self, kind: kinds.Type) -> Whole:
        types = types_of(kind)
        if isinstance(kind, kinds.AnyType):
            return self._documents
        if types and self._is_settled(kind):
            return lambda column: types.issuperset(map(type, column))
        if isinstance(kind, kinds.FloatType):
            return _numbers
        if isinstance(kind, _TIMED):
            return self._containers(types, _whole_offsets)
        if isinstance(kind, kinds.UnionType):
            return self._union(kind)
        if not types:
            return lambda column: not list(column)
        return self._containers(types, self._inner(kind))

    def _is_settled(self, kind: kinds.Type) -> bool:
        """True if the type of a value is all that is asked for."""
        kind = bare_kind(kind)
        if isinstance(kind, kinds.UnionType):
            return all(map(self._is_settled, kind.types))
        if isinstance(kind, kinds.FloatType | _TIMED):  # JSON has not all of them
            return False
        return type(kind) in _PLAIN or isinstance(kind, kinds.EnumType)

    def _containers(self, types: frozenset[type], inner: Callable[[list[Any]], bool]) -> Whole:
        def whole_containers(column: Iterable[Any]) -> bool:
            column = column if type(column) is list else list(column)
            if not column:  # a type may contain itself, and goes on for ever
                return True
            return types.issuperset(map(type, column)) and inner(column)

        return whole_containers

    def _union(self, kind: kinds.UnionType) -> Whole:
        """The check of several types: the values of each are a column by themselves."""
        known = types_of(kind)
        inside = {
            one: self.of(part)
            for part in map(bare_kind, kind.types)
            if not self._is_settled(part)
            for one in types_of(part)
        }

        def whole_union(column: Iterable[Any]) -> bool:
            column = list(column)
            there = set(map(type, column))
            return there <= known and all(
                inside[one]([v for v in column if type(v) is one]) for one in there & inside.keys()
            )

        return whole_union

    def _inner(self, kind: kinds.Type) -> Callable[[list[Any]], bool]:
        """The function for what is in values of a kind."""
        if isinstance(kind, kinds.DictType):
            keys, values = self.of(kind.key_type), self.of(kind.value_type)
            return lambda column: keys(_flat(column)) and values(_flat(map(dict.values, column)))
        if isinstance(kind, kinds.LiteralType):
            known = set(kind.values)
            return lambda column: known.issuperset(column)
        if isinstance(kind, kinds.TupleType):
            return self._places(kind)
        if isinstance(kind, kinds.TypedDictType):
            return self._names(kind)
        if type(kind) in _ARRAYS:
            items = self.of(kind.item_type)  # type: ignore[attr-defined]
            return lambda column: items(_flat(column))
        return self._fields(kind)

    def _places(self, kind: kinds.TupleType) -> Callable[[list[Any]], bool]:
        count, places = {len(kind.item_types)}, list(map(self.of, kind.item_types))
        return lambda column: (
            count.issuperset(map(len, column))
            and all(
                place(entries)
                for place, entries in zip(places, zip(*column, strict=True), strict=False)
            )
        )

    def _names(self, kind: kinds.TypedDictType) -> Callable[[list[Any]], bool]:
        names = [(field.name, self.of(field.type)) for field in kind.fields]
        return lambda column: all(
            check([one[name] for one in column if name in one]) for name, check in names
        )

    def _fields(self, kind: Any) -> Callable[[list[Any]], bool]:
        fields = [(attrgetter(field.name), self.of(field.type)) for field in kind.fields]

        def whole_fields(column: list[Any]) -> bool:
            try:
                return all(check(map(get, column)) for get, check in fields)
            except AttributeError:  # one is not set
                return False

        return whole_fields


def _whole_offsets(column: list[Any]) -> bool:
    """True of times whose offsets from UTC are whole minutes: JSON writes no seconds of them."""
    zones = set(map(_zone_of, column))
    zones.discard(None)
    if all(type(zone) is timezone for zone in zones):  # one offset at all times
        offsets = [zone.utcoffset(None) for zone in zones]
    else:
        offsets = [one.utcoffset() or _MINUTE for one in column]
    return not any(offset % _MINUTE for offset in offsets)


def _numbers(column: Iterable[Any]) -> bool:
    """True of numbers that JSON has: a sum is finite only if each number is."""
    column = list(column)
    if not _PLAIN[kinds.FloatType].issuperset(map(type, column)):
        return False
    try:
        return isfinite(sum(column)) or all(map(isfinite, column))
    except OverflowError:  # an int beyond all floats
        return False


def types_of(kind: kinds.Type) -> frozenset[type]:
    """The exact types of values of a kind; empty if they are not known."""
    kind = bare_kind(kind)
    if isinstance(kind, kinds.UnionType):
        members = list(map(types_of, kind.types))
        return frozenset().union(*members) if all(members) else frozenset()
    if isinstance(kind, kinds.DictType | kinds.TypedDictType):
        return frozenset({dict})
    if isinstance(kind, kinds.TupleType):
        return frozenset({tuple})
    if isinstance(kind, kinds.LiteralType):
        return frozenset(map(type, kind.values))
    cls = class_of(kind)
    if cls is not None:
        return frozenset({cls})
    array = _ARRAYS.get(type(kind))
    return frozenset({array}) if array else _PLAIN.get(type(kind), frozenset())


def equal(value: Any, read: Any) -> bool:
    """True if a value is equal to what was read back."""
    try:
        return bool(read == value)
    except Exception:  # a class that cannot be compared with another
        return False


def loss(value: Any, read: Any) -> str | None:
    """The name of a type in a value of which something is lost where it is read back as another.

    A tuple is read as a list, a time as text: they are the same in memory and on disk, since what
    is kept is a copy by its bytes. None: nothing is lost.
    """
    if isinstance(value, UNSURVIVING):
        return None if isinstance(read, bytes | set | frozenset) else type(value).__name__
    if isinstance(value, dict) and isinstance(read, Mapping):
        strange = next((name for name in read if name not in value), None)
        if strange is not None:
            return "keys that are no text"
        return next((lost for name in read if (lost := loss(value[name], read[name]))), None)
    if isinstance(value, list | tuple) and isinstance(read, list | tuple):
        return next(
            (lost for pair in zip(value, read, strict=False) if (lost := loss(*pair))), None
        )
    names = fields_of(value)
    if isinstance(read, Mapping):
        pairs = ((getattr(value, name, None), read[name]) for name in names if name in read)
    elif type(value) is type(read):
        pairs = ((getattr(value, name, None), getattr(read, name, None)) for name in names)
    else:
        return None
    return next((lost for pair in pairs if (lost := loss(*pair))), None)


def narrowed(value: Any, read: Any) -> str | None:
    """The reason why a part of a value is read back as an object of another class.

    None: no part is. A subclass in a field of its base would lose the fields that it has beside.
    """
    if (lost := other_class(value, read)) is not None:
        return lost
    if isinstance(value, dict) and isinstance(read, dict):
        pairs = [(one, read[name]) for name, one in value.items() if name in read]
    else:
        pairs = list(zip(inside(value), inside(read), strict=False))
    return next((lost for pair in pairs if (lost := narrowed(*pair))), None)


def other_class(value: Any, read: Any) -> str | None:
    """The reason why an object is read back as one of another class; None: it is not."""
    if type(value) is type(read) or not (fields_of(value) and fields_of(read)):
        return None
    return f"a {type(value).__name__} in it would be read back as a {type(read).__name__}"


def inside(value: Any) -> list[Any]:
    """The values of the fields or entries of a value, in order."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    return [getattr(value, name, None) for name in fields_of(value)]
