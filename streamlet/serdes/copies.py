"""Copies of Python objects in memory, just as they are.

``Serde.copy`` makes a copy as the bytes would return; these copies keep what bytes do not, such as
a tuple in a document. A value that cannot change is its own copy.
"""

from __future__ import annotations

import copy
import copyreg
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address
from itertools import chain
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any
from uuid import UUID

import msgspec

from streamlet.columnwise import all_of, flat_copies
from streamlet.errors import SerdeError
from streamlet.serdes.json_types import describe, is_immutable
from streamlet.serdes.windowed import Windowed

#: Types whose values cannot change. Functions and the like are not data, so they are shared.
_FIXED = frozenset(
    {str, int, float, bool, NoneType, bytes, complex, UUID, Decimal, Fraction, range, slice}
    | {datetime, date, time, timedelta, timezone, IPv4Address, IPv6Address, type}
    | {FunctionType, BuiltinFunctionType, MethodType, ModuleType, type(Ellipsis)}
)
_all_fixed = _FIXED.issuperset

#: The attributes by which structs, dataclasses and attrs classes are known.
_CLASSES = ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__")

_NOTHING = object()

#: The functions that copy values of other types; None: they cannot change.
_BY_TYPE: dict[type, Callable[[Any], Any] | None] = {}


def own(value: Any) -> Any:
    """A value that shares nothing which can change with the given one.

    What cannot be copied, such as an open file, is returned itself.
    """
    kind = type(value)
    if kind in _FIXED:
        return value
    if kind is dict:
        for inner in value.values():
            if type(inner) not in _FIXED:
                break
        else:
            return value.copy()
    try:
        return _deep(value)
    except RecursionError:  # a dict within itself, perhaps
        return _own_object(value)


def _deep(value: Any) -> Any:
    """A copy of a value that is not of a fixed type."""
    kind = type(value)
    if kind is dict:
        new = value.copy()
        for name, inner in value.items():
            if type(inner) not in _FIXED:
                new[name] = _deep(inner)
        return new
    if kind is list:
        if _all_fixed(map(type, value)):
            return value.copy()
        return [inner if type(inner) in _FIXED else _deep(inner) for inner in value]
    try:
        copied = _BY_TYPE[kind]
    except KeyError:
        copied = _BY_TYPE[kind] = _copier(kind)
    return value if copied is None else copied(value)


def own_column(column: list[Any]) -> list[Any]:
    """The column with a copy of each value; itself where no value can change."""
    if column and type(column[0]) in _FIXED and all_of(column, type(column[0])):
        return column
    if flat_copies is not None and column and type(column[0]) is dict:
        copied: list[Any] | None = flat_copies(column)
        if copied is not None:
            return copied
    kinds = set(map(type, column))
    if kinds <= _FIXED or all(map(_is_fixed, kinds)):
        return column
    if kinds == {Windowed} and _all_fixed({type(window[0]) for window in column}):
        return column
    if kinds == {dict} and _all_fixed(map(type, chain.from_iterable(map(dict.values, column)))):
        return list(map(dict.copy, column))
    return list(map(own, column))


def _is_fixed(kind: type) -> bool:
    """True for a type whose values cannot change."""
    if kind in _FIXED:
        return True
    if kind not in _BY_TYPE:
        if kind is dict or kind is list:
            return False
        _BY_TYPE[kind] = _copier(kind)
    return _BY_TYPE[kind] is None


def _copier(kind: type) -> Callable[[Any], Any] | None:
    """The function that copies values of a type; None: they cannot change."""
    if issubclass(kind, (Enum, type, PurePath)) or _is_frozen(kind):
        return None
    if kind is tuple:
        return _own_tuple
    if issubclass(kind, tuple) and hasattr(kind, "_make"):
        make: Callable[[Any], Any] = kind._make
        return lambda value: value if _all_fixed(map(type, value)) else make(map(own, value))
    if kind is set:
        return lambda value: set(map(own, value))
    if issubclass(kind, msgspec.Struct) and "__post_init__" not in dir(kind):
        return _own_struct
    return _by_fields(kind) if _is_plain(kind) else _own_object


def _is_plain(kind: Any) -> bool:
    """True for a class whose objects are their attributes, and that copies them no other way."""
    if any(hasattr(kind, name) for name in ("__deepcopy__", "__copy__", "__getnewargs_ex__")):
        return False
    usual = ["__new__", "__reduce__", "__reduce_ex__"]
    if not any(hasattr(kind, mark) for mark in _CLASSES):  # these make such functions themselves
        usual += ["__getstate__"]
        if hasattr(kind, "__setstate__"):
            return False
    if any(getattr(kind, name) is not getattr(object, name) for name in usual):
        return False
    try:
        object.__new__(kind)
    except TypeError:  # a class written in C, or an abstract one
        return False
    return True


def _by_fields(kind: type) -> Callable[[Any], Any]:
    """The function that copies objects attribute by attribute."""
    slots = list(copyreg._slotnames(kind))  # type: ignore[attr-defined]
    has_dict = kind.__dictoffset__ != 0

    def copied(value: Any) -> Any:
        new: Any = object.__new__(kind)
        if has_dict:
            attributes = new.__dict__
            attributes.update(value.__dict__)
            for name, inner in value.__dict__.items():
                if type(inner) not in _FIXED:
                    attributes[name] = _deep(inner)
        for name in slots:
            inner = getattr(value, name, _NOTHING)
            if inner is not _NOTHING:
                inner = inner if type(inner) in _FIXED else _deep(inner)
                object.__setattr__(new, name, inner)
        return new

    return copied


def _is_frozen(kind: type) -> bool:
    """True for a class whose values, and all in them, are frozen."""
    if not any(hasattr(kind, mark) for mark in _CLASSES):
        return False
    try:
        return is_immutable(describe(kind))
    except SerdeError:
        return False


def _own_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return value if _all_fixed(map(type, value)) else tuple(map(own, value))


def _own_struct(value: msgspec.Struct) -> msgspec.Struct:
    new = copy.copy(value)
    for name in value.__struct_fields__:
        inner = getattr(value, name)
        if type(inner) not in _FIXED:
            msgspec.structs.force_setattr(new, name, own(inner))
    return new


def _own_object(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # a lock, a socket, a generator: nothing that is written anywhere
        return value
