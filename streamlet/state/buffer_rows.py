"""The rows of a buffer: the updates that ``suppress`` keeps back, and where each key's is.

An update is ``(value, prior value, headers, bytes of the value)``. The bytes are known of rows that
were read from the medium, and of all in a buffer that is bounded by bytes; else they are 0. A
*place* is the buffer time of a key whose time cannot be told from the key.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from streamlet.serdes import Serde
from streamlet.serdes.serde import build_rows

#: The time in the keys of places; updates have times from 0 on.
PLACES = -1

#: Lengths of value and prior value; -1 for None. A place has its own first number.
_HEAD = struct.Struct(">ii")
_PLACE = struct.Struct(">iq")
_IS_PLACE = -2

_encode_headers = msgspec.msgpack.Encoder().encode
_decode_headers = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]]).decode


def buffer_rows(value: Serde[Any]) -> Serde[Any]:
    """The serde of a buffer's rows, for values of a serde."""

    def encode_all(rows: list[Any]) -> list[bytes]:
        updates = [row for row in rows if type(row) is tuple]
        values = iter(value.encode_rows([row[0] for row in updates]))
        priors = iter(value.encode_rows([row[1] for row in updates]))
        return [
            _joined(next(values), next(priors), row[2])
            if type(row) is tuple
            else _PLACE.pack(_IS_PLACE, row)
            for row in rows
        ]

    def decode(raw: bytes) -> Any:
        if int.from_bytes(raw[:4], "big", signed=True) == _IS_PLACE:
            return _PLACE.unpack(raw)[1]
        length, prior_length = _HEAD.unpack_from(raw)
        middle = _HEAD.size + max(0, length)
        end = middle + max(0, prior_length)
        now = None if length < 0 else value.decode(raw[_HEAD.size : middle])
        prior = None if prior_length < 0 else value.decode(raw[middle:end])
        headers = _decode_headers(raw[end:]) if len(raw) > end else None
        return now, prior, headers, max(0, length)

    return build_rows(f"buffered {value.name}", encode_all, decode, tuple, int)


def _joined(value: bytes | None, prior: bytes | None, headers: Any) -> bytes:
    lengths = _HEAD.pack(-1 if value is None else len(value), -1 if prior is None else len(prior))
    tail = b"" if headers is None else _encode_headers(headers)
    return b"".join((lengths, value or b"", prior or b"", tail))
