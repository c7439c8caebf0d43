"""Asks a broker whether it serves: two requests over a plain socket.

An open port says nothing: it opens long before the broker knows of itself. Metadata lists live
brokers only, so an answer with a broker in it means that topics can be made; a producer id is given
only once the controller has handed out a block of them, which is the last thing a first start waits
for. No client library is used, because a probe must neither retry nor log.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection

_METADATA, _METADATA_VERSION = 3, 1
_INIT_PRODUCER_ID, _INIT_PRODUCER_ID_VERSION = 22, 0
_CORRELATION = 7
_CLIENT = b"streamlet-probe"
#: A reply to our requests is a few hundred bytes; anything larger is not Kafka speaking.
_LARGEST_REPLY = 1 << 20


def serves(host: str, port: int, timeout_ms: int = 1000, nodes: Collection[int] = ()) -> bool:
    """True if a broker at this address takes topics and records, and knows these brokers."""
    try:
        with socket.create_connection((host, port), timeout_ms / 1000) as connection:
            no_topic = struct.pack(">i", 0)
            reply = _ask(connection, _METADATA, _METADATA_VERSION, no_topic)
            living = _node_ids(reply)
            if not living or not living.issuperset(nodes):
                return False
            not_transactional = struct.pack(">hi", -1, 0)
            reply = _ask(
                connection, _INIT_PRODUCER_ID, _INIT_PRODUCER_ID_VERSION, not_transactional
            )
            (error,) = struct.unpack_from(">h", reply, 4)  # behind the throttle time
            return bool(error == 0)
    except (OSError, struct.error):
        return False


def _node_ids(metadata: bytes) -> set[int]:
    """The numbers of the brokers that an answer lists."""
    (count,) = struct.unpack_from(">i", metadata)
    found, at = set(), 4
    for _ in range(count):
        (node, host) = struct.unpack_from(">ih", metadata, at)
        found.add(node)
        at += 6 + host + 4
        (rack,) = struct.unpack_from(">h", metadata, at)
        at += 2 + max(rack, 0)
    return found


def _ask(connection: socket.socket, key: int, version: int, body: bytes) -> bytes:
    """Send one request, return the answer behind its header."""
    header = struct.pack(">hhih", key, version, _CORRELATION, len(_CLIENT)) + _CLIENT
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    size, correlation = struct.unpack(">ii", _read(connection, 8))
    if correlation != _CORRELATION or not 4 <= size <= _LARGEST_REPLY:
        raise ConnectionError("the broker answered another request than ours")
    return _read(connection, size - 4)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the connection was closed in the middle of an answer")
        data += part
    return data
