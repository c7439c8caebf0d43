"""Serdes of pydantic's models and dataclasses: JSON that pydantic writes, reads and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any, get_args, get_origin

import attrs
import msgspec

from streamlet.errors import SerdeError
from streamlet.serdes.json_bytes import NO_NUMBER
from streamlet.serdes.json_types import type_name
from streamlet.serdes.json_whole import equal, inside, loss, model_fields, other_class
from streamlet.serdes.serde import Serde, build, encode_error

_PAIR = "or give a pair (encode, decode)"


def is_pydantic(of: object) -> bool:
    """True for a model or a dataclass of pydantic, which is not loaded for the answer."""
    return isinstance(of, type) and hasattr(of, "__pydantic_validator__")


def pydantic_json(of: type[Any]) -> Serde[Any]:
    """The serde of such a class: its validators check what is read, its types what is written.

    Names are the aliases that it declares. A value is of this very class, and is read back before
    it is written: what would not return is refused. Equal keys have one form: names in dicts and
    members of sets are sorted.

    Raises:
        SerdeError: a field would not be read as it is written.
    """
    name = f"json({type_name(of)})"
    for reason in _refusals(of):
        raise SerdeError(f"no JSON for {type_name(of)}: {reason}")
    form = _Form.of(name, of)

    def make(encode: Any) -> Serde[Any]:
        return build(
            *(name, encode, form.decode),
            accepts=frozenset({of}),
            declared=of,
            format="json of a type",
        )

    def copy(value: Any) -> Any:
        if value is None:
            return None
        try:
            return form.read_back(value, form.plain(value)) if type(value) is of else _refused()
        except Exception:  # the way by the bytes says what is wrong with it
            return values.decode(values.encode(value))

    def as_read(column: list[Any]) -> list[bytes]:
        return list(map(form.plain, column))

    values = attrs.evolve(make(form.checked), fast_copy=copy, encode_read=as_read)
    return attrs.evolve(make(form.canonical), fast_copy=copy, as_value=values)


def pydantic_schema(of: type[Any]) -> dict[str, Any]:
    """The JSON Schema of what such a class writes."""
    from pydantic import TypeAdapter

    found: dict[str, Any] = TypeAdapter(of).json_schema(by_alias=True, mode="serialization")
    return found


def pydantic_converter(of: type[Any]) -> Callable[[Any], Any]:
    """A function from a dict, of a document that was read, to a value of such a class.

    It raises ``ValueError`` with the places that do not fit, and why.
    """
    form = _Form.of(type_name(of), of)

    def convert(found: Any) -> Any:
        try:
            return form.adapter.validate_python(found)
        except form.invalid as error:
            raise ValueError(_places(error)) from error

    return convert


def _refused() -> Any:
    raise TypeError


@attrs.frozen
class _Form:
    """The JSON of a class by pydantic's own adapter of it."""

    name: str
    adapter: Any
    invalid: type[Exception]

    @classmethod
    def of(cls, name: str, of: type[Any]) -> _Form:
        from pydantic import TypeAdapter, ValidationError

        return cls(name, TypeAdapter(of), ValidationError)

    def decode(self, raw: bytes) -> Any:
        """Raises ``ValueError`` with the places that do not fit, and why."""
        try:
            return self.adapter.validate_json(raw)
        except self.invalid as error:
            raise ValueError(_places(error)) from error

    def plain(self, value: Any) -> bytes:
        """The bytes of a value, unchecked."""
        raw: bytes = self.adapter.dump_json(value, by_alias=True, round_trip=True, warnings="error")
        return raw

    def checked(self, value: Any) -> bytes:
        """The bytes of a value; raises ``SerdeError`` for one that they do not give back."""
        raw = self.plain(value)
        self.read_back(value, raw)
        return raw

    def canonical(self, value: Any) -> bytes:
        """The one form of equal keys, checked."""
        raw = self.checked(value)
        if not _has_orders(value):
            return raw
        document = self.adapter.dump_python(
            value, mode="json", by_alias=True, round_trip=True, warnings="error"
        )
        return msgspec.json.encode(_sorted(value, document))

    def read_back(self, value: Any, raw: bytes) -> Any:
        """The value that the bytes of one give; raises ``SerdeError`` if part of it is lost."""
        try:
            read = self.adapter.validate_json(raw)
        except self.invalid as error:
            why = _no_number(value) or f"it could not be read back: {_places(error)}"
            raise encode_error(self.name, value, why) from error
        lost = None if equal(value, read) else _lost(value, read)
        if lost is not None:
            raise encode_error(self.name, value, lost)
        return read


