"""Avro schemas of Python types: dataclasses, attrs classes, ``msgspec.Struct`` and their parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any
from uuid import UUID

import msgspec
import msgspec.inspect as kinds

from streamlet.errors import SerdeError
from streamlet.serdes.json_types import describe, type_name

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
_RECORDS = (kinds.StructType, kinds.DataclassType, kinds.TypedDictType)
_ARRAYS = (kinds.ListType, kinds.SetType, kinds.FrozenSetType, kinds.VarTupleType)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INSTEAD = "give schema= beside the type"


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
        if isinstance(kind, kinds.Metadata):
            return self.of(kind.type)
        if type(kind) in _PLAIN:
            return _PLAIN[type(kind)]
        if isinstance(kind, kinds.UnionType):
            return [self.of(one) for one in kind.types]
        if isinstance(kind, _ARRAYS):
            return {"type": "array", "items": self.of(kind.item_type)}
        if isinstance(kind, kinds.DictType) and isinstance(_bare(kind.key_type), kinds.StrType):
            return {"type": "map", "values": self.of(kind.value_type)}
        if isinstance(kind, kinds.EnumType):
            return self._enum(kind.cls)
        if isinstance(kind, _RECORDS):
            return self._record(kind)
        raise self._none(type(kind).__name__.removesuffix("Type"))

    def _none(self, what: str) -> SerdeError:
        return SerdeError(f"no Avro schema for {type_name(self._of)}: {what}; {_INSTEAD}")

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
            raise self._none(f"{kind.cls.__name__} has a tag, or is written as an array")
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
        if isinstance(of, list) and "null" in of:
            # The default of a union is one of its first type.
            rest = [one for one in of if one != "null"]
            of = ["null", *rest] if default in (None, msgspec.NODEFAULT) else [*rest, "null"]
        found: dict[str, Any] = {"name": field.encode_name, "type": of}
        if default is not msgspec.NODEFAULT:
            found["default"] = default
        elif not field.required and isinstance(of, list) and "null" in of:
            found["default"] = None
        return found


def _default(field: kinds.Field) -> Any:
    """The default of a field as a schema has it; NODEFAULT: it has none that a schema can have."""
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
        if default not in ([], {}):
            return msgspec.NODEFAULT
    if type(default) is bytes:
        return default.decode("iso-8859-1")
    if default is None or isinstance(default, str | int | float | bool | list | dict):
        return msgspec.to_builtins(default)
    return getattr(default, "value", msgspec.NODEFAULT)  # of an Enum


def _bare(kind: kinds.Type) -> kinds.Type:
    return kind.type if isinstance(kind, kinds.Metadata) else kind


def converters(of: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Functions from a value of the type to what Avro writes, and back."""

    def lower(value: Any) -> Any:
        return msgspec.to_builtins(value, builtin_types=_NATIVE)

    def lift(value: Any) -> Any:
        return msgspec.convert(value, of)

    return lower, lift
