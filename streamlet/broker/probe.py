"""Asks a broker whether it serves: one Metadata request over a plain socket.

An open port says nothing: it opens long before the broker knows of itself. Metadata lists live
brokers only, so an answer with a broker in it means that topics can be made and records sent. No
client library is used, because a probe must neither retry nor log.
"""

from __future__ import annotations

import socket
import struct

_METADATA_KEY, _METADATA_VERSION, _CORRELATION = 3, 1, 7
#: A reply to our request is a few hundred bytes; anything larger is not Kafka speaking.
_LARGEST_REPLY = 1 << 20


def serves(host: str, port: int, timeout_ms: int = 1000) -> bool:
    """Whether a broker at this address answers and counts at least one broker as alive."""
    client = b"streamlet-probe"
    request = (
        struct.pack(">hhih", _METADATA_KEY, _METADATA_VERSION, _CORRELATION, len(client))
        + client
        + struct.pack(">i", 0)  # of no topic
    )
    try:
        with socket.create_connection((host, port), timeout_ms / 1000) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _read(connection, 4))
            if not 8 <= size <= _LARGEST_REPLY:
                return False
            correlation, brokers = struct.unpack(">ii", _read(connection, size)[:8])
    except OSError:
        return False
    return bool(correlation == _CORRELATION and brokers > 0)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError("closed in the middle of an answer")
        data += part
    return data