def _places(error: Any) -> str:
    """The places at which a document does not fit, each with the reason."""
    found = ((".".join(map(str, one["loc"])) or "it", one["msg"]) for one in error.errors())
    return "; ".join(f"{place}: {text}" for place, text in found)


def _refusals(of: Any) -> Iterator[str]:
    """The reasons why fields of a class, or of those inside, are not read as they are written."""
    todo, met = [of], set[int]()
    while todo:
        kind = todo.pop()
        if id(kind) in met:
            continue
        met.add(id(kind))
        todo.extend(get_args(kind))
        cls = get_origin(kind) or kind
        for name, field in model_fields(cls).items():
            todo.append(field.annotation)
            where, names = f"{type_name(cls)}.{name}", _names_read(cls, name, field)
            written = field.serialization_alias or name
            if field.exclude:
                yield f"{where} is not written (exclude=True): write it, {_PAIR}"
            elif names and written not in names:
                as_read = f"read as {names[0]}: give alias="
                yield f"{where} is written as {written} and {as_read}, {_PAIR}"


def _names_read(cls: Any, name: str, field: Any) -> list[str]:
    """The names under which a field is read; empty if it is not found by a name alone."""
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    alias = field.validation_alias
    choices = [] if alias is None else getattr(alias, "choices", [alias])
    by_alias = [one for one in choices if isinstance(one, str)]
    if alias is None or config.get("populate_by_name") or config.get("validate_by_name"):
        return [*(by_alias if config.get("validate_by_alias", True) else ()), name]
    return by_alias


def _no_number(value: Any) -> str | None:
    """The reason for a value with a number that JSON does not have."""
    if isinstance(value, float):
        return None if isfinite(value) else f"{NO_NUMBER}; ser_json_inf_nan='constants' writes it"
    return next((why for one in inside(value) if (why := _no_number(one))), None)


def _lost(value: Any, read: Any) -> str | None:
    """The reason why a value is read back as another one; None: its class writes it as it wants."""
    if type(value) is float and read is None:
        return _no_number(value)
    if hasattr(value, "get_secret_value") and not equal(value, read):
        return f"pydantic writes stars for {type(value).__name__}: use str, or a field_serializer"
    if (lost := other_class(value, read)) is not None:
        return lost
    pairs = list(zip(inside(value), inside(read), strict=False))
    found = next((lost for pair in pairs if (lost := _lost(*pair))), None)
    unknown = None if found else loss(value, read)
    return found or (unknown and f"JSON has no {unknown}; give the type in place of Any")


def _has_orders(value: Any) -> bool:
    """True if there is a set or a dict in a value whose entries have an order."""
    if isinstance(value, set | frozenset | dict) and len(value) > 1:
        return True
    return any(map(_has_orders, value if isinstance(value, set | frozenset) else inside(value)))


def _sorted(value: Any, document: Any) -> Any:
    """The document of a value, with members of its sets and names of its dicts in order."""
    if isinstance(value, set | frozenset) and isinstance(document, list):
        members = (_sorted(*pair) for pair in zip(value, document, strict=False))
        return sorted(members, key=msgspec.json.encode)
    if isinstance(value, dict) and isinstance(document, dict):
        pairs = zip(document, map(_sorted, value.values(), document.values()), strict=False)
        return dict(sorted(pairs))
    inner = document.values() if isinstance(document, dict) else document
    if not isinstance(inner, list) and not isinstance(document, dict):
        return document
    parts = inside(value)
    if len(parts) != len(inner):  # a function of the class writes it in a way of its own
        return document
    ordered = list(map(_sorted, parts, inner))
    return dict(zip(document, ordered, strict=True)) if isinstance(document, dict) else ordered
