"""Avro records without a registry: the bare bytes of one record under a schema both sides know."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from streamlet.arguments import told_by_form
from streamlet.errors import SerdeError
from streamlet.serdes.avro_bounds import bounds_check
from streamlet.serdes.avro_exact import Look, look_at
from streamlet.serdes.avro_notes import plain
from streamlet.serdes.marks import with_schema
from streamlet.serdes.serde import Serde, build, encode_error
from streamlet.user_code import shown

#: A schema, its JSON text, or the path of its file; a list is a union.
Schema: TypeAlias = str | Path | dict[str, Any] | list[Any]

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@told_by_form
def avro(schema: Schema, *, writer: Schema | None = None) -> Serde[Any]:
    """A serde for values of an Avro schema, as dicts, lists and plain values.

    ``schema`` is the schema itself, a list for a union, its JSON text, or the path of an ``.avsc``
    file, beside which the named types it uses may have files of their own (``Address.avsc``).
    ``writer`` is the schema that stored bytes were written with if that is another one; new bytes
    are then still written with ``schema``, so give it only for topics that are read.

    A field that a record leaves out is written with its default. Fields that the schema does not
    have are refused. A record in a union is a dict; where the records of a union cannot be told
    apart by the names of their fields, it is a pair of the name and the dict, in both directions.
    Equal keys have one form: maps are sorted. A value that would come back as another one, such as
    1.5 or True in a ``long``, is refused; but ``timestamp-millis`` and ``time-millis`` keep whole
    milliseconds of a time, as Java's classes do. Bytes that nest over 1,000 levels, or have a
    decimal of over 4,000 bytes, are refused as well.

    Raises:
        SerdeError: the schema is not valid.
    """
    import fastavro

    parsed = _parsed(schema)
    if any(place == [] for place in _places(parsed)):
        raise SerdeError("avro: not a valid schema: a union of nothing, which no value fits")
    named = named_types(parsed)
    written = None if writer is None else _parsed(writer)
    coder = _Coder(
        f"avro({_name(parsed)})",
        parsed,
        written,
        named=any(map(_are_alike, _unions(parsed))),
        fastavro=fastavro,
        look=look_at(parsed, named),
        bounds=bounds_check(parsed, named)
        if written is None
        else bounds_check(written, named_types(written)),
    )
    # Bytes do not say by which schema they were written, so names of serdes do.
    name = with_schema(coder.name, _fingerprint(parsed))
    coder.set_defaults()
    serde = attrs.evolve(coder.serde(coder.encode), name=name)
    if any(one.get("type") == "map" for one in nodes(parsed)):
        return attrs.evolve(coder.serde(coder.encode_sorted), name=name, as_value=serde)
    return serde


def avro_of_texts(text: str, names: Mapping[str, str]) -> Any:
    """A schema that uses others, as one: given the texts of those by their full names.

    Raises:
        SerdeError: one is not valid, or missing.
    """
    from fastavro.schema import load_schema

    from streamlet.serdes.avro_files import RegistryTexts

    try:
        return load_schema(RegistryTexts.WANTED, repo=RegistryTexts(text, names))
    except Exception as error:  # fastavro meets what is no schema with errors of any kind
        raise SerdeError(f"avro: not a valid schema: {error!r:.200}") from error


@attrs.frozen
class _Coder:
    """Writes and reads values of a parsed schema.

    ``named`` if records in unions go with their names. ``look`` refuses values of other types that
    would be written, and ``bounds`` bytes beyond the bounds; None: there are none.
    """

    name: str
    schema: Any
    writer: Any
    named: bool
    fastavro: Any
    look: Look | None
    bounds: Callable[[bytes], None] | None

    def serde(self, encode: Callable[[Any], bytes]) -> Serde[Any]:
        """A serde with this function to write values."""
        look = self.look
        if look is None:
            return build(self.name, encode, self.decode, declared=self.schema)

        def encode_one(value: Any) -> bytes:
            look([value])
            return encode(value)

        def encode_all(column: list[Any]) -> list[bytes]:
            look(column)
            return list(map(encode, column))

        return build(
            self.name, encode_one, self.decode, encode_all=encode_all, declared=self.schema
        )

    def encode(self, value: Any) -> bytes:
        """The bytes of a value that was looked at."""
        buffer = io.BytesIO()
        self.fastavro.schemaless_writer(buffer, self.schema, value, strict_allow_default=True)
        raw = buffer.getvalue()
        if self.named and not _same_names(value, self._read(raw, self.schema, None)):
            why = "records of a union are alike: give a pair of the name and the record"
            raise encode_error(self.name, value, why)
        return raw

    def encode_sorted(self, value: Any) -> bytes:
        """The bytes of a key: the same for equal maps in any order."""
        return self.encode(_sorted_maps(value))

    def decode(self, raw: bytes) -> Any:
        """The value of these bytes; it shares nothing with others, nor with defaults."""
        if self.bounds is not None:
            self.bounds(raw)
        if self.writer is None:
            return self._read(raw, self.schema, None)
        return self._read(self.encode(self._read(raw, self.writer, self.schema)), self.schema, None)

    def _read(self, raw: bytes, writer: Any, reader: Any) -> Any:
        buffer = io.BytesIO(raw)
        names = {"return_record_name": True, "return_record_name_override": True}
        how = names if self.named else {}
        value = self.fastavro.schemaless_reader(buffer, writer, reader, **how)
        if buffer.tell() != len(raw):
            raise ValueError(f"{len(raw) - buffer.tell()} bytes are left over")
        return value

    def set_defaults(self) -> None:
        """Give fields their defaults as values to write, where the schema has them as text.

        Raises:
            SerdeError: a default is not of its field's type.
        """
        named = named_types(self.schema)
        for record in _records(self.schema):
            for field in record["fields"]:
                if "default" in field:
                    field["default"] = _binary(field["type"], field["default"], named)


def _fingerprint(parsed: Any) -> str:
    """A hash of what a schema says of bytes: not its documentation, nor its defaults."""
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return fingerprint(to_parsing_canonical_form(parsed), "CRC-64-AVRO")


def _parsed(schema: Schema) -> Any:
    """A schema as fastavro wants it, which is not shared with the caller's.

    Raises:
        SerdeError: it cannot be read, or is none.
    """
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType, load_schema

    if not isinstance(schema, str | Path | Mapping | list) or schema == {}:
        expected = "a schema, its JSON text or the path of an .avsc file"
        raise SerdeError(f"avro: expected {expected}, got {shown(schema)}")
    try:
        if isinstance(schema, Path) or (isinstance(schema, str) and _is_file(schema)):
            from streamlet.serdes.avro_files import SchemaFiles

            return load_schema(SchemaFiles.WANTED, repo=SchemaFiles(Path(schema)))
        if isinstance(schema, str):
            schema = schema if schema in _PRIMITIVES else json.loads(schema)
        return fastavro.parse_schema(json.loads(json.dumps(plain(schema))))
    except (OSError, json.JSONDecodeError) as error:
        raise SerdeError(
            f"avro: cannot read the schema {schema!s:.60}: {error}; give the schema, its JSON text "
            "or the path of an .avsc file"
        ) from error
    except SchemaParseException as error:
        raise SerdeError(f"avro: not a valid schema: {error}") from error
    except UnknownType as error:
        problem = f"there is no type {shown(error.name)}"
        raise SerdeError(f"avro: not a valid schema: {problem}") from error
    except Exception as error:  # fastavro meets what is no schema with errors of any kind
        raise SerdeError(f"avro: not a valid schema: {error!r}") from error


def _is_file(schema: str) -> bool:
    return schema not in _PRIMITIVES and schema.lstrip()[:1] not in ("{", "[", '"')


def _name(schema: Any) -> str:
    if isinstance(schema, list):
        return " | ".join(map(_name, schema))
    return str(schema.get("name", schema.get("type"))) if isinstance(schema, dict) else str(schema)


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """The schemas within a parsed one that are no names and no unions, each once."""
    seen: set[int] = set()
    todo = [schema]
    while todo:
        one = todo.pop()
        if isinstance(one, list):
            todo += one
        elif isinstance(one, dict) and id(one) not in seen:
            seen.add(id(one))
            yield one
            todo += [one[name] for name in ("type", "items", "values") if name in one]
            todo += [field["type"] for field in one.get("fields", ())]
            names = one.get("__named_schemas", {})
            if id(names) not in seen:  # all types of a union share them
                seen.add(id(names))
                todo += names.values()


def named_types(schema: Any) -> dict[str, Any]:
    """The named types of a parsed schema, by name."""
    return {one["name"]: one for one in nodes(schema) if "name" in one}


def _records(schema: Any) -> Iterator[dict[str, Any]]:
    return (one for one in nodes(schema) if "fields" in one)


def _unions(schema: Any) -> Iterator[list[dict[str, Any]]]:
    """The records of each union."""
    records = {one["name"]: one for one in _records(schema)}
    for place in _places(schema):
        if isinstance(place, list):
            members = (records.get(one) if isinstance(one, str) else one for one in place)
            yield [one for one in members if one is not None and "fields" in one]


def _places(schema: Any) -> Iterator[Any]:
    """The schemas that values are written by: the whole, and those of fields, items and values."""
    yield schema
    for one in nodes(schema):
        yield from (field["type"] for field in one.get("fields", ()))
        yield from (one[name] for name in ("items", "values") if name in one)


def _are_alike(records: list[dict[str, Any]]) -> bool:
    """True if a record of one could be taken for another, by the names of its fields."""
    names = [{field["name"] for field in one["fields"]} for one in records]
    return any(one <= other for one, other in permutations(names, 2))


def _same_names(value: Any, read: Any) -> bool:
    """True if records of unions are the same ones in a value and as it is read."""
    if isinstance(read, tuple):
        return isinstance(value, tuple) and value[0] == read[0] and _same_names(value[1], read[1])
    if isinstance(read, dict) and isinstance(value, dict):
        return all(_same_names(one, read[name]) for name, one in value.items() if name in read)
    if isinstance(read, list):
        return all(map(_same_names, value, read))
    return True


def _sorted_maps(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted_maps(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return type(value)(map(_sorted_maps, value))
    return value


def _binary(of: Any, default: Any, named: dict[str, Any]) -> Any:
    """A default with bytes where the schema has text for them."""
    if isinstance(of, list):
        return _binary(of[0], default, named)
    if isinstance(of, str):
        of = named.get(of, {"type": of})
    sort = of["type"]
    if sort in ("bytes", "fixed") and isinstance(default, str):
        return default.encode("iso-8859-1")
    if sort == "array":
        return [_binary(of["items"], one, named) for one in default]
    if sort == "map":
        return {name: _binary(of["values"], one, named) for name, one in default.items()}
    if sort == "record" and isinstance(default, dict):
        types = {field["name"]: field["type"] for field in of["fields"]}
        return {name: _binary(types[name], one, named) for name, one in default.items()}
    return default
