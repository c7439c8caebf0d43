"""The Arrow types of what a serde declares: Python types by msgspec's description, Avro schemas.

A type is None where no column can hold every value of it; such a key or value stays bytes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import msgspec.inspect as kinds
import pyarrow as pa

from streamlet.serdes import Serde, Windowed
from streamlet.serdes.avro import named_types
from streamlet.serdes.json_decoders import class_of
from streamlet.serdes.json_types import bare_kind, describe
from streamlet.serdes.pydantic_models import is_pydantic

#: Spark's times: microseconds.
_INSTANT = pa.timestamp("us", tz="UTC")
_DECIMAL = pa.decimal128(38, 18)

_SCALARS: tuple[tuple[type[kinds.Type], pa.DataType], ...] = (
    (kinds.BoolType, pa.bool_()),
    (kinds.IntType, pa.int64()),
    (kinds.FloatType, pa.float64()),
    (kinds.StrType, pa.string()),
    (kinds.UUIDType, pa.string()),
    (kinds.BytesType, pa.binary()),
    (kinds.DateTimeType, _INSTANT),
    (kinds.DateType, pa.date32()),
    (kinds.TimeType, pa.string()),
    (kinds.TimeDeltaType, pa.duration("us")),
    (kinds.DecimalType, _DECIMAL),
)
_LISTS = (kinds.ListType, kinds.VarTupleType, kinds.SetType, kinds.FrozenSetType)
_RECORDS = (
    kinds.DataclassType,
    kinds.TypedDictType,
    kinds.NamedTupleType,
    kinds.StructType,
)

_AVRO: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
}
#: Those of other logical types are as if they had none.
_AVRO_LOGICAL: dict[str, pa.DataType | None] = {
    "timestamp-millis": _INSTANT,
    "timestamp-micros": _INSTANT,
    "timestamp-nanos": None,
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": None,
    "date": pa.date32(),
    "time-millis": pa.string(),
    "time-micros": pa.string(),
    "uuid": pa.string(),
    "decimal": _DECIMAL,
}


def column_type(serde: Serde[Any]) -> pa.DataType | None:
    """The type of a column with all values of a serde; None: only their bytes are one."""
    declared = serde.declared
    if declared is None or is_pydantic(declared):
        return None
    if isinstance(declared, dict | list | str):
        return _of_avro(declared, (), named_types(declared))
    if getattr(declared, "__origin__", None) is Windowed:
        inner = _of_kind(describe(declared.__args__[0]), ())
        return inner and pa.struct([("key", inner), ("start", pa.int64()), ("end", pa.int64())])
    return _of_kind(describe(declared), ())


def is_document(serde: Serde[Any]) -> bool:
    """True for ``dict`` and ``json()``: a row of any columns is a value."""
    return serde.declared is None and serde.accepts <= {dict} and serde.format == "json"


def required_fields(serde: Serde[Any]) -> frozenset[str]:
    """The fields of a record type that a row must have, because they have no default."""
    declared = serde.declared
    if isinstance(declared, dict | list | str):
        fields = only_member(declared).get("fields", ())
        return frozenset(field["name"] for field in fields if "default" not in field)
    described = describe(declared)
    fields = getattr(described, "fields", ())
    return frozenset(field.encode_name for field in fields if field.required)


def fits(column: pa.DataType, wanted: pa.DataType) -> bool:
    """True if values of a column can be those of the wanted type, without a loss."""
    if pa.types.is_struct(wanted):
        return bool(pa.types.is_struct(column))  # its fields are looked at one by one
    if pa.types.is_list(wanted):
        return pa.types.is_list(column) and fits(column.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        return pa.types.is_struct(column) or (
            pa.types.is_map(column)
            and fits(column.key_type, wanted.key_type)
            and fits(column.item_type, wanted.item_type)
        )
    if pa.types.is_floating(wanted):
        return bool(pa.types.is_floating(column) or pa.types.is_integer(column))
    alike: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_integer,
        pa.types.is_timestamp,
        pa.types.is_duration,
        pa.types.is_decimal,
        pa.types.is_string,
        pa.types.is_binary,
    )
    return bool(column == wanted) or any(sort(column) and sort(wanted) for sort in alike)


def misfit(column: pa.DataType, wanted: pa.DataType, required: Iterable[str] = ()) -> str | None:
    """The first field in which a column is not of the wanted type, and why; None: it is."""
    if not fits(column, wanted):
        return f" is {column}, and {wanted} is needed"
    if not (pa.types.is_struct(wanted) and pa.types.is_struct(column)):
        return None
    there = {field.name: field.type for field in column}
    missing = sorted(set(required) - there.keys())
    if missing:
        return f".{missing[0]} is missing (there are {', '.join(there)})"
    for field in wanted:
        if field.name in there:
            inner = misfit(there[field.name], field.type)
            if inner is not None:
                return f".{field.name}{inner}"
    return None


def _of_kind(kind: kinds.Type, above: tuple[type, ...]) -> pa.DataType | None:
    kind = bare_kind(kind)
    for sort, found in _SCALARS:
        if isinstance(kind, sort):
            return found
    if isinstance(kind, kinds.EnumType | kinds.LiteralType):
        return _of_members(kind)
    if isinstance(kind, kinds.UnionType):
        rest = [one for one in kind.types if not isinstance(one, kinds.NoneType)]
        return _of_kind(rest[0], above) if len(rest) == 1 else None
    if isinstance(kind, _LISTS):
        item = _of_kind(kind.item_type, above)
        return item and pa.list_(item)
    if isinstance(kind, kinds.DictType):
        item = _of_kind(kind.value_type, above)
        is_text = isinstance(bare_kind(kind.key_type), kinds.StrType)
        return pa.map_(pa.string(), item) if is_text and item is not None else None
    return _of_record(kind, above) if isinstance(kind, _RECORDS) else None


def _of_record(kind: Any, above: tuple[type, ...]) -> pa.DataType | None:
    if kind.cls in above:  # a type that contains itself
        return None
    inner = (*above, kind.cls)
    fields = [(field.encode_name, _of_kind(field.type, inner)) for field in kind.fields]
    if isinstance(kind, kinds.TypedDictType):  # which msgspec sorts by name
        order = list(inspect.get_annotations(class_of(kind)))
        fields.sort(key=lambda field: order.index(field[0]))
    tag = getattr(kind, "tag", None)
    if tag is not None:
        fields.insert(0, (kind.tag_field, pa.string() if isinstance(tag, str) else pa.int64()))
    return _struct(fields)


def _of_members(kind: kinds.EnumType | kinds.LiteralType) -> pa.DataType | None:
    values = [one.value for one in kind.cls] if isinstance(kind, kinds.EnumType) else kind.values
    types = set(map(type, values))
    if types == {str}:
        return pa.string()
    return pa.int64() if types == {int} else None


def only_member(schema: Any) -> Any:
    """A schema, without the null of a union with one other member."""
    if isinstance(schema, list):
        rest = [one for one in schema if one != "null"]
        schema = rest[0] if len(rest) == 1 else {}
    return {"type": schema} if isinstance(schema, str) else schema


def _of_avro(schema: Any, above: tuple[str, ...], named: dict[str, Any]) -> pa.DataType | None:
    schema = only_member(schema)
    sort = schema.get("type")
    if sort is None:
        return None
    if isinstance(sort, str) and sort in named:
        schema = named[sort]
        sort = schema["type"]
    logical = schema.get("logicalType")
    if logical in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical]
    if sort == "record":
        if schema["name"] in above:
            return None
        inner = (*above, schema["name"])
        fields = schema["fields"]
        return _struct((one["name"], _of_avro(one["type"], inner, named)) for one in fields)
    if sort == "array":
        item = _of_avro(schema["items"], above, named)
        return item and pa.list_(item)
    if sort == "map":
        item = _of_avro(schema["values"], above, named)
        return item and pa.map_(pa.string(), item)
    return _AVRO.get(sort) if isinstance(sort, str) else _of_avro(sort, above, named)


def _struct(fields: Iterable[tuple[str, pa.DataType | None]]) -> pa.DataType | None:
    found = list(fields)
    if not found or any(of is None for _, of in found):
        return None
    return pa.struct(found)
