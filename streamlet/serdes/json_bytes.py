"""The bytes of JSON values: one form for equal keys, and none that could not be read back.

The canonical form has the names of dicts and the members of sets in the order of their bytes, and
numbers as their type writes them. Fields of classes are in the order of the class in either form,
and members of sets are sorted where that needs no look at each: hashes differ between processes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any

import attrs
import msgspec
import msgspec.inspect as kinds

from streamlet.errors import SerdeError
from streamlet.serdes.json_decoders import class_of
from streamlet.serdes.json_types import bare_kind, has_demands, is_immutable, parts
from streamlet.serdes.json_whole import (
    Whole,
    documents_survive,
    equal,
    fields_of,
    loss,
    narrowed,
    whole,
    whole_documents,
)
from streamlet.serdes.serde import encode_error
from streamlet.user_code import shown

Encode = Callable[[Any], bytes]
EncodeAll = Callable[[list[Any]], list[bytes]]

plain: Encode = msgspec.json.Encoder().encode
_sorted: Encode = msgspec.json.Encoder(order="deterministic").encode

_OBJECTS = (kinds.DataclassType, kinds.StructType)
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
#: As None is written, and each number that JSON does not have. Looked for by ``find``, which is
#: several times as fast as ``in`` for bytes.
_NULL = b"null"
NO_NUMBER = (
    "JSON has no NaN and no infinity: use None (float | None), Decimal, or a pair (encode, decode)"
)


@attrs.frozen
class JsonForm:
    """One form of the bytes of a type: functions that write a value, and a column."""

    one: Encode
    all: EncodeAll


def _form(encode: Encode) -> JsonForm:
    return JsonForm(encode, lambda column: list(map(encode, column)))


PLAIN = _form(plain)


def encoders(described: kinds.Type, decode: Callable[[bytes], Any]) -> tuple[JsonForm, JsonForm]:
    """The forms of a type: the canonical one, and the one with dicts as they are."""
    found = parts(described)
    sets = [bare_kind(part.item_type) for part in found if isinstance(part, _SETS)]
    dicts = [part for part in found if isinstance(part, kinds.DictType | kinds.TypedDictType)]
    is_open = any(isinstance(part, kinds.AnyType) for part in found)
    if not (sets or dicts or is_open):
        return _as_read(PLAIN, described, decode), PLAIN
    simple = all(isinstance(one, _SORTABLE) for one in sets) and all(
        isinstance(bare_kind(part.key_type), kinds.StrType | kinds.AnyType)
        for part in dicts
        if isinstance(part, kinds.DictType)
    )
    # A column that cannot be sorted so quickly fails, and is then done value by value.
    quick = JsonForm(_deterministic, _form(_sorted).all)
    canonical = quick if simple else _form(canonical_bytes)
    in_order = canonical if sets and not (dicts or is_open) else PLAIN
    return _as_read(canonical, described, decode), in_order


def _as_read(form: JsonForm, described: kinds.Type, decode: Callable[[bytes], Any]) -> JsonForm:
    """A form by way of what is read, where a program may make a value that is written otherwise.

    A float may be given as an int; fields that are no arguments may be unset, or set in any order.
    """
    found, encode = parts(described), form.one

    def as_read(value: Any) -> bytes:
        return encode(decode(encode(value)))

    late = any(map(_sets_late, found))
    if not late and not any(isinstance(part, kinds.FloatType) for part in found):
        return form
    names = () if late else _own_floats(described, found)
    if not names:
        return _form(as_read)
    getters = list(map(attrgetter, names))

    def all_as_read(column: list[Any]) -> list[bytes]:
        same = all(_READ.issuperset(map(type, map(get, column))) for get in getters)
        return form.all(column) if same else list(map(as_read, column))

    get = attrgetter(*names)
    if len(names) == 1:
        return JsonForm(
            lambda value: encode(value) if type(get(value)) in _READ else as_read(value),
            all_as_read,
        )
    return JsonForm(
        lambda value: encode(value) if _READ.issuperset(map(type, get(value))) else as_read(value),
        all_as_read,
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
    names = fields_of(value)
    if not names:
        return plain(value)
    changed = {}
    for name in names:
        inner = getattr(value, name, None)
        if isinstance(inner, set | frozenset | dict | list | tuple) or fields_of(inner):
            raw = canonical_bytes(inner)
            if raw != plain(inner):
                changed[name] = msgspec.Raw(raw)
    return plain(_with(value, changed) if changed else value)


def _with(value: Any, changed: Mapping[str, Any]) -> Any:
    """A copy of an object, frozen or not, with other values in some of its fields."""
    copied = copy.copy(value)
    is_struct = isinstance(value, msgspec.Struct)
    set_field: Any = msgspec.structs.force_setattr if is_struct else object.__setattr__
    for name, inner in changed.items():
        set_field(copied, name, inner)
    return copied


@attrs.frozen
class RoundTripCheck:
    """The check of a serde that a value is read back as it is; others are refused.

    Args:
        name: of the serde.
        decode: reads a value.
        frozen: whether values cannot change, so that they are kept without being copied.
        open: whether there is an ``Any``.
        numbers: whether there may be a number that JSON does not have, which is written as null.
        always: whether values of the right types may be refused when they are read.
        classes: of objects, each of which may have subclasses with more fields.
        whole: tells of a column whether it has the right types and numbers, but for each ``Any``.
        whole_documents: the same, with what is in each ``Any``, but for its numbers.
        whole_numbers: the same, with all numbers.
    """

    name: str
    decode: Callable[[bytes], Any]
    frozen: bool
    open: bool
    numbers: bool
    always: bool
    classes: tuple[type, ...]
    whole: Whole
    whole_documents: Whole
    whole_numbers: Whole

    @classmethod
    def of(cls, name: str, described: kinds.Type, decode: Callable[[bytes], Any]) -> RoundTripCheck:
        """The check for a type, by the name of its serde."""
        found = parts(described)
        is_open = any(isinstance(part, kinds.AnyType) for part in found)
        numbers = is_open or any(isinstance(part, kinds.FloatType) for part in found)
        return cls(
            name,
            decode,
            frozen=is_immutable(described),
            open=is_open,
            numbers=numbers,
            always=has_demands(found),
            classes=tuple(class_of(part) for part in found if isinstance(part, _OBJECTS)),
            whole=whole(described),
            whole_documents=whole(described, lambda column: documents_survive(list(column))),
            whole_numbers=whole(described, whole_documents),
        )

    def one(self, encode: Encode) -> Encode:
        """Check one value: the result raises ``SerdeError`` for what cannot be read back.

        One value stands for one that is to be kept.
        """

        def checked(value: Any) -> bytes:
            try:
                raw = encode(value)
                read = self.decode(raw)
            except msgspec.ValidationError as error:
                raise self._refused(value, error) from error
            self._compare(value, raw, read)
            return raw

        return checked

    def column(self, encode_all: EncodeAll) -> EncodeAll:
        """Check a column; the result raises for one that has to be looked at value by value."""
        is_whole = self.whole_documents if self.open else self.whole
        quick = not self.always

        def checked(column: list[Any]) -> list[bytes]:
            if quick and is_whole(column):
                raws = encode_all(column)
                if not self.open or _NULL not in b"".join(raws) or self.whole_numbers(column):
                    return raws
            raise SerdeError(f"{self.name}: value by value")

        return checked

    def quick_one(self, encode: Encode) -> Encode:
        """Check one key on its way to a store: only numbers are asked for."""

        def checked(value: Any) -> bytes:
            try:
                raw = encode(value)
            except msgspec.ValidationError as error:  # it was read back to be written
                raise self._refused(value, error) from error
            return self.one(encode)(value) if self.always or raw.find(_NULL) >= 0 else raw

        return checked if self.always or self.numbers else encode

    def quick(self, encode_all: EncodeAll) -> EncodeAll:
        """Check keys on their way to a store, by the column."""
        if not (self.always or self.numbers):
            return encode_all

        def checked(column: list[Any]) -> list[bytes]:
            raws = encode_all(column)
            if self.always or _NULL in b"".join(raws):
                for value, raw in zip(column, raws, strict=True):
                    if self.always or raw.find(_NULL) >= 0:
                        self._compare(value, raw, self.decode(raw))
            return raws

        return checked

    def copy(self, encode: Encode, decode: Callable[[bytes], Any]) -> Callable[[Any], Any]:
        """A function that copies values as their bytes would return; None stays None."""

        def copied(value: Any) -> Any:
            if value is None:
                return None
            raw = encode(value)
            new = decode(raw)
            null = self.numbers and raw.find(_NULL) >= 0
            if null or self.open or any(map(type.__subclasses__, self.classes)):
                self._compare(value, raw, new)
            return new

        return copied

    def _compare(self, value: Any, raw: bytes, read: Any) -> None:
        """Refuse a value that was read back as another one."""
        if equal(value, read):
            return
        if raw.find(_NULL) >= 0 and not _is_finite(msgspec.to_builtins(value)):
            raise encode_error(self.name, value, NO_NUMBER)
        lost = loss(value, read) if self.open else None
        if lost is not None:
            raise encode_error(
                self.name, value, f"JSON has no {lost}; give the type in place of Any"
            )
        if (narrow := narrowed(value, read)) is not None:
            raise encode_error(self.name, value, narrow)
        if self.frozen and _is_compared(value) and not self.whole([value]):
            raise encode_error(self.name, value, f"it would be read back as {shown(read)}")

    def _refused(self, value: Any, error: msgspec.ValidationError) -> SerdeError:
        """The error for a value whose bytes could not be read."""
        finite = _is_finite(msgspec.to_builtins(value))
        why = f"it could not be read back: {error}" if finite else NO_NUMBER
        return encode_error(self.name, value, why)


def _is_compared(value: Any) -> bool:
    """True for an object that is compared by what it holds."""
    own: Any = type(value).__eq__
    return own is not object.__eq__


def _is_finite(value: Any) -> bool:
    """False if there is a NaN or an infinity in a document."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value)) and all(map(_is_finite, value.values()))
    return not isinstance(value, list | tuple | set | frozenset) or all(map(_is_finite, value))
