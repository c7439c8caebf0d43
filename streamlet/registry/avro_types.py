"""Avro schemas of Python types: dataclasses, attrs classes, ``msgspec.Struct`` and their parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, TypeAlias
from uuid import UUID

import msgspec
import msgspec.inspect as kinds

from streamlet.errors import SerdeError
from streamlet.serdes.avro import named_types
from streamlet.serdes.json_types import bare_kind, describe, type_name

#: Turns a value into another form; None: the two are the same.
Change: TypeAlias = Callable[[Any], Any] | None

#: Python's types that are values of Avro as they are, and not by their text.
_NATIVE = (bytes, datetime, date, time, UUID)
_PLAIN: dict[type[kinds.Type], Any] = {
    kinds.NoneType: "null",
    kinds.BoolType: "boolean",
    kinds.IntType: "long",
    kinds.FloatType: "double",
    kinds.StrType: "string",
    kinds.BytesType: "bytes",
    kinds.UUIDType: {"type": "string", "logicalType": "uuid"},
    kinds.DateType: {"type": "int", "logicalType": "date"},
    kinds.TimeType: {"type": "long", "logicalType": "time-micros"},
    kinds.DateTimeType: {"type": "long", "logicalType": "timestamp-micros"},
}
#: Types of Avro that a union has once, with Python's types of their values, and of logical ones.
_OF_SORT: dict[str, type] = {
    "null": NoneType,
    "boolean": bool,
    "int": int,
    "long": int,
    "double": float,
    "string": str,
    "bytes": bytes,
    "enum": str,
    "array": list,
}
_OF_LOGICAL: dict[str, type] = {
    "uuid": UUID,
    "date": date,
    "time-micros": time,
    "timestamp-micros": datetime,
}
_UNNAMED = frozenset({*_OF_SORT, "map"}) - {"enum"}
_RECORDS = (kinds.StructType, kinds.DataclassType, kinds.TypedDictType)
_TUPLES = (kinds.NamedTupleType, kinds.TupleType)
_ARRAYS = (kinds.ListType, kinds.SetType, kinds.FrozenSetType, kinds.VarTupleType)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INSTEAD = "give schema= beside the type"
_DICTS = "give a schema in place of the type, for dicts"


def schema_of(of: Any, namespace: str) -> Any:
    """The Avro schema of a type; a class is a record of its name in a namespace.

    ``int`` is a ``long``, ``float`` a ``double``, an ``Enum`` of texts an ``enum``, ``X | None`` a
    union with null, ``datetime`` a ``timestamp-micros``. Defaults of fields are the schema's.

    Raises:
        SerdeError: Avro has nothing for a part of it.
    """
    return _Schemas(of, namespace).of(describe(of))


class _Schemas:
    """Makes the schema of one type; a class met again is its name."""

    def __init__(self, of: Any, namespace: str) -> None:
        self._of, self._namespace = of, namespace
        self._named: dict[type, str] = {}

    def of(self, kind: kinds.Type) -> Any:
        kind = bare_kind(kind)
        if type(kind) in _PLAIN:
            return _PLAIN[type(kind)]
        if isinstance(kind, kinds.UnionType):
            return self._union([self.of(one) for one in kind.types])
        if isinstance(kind, _ARRAYS):
            return {"type": "array", "items": self.of(kind.item_type)}
        if isinstance(kind, kinds.DictType) and isinstance(bare_kind(kind.key_type), kinds.StrType):
            return {"type": "map", "values": self.of(kind.value_type)}
        if isinstance(kind, kinds.EnumType):
            return self._enum(kind.cls)
        if isinstance(kind, _RECORDS):
            return self._record(kind)
        instead = _DICTS if isinstance(kind, _TUPLES) else _INSTEAD
        raise self._none(type(kind).__name__.removesuffix("Type"), instead)

    def _union(self, members: list[Any]) -> list[Any]:
        sorts = [one["type"] if isinstance(one, dict) else one for one in members]
        for sort in sorts:
            if sorts.count(sort) > 1 and sort in _UNNAMED:
                raise self._none(f"a union of two that are both {sort} in Avro", _DICTS)
        return sorted(members, key=lambda one: isinstance(one, dict) and "logicalType" in one)

    def _none(self, what: str, instead: str = _INSTEAD) -> SerdeError:
        return SerdeError(f"no Avro schema for {type_name(self._of)}: {what}; {instead}")

    def _enum(self, of: type[Any]) -> Any:
        symbols = [one.value for one in of]
        if all(type(one) is int for one in symbols):
            return "long"
        if not all(isinstance(one, str) and _NAME.fullmatch(one) for one in symbols):
            raise self._none(f"the values of {of.__name__} are no names")
        name = self._named.get(of)
        return name if name is not None else {**self._new(of, "enum"), "symbols": symbols}

    def _new(self, of: type, sort: str) -> dict[str, Any]:
        name = re.sub(r"\W", "_", of.__name__)
        full = f"{self._namespace}.{name}" if self._namespace else name
        if full in self._named.values():
            raise self._none(f"two classes are named {name}")
        self._named[of] = full
        return {"type": sort, "name": full}

    def _record(self, kind: Any) -> Any:
        if getattr(kind, "tag_field", None) is not None or getattr(kind, "array_like", False):
            raise self._none(f"{kind.cls.__name__} has a tag, or is written as an array", _DICTS)
        name = self._named.get(kind.cls)
        if name is not None:
            return name
        record = self._new(kind.cls, "record")
        return {**record, "fields": [self._field(one) for one in kind.fields]}

    def _field(self, field: kinds.Field) -> dict[str, Any]:
        if not _NAME.fullmatch(field.encode_name):
            raise self._none(f"the field {field.encode_name!r} is no name in Avro")
        of = self.of(field.type)
        default = _default(field)
        if isinstance(of, list):  # the default of a union is one of its first type
            is_null = default is None or default is msgspec.NODEFAULT
            of = sorted(of, key=lambda one: ((one == "null") != is_null, not _fits(one, default)))
        found: dict[str, Any] = {"name": field.encode_name, "type": of}
        if default is not msgspec.NODEFAULT:
            try:
                found["default"] = _in_schema(default)
            except TypeError:
                what = f"the default of {field.encode_name} is a time without a zone"
                raise self._none(what) from None
        elif not field.required and isinstance(of, list) and "null" in of:
            found["default"] = None
        elif not field.required and field.default_factory is msgspec.NODEFAULT:  # of a TypedDict
            raise self._none(f"{field.encode_name} may be left out: annotate it with | None, too")
        return found


def _default(field: kinds.Field) -> Any:
    """The default of a field as Avro's types have it; NODEFAULT: it has none."""
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    if default is msgspec.NODEFAULT:
        return default
    return msgspec.to_builtins(default, builtin_types=_NATIVE, order="deterministic")


