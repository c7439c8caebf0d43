"""Avro records without a registry: the bare bytes of one record under a schema both sides know."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from streamlet.errors import SerdeError
from streamlet.serdes.serde import Serde, build


def avro(
    schema: str | Path | dict[str, Any], *, writer: dict[str, Any] | None = None
) -> Serde[Any]:
    """A serde for values of an Avro schema, as dicts, lists and plain values.

    ``schema`` is the schema itself, its JSON text, or a path to an ``.avsc`` file. ``writer`` is
    the schema that stored bytes were written with if that is another one; new bytes are then still
    written with ``schema``, so give it only for topics that are read.

    Raises:
        SerdeError: the extra ``avro`` is not installed, or the schema is not valid.
    """
    try:
        import fastavro
    except ImportError as error:
        raise SerdeError("avro(...) needs fastavro: pip install 'streamlet[avro]'") from error

    raw_schema = _load(schema)
    try:
        parsed = fastavro.parse_schema(raw_schema)
        written = parsed if writer is None else fastavro.parse_schema(writer)
    except Exception as error:
        raise SerdeError(f"avro: not a valid schema: {error}") from error

    def encode(value: Any) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, value, strict=True)
        return buffer.getvalue()

    def decode(raw: bytes) -> Any:
        buffer = io.BytesIO(raw)
        value = fastavro.schemaless_reader(buffer, written, parsed if writer else None)
        if buffer.tell() != len(raw):
            raise ValueError(f"{len(raw) - buffer.tell()} bytes are left over")
        return value

    return build(f"avro({_name(raw_schema)})", encode, decode, declared=parsed)


def _load(schema: str | Path | dict[str, Any]) -> Any:
    if isinstance(schema, dict):
        return schema
    try:
        if isinstance(schema, Path):
            return json.loads(schema.read_text("utf-8"))
        return json.loads(schema) if schema.lstrip()[:1] in ("{", "[", '"') else schema
    except (OSError, ValueError) as error:
        raise SerdeError(f"avro: cannot read the schema: {error}") from error


def _name(schema: Any) -> str:
    return str(schema.get("name", schema.get("type"))) if isinstance(schema, dict) else str(schema)
