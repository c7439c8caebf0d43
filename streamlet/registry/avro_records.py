"""Avro records with a registry: read by the schema that wrote them, as the reader's own says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import attrs

from streamlet.arguments import told_by_form
from streamlet.bounded import is_deeper, parsed
from streamlet.errors import SerdeError
from streamlet.registry.avro_types import converters, schema_of
from streamlet.registry.framing import RecordFormat, Subject, framed
from streamlet.registry.schemas import RegistrySchema, Schemas
from streamlet.serdes.avro import Schema, avro_of_texts, named_types, nodes
from streamlet.serdes.avro import avro as bare_avro
from streamlet.serdes.avro_notes import plain
from streamlet.serdes.json_types import accepted_types, describe, is_immutable, type_name
from streamlet.serdes.serde import Serde, build

_DEEPEST = 60
#: Values without bytes in one value, at most.
_MOST_EMPTY = 10_000
#: Named types of one schema, at most: those of a union are compared with each other.
_MOST_TYPES = 2_000


@told_by_form
def avro(
    of: Any = None,
    *,
    schema: Schema | None = None,
    namespace: str = "",
    registry: Schemas | None = None,
    subject: Subject = "topic",
    register: bool = True,
) -> Serde[Any]:
    """Avro records in the framing of a schema registry.

    Records are read by the schema that they were written by, as ``of`` has it: fields that it does
    not have are left out, and fields that the writer did not have get their defaults. They are
    written by the schema of ``of``.

    Args:
        of: a dataclass, an attrs class or a ``msgspec.Struct``, whose schema is made of its
            annotations; or an Avro schema (dict, list, JSON text or path), for dicts. None: records
            are dicts as their writers' schemas say, and are only read.
        schema: the schema of a class, where it is not the one made of its annotations.
        namespace: of the names in the schema that is made.
        registry: asked for schemas; None: that of the environment, ``SCHEMA_REGISTRY_URL``.
        subject: the name that the schema of written records has in the registry: ``"topic"``
            (``orders-value``), ``"record"``, ``"topic-record"``, or a function of the topic, of
            ``"key"`` or ``"value"``, and of the record's name. Rows of stores have that of the
            record, or of the function with an empty topic.
        register: register the schema when it is not there; else that is an error.

    Raises:
        SerdeError: a schema is not valid, or there is none for the type.
        ConfigError: there is no such strategy for subjects.
    """
    if of is None and schema is None:
        return framed(_as_written(), registry, subject, register)
    typed = of is not None and not isinstance(of, str | Path | dict | list)
    given = schema if schema is not None else schema_of(of, namespace) if typed else of
    bare = bare_avro(given)
    own = RegistrySchema("AVRO", _text(bare.declared))
    lower, lift = converters(of, bare.declared) if typed else (None, None)

    def reader(written: RegistrySchema) -> Callable[[bytes], Any]:
        return _reader(written, own, bare, given, lift)

    values = bare if lower is None or lift is None else _typed(bare, of, lower, lift)
    record = _record_name(bare.declared)
    return framed(RecordFormat("AVRO", values, record, own, reader), registry, subject, register)


def _as_written() -> RecordFormat:
    """Records as their writers' schemas say."""

    def encode(value: Any) -> bytes:
        raise SerdeError("avro: it only reads; give a type or a schema to write by")

    def reader(written: RegistrySchema) -> Callable[[bytes], Any]:
        return bare_avro(_schema(written)).decode

    bare: Serde[Any] = build("avro", encode, lambda raw: raw)
    bare = attrs.evolve(bare, fast_copy=lambda value: value, immutable=False)
    return RecordFormat("AVRO", bare, "", None, reader)


def _reader(
    written: RegistrySchema,
    own: RegistrySchema,
    bare: Serde[Any],
    given: Schema,
    lift: Callable[[Any], Any] | None,
) -> Callable[[bytes], Any]:
    """Reads what a schema describes as values of our own."""
    decode = bare.decode
    schema = None if written.text == own.text else _schema(written)
    if schema is not None and _text(schema) != own.text:
        decode = bare_avro(given, writer=schema).decode
    if lift is None:
        return decode
    return lambda raw: lift(decode(raw))


