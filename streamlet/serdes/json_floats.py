"""Whole numbers where a type has floats: JSON writes 1 and reads 1.0 there.

Values that can change are kept as copies by their bytes. Of those that cannot, these few are.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

import msgspec.inspect as kinds

from streamlet.serdes.json_types import bare_kind
from streamlet.serdes.json_whole import types_of

#: True of a value whose floats are floats.
Look: TypeAlias = Callable[[Any], bool]


def look_for_floats(described: kinds.Type) -> Look | None:
    """The look for values of a type; None: it has no floats."""
    return _Looks().of(described)


class _Looks:
    """The looks for the parts of a type, which may contain itself."""

    def __init__(self) -> None:
        self._made: dict[int, Look | None] = {}

    def of(self, kind: kinds.Type) -> Look | None:
        kind = bare_kind(kind)
        at = id(kind)
        if at not in self._made:
            later: list[Look | None] = []
            self._made[at] = lambda value: later[0] is None or later[0](value)
            later.append(self._new(kind))
            self._made[at] = later[0]
        return self._made[at]

    def _new(self, kind: kinds.Type) -> Look | None:
        if isinstance(kind, kinds.FloatType):
            return _is_float
        if isinstance(kind, kinds.UnionType):
            return self._union(kind)
        if isinstance(kind, kinds.VarTupleType | kinds.FrozenSetType):
            items = self.of(kind.item_type)
            return None if items is None else lambda value: all(map(items, value))
        if isinstance(kind, kinds.TupleType):
            places = enumerate(map(self.of, kind.item_types))
            return _all_of([(itemgetter(at), look) for at, look in places if look])
        if isinstance(kind, kinds.StructType | kinds.DataclassType | kinds.NamedTupleType):
            fields = [(one.name, look) for one in kind.fields if (look := self.of(one.type))]
            return _all_of([(attrgetter(name), look) for name, look in fields])
        return None

    def _union(self, kind: kinds.UnionType) -> Look | None:
        members = list(map(bare_kind, kind.types))
        looks = {
            one: look
            for member in members
            if not isinstance(member, kinds.FloatType) and (look := self.of(member))
            for one in types_of(member)
        }
        found = {type(member) for member in members}
        if kinds.FloatType in found and kinds.IntType not in found:
            looks[int] = _is_float
        return (lambda value: looks.get(type(value), _is_any)(value)) if looks else None


def _all_of(parts: list[tuple[Callable[[Any], Any], Look]]) -> Look | None:
    if len(parts) == 1:
        ((only, look),) = parts
        return lambda value: look(only(value))
    return (lambda value: all(look(get(value)) for get, look in parts)) if parts else None


def _is_float(value: Any) -> bool:
    return type(value) is float


def _is_any(_value: Any) -> bool:
    return True
