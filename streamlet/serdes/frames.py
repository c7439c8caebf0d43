"""A hint at records of a schema registry where another serde reads them."""

from __future__ import annotations

#: What a schema registry's serializers put in front: a 0 and an id, from 1 on.
_FRAME_BYTES, _MOST_LIKELY_ID = 5, 1 << 24


def frame_hint(name: str, raw: bytes) -> str:
    """A hint where bytes begin as those of a schema registry's serializers."""
    if raw[:1] != b"\0" or len(raw) <= _FRAME_BYTES or name.startswith("registry("):
        return ""
    number = int.from_bytes(raw[1:_FRAME_BYTES], "big")
    if not 0 < number < _MOST_LIKELY_ID:
        return ""
    return (
        f"; it begins as records of a schema registry do (schema id {number}): read those with "
        "sl.registry.avro, sl.registry.json or sl.registry.protobuf"
    )
