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
    failed = {"$ref": "#/components/schemas/Error"}
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
            "200": _response("the answer", {"$ref": f"#/components/schemas/{kind}"}),
            **{status: _response(text, failed) for status, text in statuses.items()},
        },
    }


def _response(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


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
_SCHEMAS: dict[str, Any] = {
    "Position": _POSITION,
    "Value": {
        "type": "object",
        "required": ["value", "position", "staleness_ms"],
        "properties": {
            "key": {},
            "value": {},
            "timestamp": {"type": ["integer", "null"]},
            "valid_to": {"type": ["integer", "null"]},
            "headers": _HEADERS,
            "position": {"$ref": "#/components/schemas/Position"},
            "staleness_ms": _STALENESS,
        },
    },
    "Entry": {
        "type": "object",
        "required": ["value"],
        "properties": {
            "key": {},
            "start": {"type": "integer"},
            "end": {"type": "integer"},
            "value": {},
            "timestamp": {"type": ["integer", "null"]},
            "valid_to": {"type": ["integer", "null"]},
            "headers": _HEADERS,
        },
    },
    "Page": {
        "type": "object",
        "required": ["entries", "cursor", "position", "staleness_ms"],
        "properties": {
            "entries": {"type": "array", "items": {"$ref": "#/components/schemas/Entry"}},
            "cursor": {"type": ["string", "null"]},
            "position": {"$ref": "#/components/schemas/Position"},
            "staleness_ms": _STALENESS,
        },
    },
    "Stores": {
        "type": "object",
        "required": ["application", "stores", "members"],
        "properties": {
            "application": _TEXT,
            "stores": {"type": "array", "items": {"type": "object"}},
            "members": {"type": "array", "items": {"type": "object"}},
        },
    },
    "Error": {
        "type": "object",
        "required": ["error", "message"],
        "properties": {
            "error": _TEXT,
            "message": _TEXT,
            "position": {"$ref": "#/components/schemas/Position"},
            "staleness_ms": _STALENESS,
        },
    },
}
