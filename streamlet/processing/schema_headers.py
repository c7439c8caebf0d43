"""Schema ids that producers put into headers, back in front of keys and values."""

from __future__ import annotations

from typing import Any

from streamlet.kafka.ports import PartitionBatch
from streamlet.serdes import Serde

#: The headers with schema ids, as Confluent's serializers name them.
_HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}


def with_ids(serde: Serde[Any], raw: PartitionBatch, role: str) -> list[bytes | None]:
    """The keys or the values of a batch; for a serde with a registry those of headers in front."""
    column = raw.keys if role == "key" else raw.values
    if serde.for_topic is None or raw.headers is None:
        return column
    name, out = _HEADERS[role], list(column)
    for row, headers in enumerate(raw.headers):
        one = out[row]
        if headers is None or one is None:
            continue
        for header, content in headers:
            if header == name and content is not None:
                out[row] = content + one
    return out