def _schema(written: RegistrySchema) -> Any:
    """A schema of a registry, as it can be read by.

    Raises:
        SerdeError: it is none, or its records could take any memory.
    """
    try:
        texts = [written.text, *(text for _, text in written.names)]
        if any(is_deeper(parsed(text), _DEEPEST) for text in texts):
            raise ValueError(f"it nests deeper than {_DEEPEST} levels")
    except ValueError as error:
        raise SerdeError(f"avro: the registry's schema cannot be read: {error}") from error
    found = avro_of_texts(written.text, dict(written.names))
    named = named_types(found)
    if len(named) > _MOST_TYPES:
        raise SerdeError(f"avro: the registry's schema has more than {_MOST_TYPES:,} named types")
    empties = _Empties(named)
    for one in nodes(found):
        if one.get("type") == "array" and empties.of(one["items"]).only:
            raise SerdeError("avro: the registry's schema has an array of what takes no bytes")
        if empties.of(one).number > _MOST_EMPTY:
            raise SerdeError(
                f"avro: the registry's schema has more than {_MOST_EMPTY:,} values that take no "
                "bytes"
            )
    return found


class _Empty(NamedTuple):
    """The values in one value that take no bytes; ``only``: all of it is such."""

    number: int
    only: bool


class _Empties:
    """Counts the values that take no bytes: a few bytes could be any number of them.

    Args:
        named: the named types of a schema.
    """

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._known: dict[str, _Empty] = {}

    def of(self, schema: Any) -> _Empty:
        """The count of those in one value of a schema."""
        if isinstance(schema, list):
            return _Empty(0, only=False)  # which one it is takes a byte
        if isinstance(schema, str):
            return self._of_name(schema)
        sort = schema.get("type")
        if sort in ("record", "error", "fixed"):
            return self._of_name(schema["name"])
        if isinstance(sort, str) and sort in ("array", "map", "enum"):
            return _Empty(0, only=False)
        return self.of(sort)

    def _of_name(self, name: str) -> _Empty:
        if name == "null":
            return _Empty(1, only=True)
        if name not in self._named:
            return _Empty(0, only=False)
        if name not in self._known:
            # One that it is part of itself has no end.
            self._known[name] = _Empty(_MOST_EMPTY + 1, only=True)
            self._known[name] = self._of_type(self._named[name])
        return self._known[name]

    def _of_type(self, schema: dict[str, Any]) -> _Empty:
        sort = schema.get("type")
        if sort not in ("record", "error"):
            only = sort == "fixed" and schema.get("size") == 0
            return _Empty(int(only), only)
        fields = [self.of(one["type"]) for one in schema["fields"]]
        only = all(one.only for one in fields)
        return _Empty(sum(one.number for one in fields) + only, only)


def _typed(
    bare: Serde[Any], of: Any, lower: Callable[[Any], Any], lift: Callable[[Any], Any]
) -> Serde[Any]:
    """The serde of a class over the one of its schema's dicts."""

    def over(inner: Serde[Any]) -> Serde[Any]:
        assert inner.encode_all is not None
        encode_all = inner.encode_all
        return build(
            f"avro({type_name(of)})",
            lambda value: inner.encode(lower(value)),
            lambda raw: lift(inner.decode(raw)),
            accepts=accepted_types(of),
            immutable=is_immutable(describe(of)),
            encode_all=lambda column: encode_all(lower(column)),
            declared=of,
        )

    copied = attrs.evolve(
        over(bare), fast_copy=lambda value: None if value is None else lift(lower(value))
    )
    return attrs.evolve(copied, as_value=None if bare.as_value is None else over(bare.as_value))


def _text(declared: Any) -> str:
    """The JSON text of a parsed schema, the same each time."""
    return json.dumps(plain(declared), separators=(",", ":"))


def _record_name(declared: Any) -> str:
    if isinstance(declared, dict):
        return str(declared.get("name", declared.get("type")))
    return declared if isinstance(declared, str) else "union"