def _in_schema(default: Any) -> Any:
    """A default as a schema has it: JSON, with text for bytes and numbers for times."""
    if isinstance(default, dict):
        return {name: _in_schema(one) for name, one in default.items()}
    if isinstance(default, list | tuple):
        return list(map(_in_schema, default))
    if isinstance(default, bytes):
        return default.decode("iso-8859-1")
    if isinstance(default, datetime):
        return (default - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if isinstance(default, date):
        return default.toordinal() - date(1970, 1, 1).toordinal()
    if isinstance(default, time):
        at = timedelta(hours=default.hour, minutes=default.minute, seconds=default.second)
        return (at + timedelta(microseconds=default.microsecond)) // timedelta(microseconds=1)
    return str(default) if isinstance(default, UUID) else default


def _fits(schema: Any, default: Any) -> bool:
    """True if a default is of a member of a union."""
    sort = schema["type"] if isinstance(schema, dict) else schema
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    of = _OF_LOGICAL.get(logical or "") or _OF_SORT.get(sort, dict)
    return type(default) is of or (of is float and type(default) is int)


def converters(of: Any, schema: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Functions from a value of the type, or a list of some, to what Avro writes, and back.

    ``schema`` says which decimals are such in Avro; the others are text.
    """
    decimals = _decimals(schema, named_types(schema), ())

    def lower(value: Any) -> Any:
        lowered = msgspec.to_builtins(value, builtin_types=_NATIVE)
        if decimals is None:
            return lowered
        return list(map(decimals, lowered)) if type(value) is list else decimals(lowered)

    def lift(value: Any) -> Any:
        return msgspec.convert(value, of)

    return lower, lift


def _decimals(schema: Any, named: Mapping[str, Any], above: tuple[str, ...]) -> Change:
    """The change of text into decimals, in values of a schema; None: it has none."""
    if isinstance(schema, list):
        found = [change for one in schema if (change := _decimals(one, named, above))]
        return found[0] if len(found) == 1 else None
    of = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(of, str) or of.get("name") in above:
        return None
    sort = of["type"]
    if of.get("logicalType") == "decimal":
        return lambda value: Decimal(value) if isinstance(value, str) else value
    if isinstance(sort, dict | list):
        return _decimals(sort, named, above)
    if sort == "array":
        return _of_each(_decimals(of["items"], named, above))
    if sort == "map":
        return _of_entries(dict[str, Change](), _decimals(of["values"], named, above))
    inner = (*above, of["name"]) if "name" in of else above
    fields = {one["name"]: _decimals(one["type"], named, inner) for one in of.get("fields", ())}
    return _of_entries(fields, None) if any(fields.values()) else None


def _of_each(change: Change) -> Change:
    if change is None:
        return None
    return lambda items: list(map(change, items)) if isinstance(items, list) else items


def _of_entries(by_name: Mapping[str, Change], others: Change) -> Change:
    if others is None and not by_name:
        return None

    def changed(entries: Any) -> Any:
        if not isinstance(entries, dict):
            return entries
        changes = ((name, by_name.get(name, others)) for name in entries)
        return {**entries, **{name: of(entries[name]) for name, of in changes if of is not None}}

    return changed
