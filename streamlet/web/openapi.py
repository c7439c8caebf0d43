"""The OpenAPI document of the server of queries."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from streamlet.web.asked import MOST_STALENESS_MS, MOST_WAIT_MS
from streamlet.web.keys import FORMATS
from streamlet.web.pages import FEW_ENTRIES, MOST_ENTRIES

_WHOLE = {"type": "integer", "format": "int64"}
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean", "default": False}


def openapi() -> dict[str, Any]:
    """The OpenAPI document of the queries."""
    name, key = _path("name", "The store's name."), _path("key", "The key; see key-format.")
    paged = [_LIMIT, _CURSOR, _REVERSE]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Queries of a streamlet application", "version": version("streamlet")},
        "security": [{"token": []}, {}],
        "paths": {
            "/stores": {"get": _operation("listStores", "The stores and their members.", [])},
            "/stores/{name}": {
                "get": _operation(
                    "listEntries",
                    "Entries of all keys: of keys in the order of their bytes, of windows by their "
                    "starts, of sessions by their ends.",
                    [name, *_ENDS, *_KEY_ENDS, _PREFIX, *paged, *_COMMON],
                )
            },
            "/stores/{name}/{key}": {
                "get": _operation(
                    "getValue", "The value of a key.", [name, key, _AS_OF, *_COMMON], absent=True
                )
            },
            **{
                f"/stores/{{name}}/{{key}}/{listed}": {
                    "get": _operation(
                        f"list{listed.capitalize()}",
                        f"The {listed} of a key.",
                        [name, key, *_TIMES, *paged, *_COMMON],
                    )
                }
                for listed in ("windows", "sessions", "versions")
            },
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _SCHEMAS,
        },
    }


def _operation(
    name: str, summary: str, parameters: list[dict[str, Any]], *, absent: bool = False
) -> dict[str, Any]:
    kind = {"listStores": "Stores", "getValue": "Value"}.get(name, "Page")
    statuses = {
        "400": "the query cannot be read, or there is no such store or partition",
        "401": "the token is missing",
        **({"404": "the store has no such key"} if absent else {}),
        "409": "the store cannot be queried so",
        "429": "too many reads wait",
        "503": "a task moves, or is not as far as asked for; ask again",
    }
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": _response("the answer", kind),
            **{status: _response(text, "Error") for status, text in statuses.items()},
        },
    }


def _response(text: str, schema: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": _schema(schema)}}}


def _schema(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "required": [*required], "properties": properties}


def _path(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": text, "schema": _TEXT}


def _query(name: str, text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": schema}


_LIMIT = _query(
    "limit",
    "Entries of a page.",
    {"type": "integer", "minimum": 1, "maximum": MOST_ENTRIES, "default": FEW_ENTRIES},
)
_CURSOR = _query("cursor", "That of the page before.", _TEXT)
_REVERSE = _query("reverse", "The last one first.", _FLAG)
_PREFIX = _query("prefix", "What the bytes of the keys begin with.", _TEXT)
_AS_OF = _query("as_of", "Of a versioned store: at which time, ms since the epoch.", _WHOLE)
_ENDS = [
    _query("from", "The first key, or the first time in ms since the epoch.", _TEXT),
    _query("to", "The last one, inclusive.", _TEXT),
]
_KEY_ENDS = [
    _query("from-key", "Of windows and sessions: the first key; see key-format.", _TEXT),
    _query(
        "to-key",
        "The last one, inclusive. With either, the last time of sessions is that of their starts.",
        _TEXT,
    ),
]
_TIMES = [
    _query("from", "The first time, ms since the epoch.", _WHOLE),
    _query("to", "The last one, inclusive.", _WHOLE),
]
_COMMON = [
    _query("key-format", "How keys are given.", {"type": "string", "enum": [*FORMATS]}),
    _query("partition", "The task to ask, where keys lie by no known partitioner.", _WHOLE),
    _query("newest", "Also what is not committed yet.", _FLAG),
    _query(
        "max_staleness",
        "Let a standby or learner that is behind by so many seconds at most answer.",
        {"type": "number", "minimum": 0, "maximum": MOST_STALENESS_MS // 1_000},
    ),
    _query("at_least", "The position that the answer contains at least, JSON.", _TEXT),
    _query(
        "timeout",
        "How long to wait for the task and the position, seconds.",
        {"type": "number", "minimum": 0, "maximum": MOST_WAIT_MS // 1_000, "default": 1},
    ),
    {
        "name": "Streamlet-At-Least",
        "in": "header",
        "description": "As at_least.",
        "schema": _TEXT,
    },
]
_POSITION = {
    "type": "object",
    "description": "Topic, partition, offset of the next record.",
    "additionalProperties": {"type": "object", "additionalProperties": _WHOLE},
}
_STALENESS = {"type": "integer", "description": "Since when there may be later commits, ms."}
_HEADERS = {
    "type": "array",
    "description": "Those of the record that changed the entry last, where the store keeps them.",
    "items": {
        "type": "array",
        "description": "Name, and value in base64.",
        "prefixItems": [_TEXT, {"type": ["string", "null"]}],
        "minItems": 2,
        "maxItems": 2,
    },
}
_TIME = {"type": ["integer", "null"]}
_VALUE = {"key": {}, "value": {}, "timestamp": _TIME, "valid_to": _TIME, "headers": _HEADERS}
_AGE = {"position": _schema("Position"), "staleness_ms": _STALENESS}
_SOME = {"type": "array", "items": {"type": "object"}}
_SCHEMAS: dict[str, Any] = {
    "Position": _POSITION,
    "Value": _object({**_VALUE, **_AGE}, "value", "position", "staleness_ms"),
    "Entry": _object({"start": {"type": "integer"}, "end": {"type": "integer"}, **_VALUE}, "value"),
    "Page": _object(
        {
            "entries": {"type": "array", "items": _schema("Entry")},
            "cursor": {"type": ["string", "null"]},
            **_AGE,
        },
        *("entries", "cursor", "position", "staleness_ms"),
    ),
    "Stores": _object(
        {"application": _TEXT, "stores": _SOME, "members": _SOME},
        *("application", "stores", "members"),
    ),
    "Error": _object({"error": _TEXT, "message": _TEXT, **_AGE}, "error", "message"),
}
