"""JSON in the framing of a schema registry, with a JSON Schema beside it."""

from __future__ import annotations

import json as text
from typing import Any

import msgspec

from streamlet.arguments import check_is, told_by_form
from streamlet.errors import SerdeError
from streamlet.registry.framing import RecordFormat, Subject, framed
from streamlet.registry.schemas import RegistrySchema, Schemas
from streamlet.serdes.json_serde import json as bare_json
from streamlet.serdes.json_types import type_name
from streamlet.serdes.pydantic_models import is_pydantic, pydantic_schema
from streamlet.serdes.resolve import serde as serde_of
from streamlet.serdes.serde import Serde

_DIALECT = "http://json-schema.org/draft/2020-12/schema"


@told_by_form
def json(
    of: Any = Any,
    *,
    schema: dict[str, Any] | str | None = None,
    registry: Schemas | None = None,
    subject: Subject = "topic",
    register: bool = True,
) -> Serde[Any]:
    """JSON records in the framing of a schema registry.

    Documents are checked against the type, as by ``streamlet.json``; the writer's JSON Schema is
    looked up and not applied.

    Args:
        of: the type, as for ``streamlet.json``; any documents without one.
        schema: the JSON Schema of written records; None: the one of the type. Without a type and a
            schema records are only read.
        registry: asked for schemas; None: that of the environment, ``SCHEMA_REGISTRY_URL``.
        subject: as for ``avro``; the record's name is that of the type, or the schema's ``title``.
        register: register the schema when it is not there; else that is an error.

    Raises:
        SerdeError: JSON cannot carry the type, or the schema is no JSON.
        ConfigError: there is no such strategy for subjects.
    """
    bare = bare_json() if of is Any else serde_of(of)
    found = _schema(of, schema)
    own = None if found is None else RegistrySchema("JSON", text.dumps(found, sort_keys=True))
    title = found.get("title") if isinstance(found, dict) else None
    name = title if isinstance(title, str) else type_name(of)
    records = RecordFormat("JSON", bare, name, own, lambda _: bare.decode)
    return framed(records, registry, subject, register)


def _schema(of: Any, given: dict[str, Any] | str | None) -> Any:
    """The JSON Schema that records are written by."""
    if isinstance(given, str):
        try:
            return text.loads(given)
        except ValueError as error:
            raise SerdeError(f"json: schema= is no JSON: {error}") from error
    if given is not None:
        check_is("json(schema=)", given, (dict,), "a JSON Schema, a dict or its text")
    if given is not None or of is Any:
        return given
    if is_pydantic(of):
        return {"$schema": _DIALECT, **pydantic_schema(of)}
    found = msgspec.json.schema(of)
    parts = found.pop("$defs", {})
    reference = found.pop("$ref", None)
    if reference is not None:  # the outermost type itself, as other clients have it
        name = reference.rpartition("/")[2]
        found = {**parts[name], **found}
        if f'"#/$defs/{name}"' not in text.dumps([found, parts]):
            del parts[name]
    return {"$schema": _DIALECT, **found, **({"$defs": parts} if parts else {})}
