"""A record as a command prints it: a JSON document, or a line for people."""

from __future__ import annotations

import json
import math
from typing import Any

import attrs

from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.records.types import DataType, base64_text


@attrs.frozen
class RecordView:
    """Decodes records for printing; a key or value that cannot be decoded is shown in base64."""

    key: DataType
    value: DataType

    def documents(self, batch: PartitionBatch) -> list[dict[str, Any]]:
        """One document per record, in the shape that ``topics write --format json`` reads."""
        return [self._document(batch, index) for index in range(len(batch))]

    def _document(self, batch: PartitionBatch, index: int) -> dict[str, Any]:
        key, key_error = self.key.decode(batch.keys[index])
        value, value_error = self.value.decode(batch.values[index])
        headers, header_error = shown_headers(batch.headers[index] if batch.headers else None)
        document = {
            "topic": batch.topic,
            "partition": batch.partition,
            "offset": batch.offsets[index],
            "timestamp": batch.timestamps[index],
            "key": key,
            "value": value,
            "headers": headers,
        }
        errors = {"key": key_error, "value": value_error, "headers": header_error}
        found = [f"{role}: {error}" for role, error in errors.items() if error is not None]
        return {**document, "error": "; ".join(found)} if found else document


def shown_headers(headers: Headers | None) -> tuple[list[list[str | None]], str | None]:
    """Names and texts; and the reason, where a value is no text and stands there in base64."""
    shown: list[list[str | None]] = []
    strange = None
    for name, value in headers or ():
        try:
            shown.append([name, None if value is None else value.decode()])
        except UnicodeDecodeError:
            shown.append([name, base64_text(value or b"")])
            strange = f"{name} is not UTF-8"
    return shown, strange


def as_json(document: dict[str, Any]) -> str:
    """The document in one line; what JSON does not have is text in it."""
    return json.dumps(_finite(document), ensure_ascii=False, default=_text_of)


def as_line(document: dict[str, Any], headers: bool) -> str:
    """Key and value with a tab between them, as Kafka's console consumer prints them.

    Headers, where they are wanted, and an error follow behind further tabs.
    """
    cells = [_cell(document["key"]), _cell(document["value"])]
    if headers:
        cells.append(headers_as_text(document["headers"]))
    if "error" in document:
        cells.append(f"(not decoded: {document['error']})")
    return "\t".join(cells)


def headers_as_text(headers: list[list[str | None]]) -> str:
    """Names and texts in one line, as Kafka's console consumer prints them."""
    return ",".join(f"{name}:{_cell(value)}" for name, value in headers)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


def _finite(value: Any) -> Any:
    """A value with text in place of the floats that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list) else value


def _text_of(value: Any) -> str:
    return base64_text(value) if isinstance(value, bytes) else str(value)
