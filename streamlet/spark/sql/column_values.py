"""Values of columns where Arrow has them in another form than msgspec and fastavro do.

Arrow has records as dicts. JSON has those of a NamedTuple, and of a ``msgspec.Struct`` with
``array_like``, as lists. Avro takes decimals with the places of the schema, and times as such.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import attrs
import msgspec
import msgspec.inspect as kinds

from streamlet.serdes.avro import named_types
from streamlet.serdes.json_decoders import class_of
from streamlet.serdes.json_types import bare_kind, describe, takes_none
from streamlet.spark.sql.column_types import only_member

#: Turns a value that is not None into its other form; None: the two are the same.
Change: TypeAlias = Callable[[Any], Any] | None

#: What Arrow takes as it is.
_KEPT = (bytes, datetime, date, timedelta, Decimal)
_LISTS = (kinds.ListType, kinds.VarTupleType, kinds.SetType, kinds.FrozenSetType)


def builtins_of(value: Any) -> Any:
    """A value as Arrow takes it: text, numbers, lists and dicts, and what it has types for."""
    return msgspec.to_builtins(value, builtin_types=_KEPT, str_keys=True)


def from_column(declared: Any) -> Change:
    """From a column's values to those that the declared type is made of."""
    if isinstance(declared, dict | list | str):
        return _into_avro(declared, named_types(declared), ())
    return _changed(describe(declared), _FROM, ())


def into_column(declared: Any) -> Change:
    """From the values that a declared type consists of to those of a column."""
    if isinstance(declared, dict | list | str):
        return None
    return _changed(describe(declared), _INTO, ())


@attrs.frozen
class _Way:
    """The changes of records on the way from a column, or into one."""

    #: Of those that are lists, by their fields' changes, and their tag with its name.
    lists: Callable[[dict[str, Change], tuple[Any, ...]], Change]
    #: Of those that may be without some of their fields.
    gaps: Callable[[kinds.Type], Change]


def _changed(kind: kinds.Type, way: _Way, above: tuple[Any, ...]) -> Change:
    """The change of a described type."""
    kind = bare_kind(kind)
    if isinstance(kind, kinds.UnionType):
        rest = [one for one in kind.types if not isinstance(one, kinds.NoneType)]
        return _changed(rest[0], way, above) if len(rest) == 1 else None
    if isinstance(kind, _LISTS):
        return _each(_changed(kind.item_type, way, above))
    if isinstance(kind, kinds.DictType):
        return _each_value(_changed(kind.value_type, way, above))
    fields: tuple[kinds.Field, ...] = getattr(kind, "fields", ())
    cls = getattr(kind, "cls", None)
    if not fields or cls in above:
        return None
    inner = {one.encode_name: _changed(one.type, way, (*above, cls)) for one in fields}
    if isinstance(kind, kinds.NamedTupleType) or getattr(kind, "array_like", False):
        tag = getattr(kind, "tag", None)
        change = way.lists(inner, () if tag is None else (getattr(kind, "tag_field", ""), tag))
    else:
        change = _by_name(inner)
    return _in_turn(*((change, way.gaps(kind)) if way is _INTO else (way.gaps(kind), change)))


def _in_turn(one: Change, other: Change) -> Change:
    if one is None or other is None:
        return one or other
    return lambda value: other(one(value))


def _without_nulls(kind: kinds.Type) -> Change:
    """Leaves out what a TypedDict need not have: in a column it is null."""
    if not isinstance(kind, kinds.TypedDictType):
        return None
    fields = [one for one in kind.fields if not one.required and not takes_none(one.type)]
    names = frozenset(one.encode_name for one in fields)
    if not names:
        return None
    return lambda row: {
        name: one for name, one in row.items() if one is not None or name not in names
    }


def _with_defaults(kind: kinds.Type) -> Change:
    """Puts in what a Struct with ``omit_defaults`` is written without."""
    if not (isinstance(kind, kinds.StructType) and class_of(kind).__struct_config__.omit_defaults):
        return None
    of = {one.name: one.encode_name for one in kind.fields if not one.required}
    defaults = {
        of[one.name]: builtins_of(
            one.default_factory() if one.default is msgspec.NODEFAULT else one.default
        )
        for one in msgspec.structs.fields(class_of(kind))
        if one.name in of
    }
    return lambda row: {**defaults, **row}


def _each(change: Change) -> Change:
    if change is None:
        return None
    return lambda values: [None if one is None else change(one) for one in values]


def _each_value(change: Change) -> Change:
    if change is None:
        return None
    return lambda values: {
        name: None if one is None else change(one) for name, one in values.items()
    }


def _by_name(changes: dict[str, Change]) -> Change:
    inner = {name: change for name, change in changes.items() if change is not None}
    if not inner:
        return None

    def changed(row: Any) -> Any:
        there = {name: row[name] for name in inner if row.get(name) is not None}
        return {**row, **{name: inner[name](one) for name, one in there.items()}}

    return changed


def _to_dict(changes: dict[str, Change], tag: tuple[Any, ...]) -> Change:
    names = [*tag[:1], *changes]
    inner = _by_name(changes)

    def changed(values: Any) -> Any:
        row = dict(zip(names, values, strict=False))
        return row if inner is None else inner(row)

    return changed


def _to_list(changes: dict[str, Change], tag: tuple[Any, ...]) -> Change:
    inner = _by_name(changes)

    def changed(row: Any) -> Any:
        if not isinstance(row, dict):
            return row  # a column of lists, as JSON has them
        row = row if inner is None else inner(row)
        found = [row[name] for name in changes if name in row]
        missing = [name for name in changes if name not in row]
        if missing and set(changes) - set(missing) != set(list(changes)[: len(found)]):
            raise msgspec.ValidationError(f"Object missing required field `{missing[0]}`")
        return [*tag[1:], *found]

    return changed


_FROM = _Way(_to_list, _without_nulls)
_INTO = _Way(_to_dict, _with_defaults)


def _into_avro(schema: Any, named: dict[str, Any], above: tuple[str, ...]) -> Change:
    schema = only_member(schema)
    sort = schema.get("type")
    if isinstance(sort, str) and sort in named:
        schema = named[sort]
        sort = schema["type"]
    logical = schema.get("logicalType")
    if logical == "decimal":
        return _with_places(schema.get("scale", 0))
    if logical in ("time-millis", "time-micros"):
        return lambda value: time.fromisoformat(value) if isinstance(value, str) else value
    if sort == "record":
        if schema["name"] in above:
            return None
        inner = (*above, schema["name"])
        fields = schema["fields"]
        return _by_name({one["name"]: _into_avro(one["type"], named, inner) for one in fields})
    if sort == "array":
        return _each(_into_avro(schema["items"], named, above))
    if sort == "map":
        return _each_value(_into_avro(schema["values"], named, above))
    return _into_avro(sort, named, above) if isinstance(sort, dict | list) else None


def _with_places(scale: int) -> Change:
    unit = Decimal(1).scaleb(-scale)

    def changed(value: Any) -> Any:
        """The same number, with the places of the schema if it has no more."""
        if not isinstance(value, Decimal) or not value.is_finite():
            return value
        places = value.normalize()
        exponent = places.as_tuple().exponent
        fits = isinstance(exponent, int) and -exponent <= scale
        return places.quantize(unit) if fits else value

    return changed
