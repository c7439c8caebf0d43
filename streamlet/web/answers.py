"""Answers of HTTP: statuses, JSON documents, and errors by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec

from streamlet.errors import StreamletError
from streamlet.state.query_errors import (
    InvalidQueryError,
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    KeyNotFoundError,
    QueryRefusedError,
    StateStoreMigratedError,
    StreamsNotStartedError,
    UnauthorizedError,
    UnknownStateStoreError,
)

#: The status of each error; one that passes by itself is 503, any other one 409.
_STATUSES: dict[type[Exception], int] = {
    KeyNotFoundError: 404,
    InvalidQueryError: 400,
    InvalidStateStorePartitionError: 400,
    UnknownStateStoreError: 400,
    QueryRefusedError: 429,
    UnauthorizedError: 401,
    StreamsNotStartedError: 503,
}
#: Errors by their names, as answers of other instances have them.
_BY_NAME: dict[str, type[InvalidStateStoreError]] = {}


@attrs.frozen
class HttpAnswer:
    """An answer of the server; ``body`` is JSON, unless ``content_type`` is another."""

    status: int
    body: bytes
    headers: dict[str, str] = attrs.field(factory=dict)
    content_type: str = "application/json"


def document(found: Any) -> HttpAnswer:
    """A document, with status 200."""
    return HttpAnswer(200, msgspec.json.encode(found))


def failure(error: Exception, known: Mapping[str, Any] | None = None) -> HttpAnswer:
    """The answer that says why there is none; ``known`` goes with it."""
    status, headers = 500, {}
    if isinstance(error, StreamletError):
        status = _STATUSES.get(type(error)) or (503 if error.passing else 409)
    if status in (429, 503):
        headers["Retry-After"] = "1"
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    text = str(error) if isinstance(error, StreamletError) else "an internal error; see the log"
    name = type(error).__name__ if status != 500 else "InternalError"
    found = {"error": name, "message": text, **(known or {})}
    return HttpAnswer(status, msgspec.json.encode(found), headers)


def error_of(body: bytes, status: int) -> InvalidStateStoreError:
    """The error that an answer has, of the class that its name names."""
    try:
        found = msgspec.json.decode(body, type=_Failure)
    except (ValueError, RecursionError):
        return StateStoreMigratedError(
            f"an answer with status {status} that is none of streamlet's; ask again, or another "
            "instance"
        )
    later = StateStoreMigratedError if status == 503 else InvalidStateStoreError
    error = _classes().get(found.error, later)(found.message)
    if isinstance(error, KeyNotFoundError):
        error.position, error.staleness_ms = found.position, found.staleness_ms
    return error


class _Failure(msgspec.Struct):
    error: str
    message: str
    position: Any = None
    staleness_ms: Any = None


def _classes() -> dict[str, type[InvalidStateStoreError]]:
    if not _BY_NAME:
        _BY_NAME.update((one.__name__, one) for one in _below(InvalidStateStoreError))
    return _BY_NAME


def _below(kind: type[InvalidStateStoreError]) -> list[type[InvalidStateStoreError]]:
    return [kind, *(one for sub in kind.__subclasses__() for one in _below(sub))]


def cause_of(error: Exception) -> str:
    """The reason of a request without an answer, in the system's words where it has some."""
    cause = getattr(error, "reason", error)  # urllib wraps the system's error
    return str(getattr(cause, "strerror", None) or cause)
