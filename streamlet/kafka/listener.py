"""The kind of listener at an address, found out where a client gets no answer from it.

Kafka's clients do not say: one of the wrong protocol meets a connection that ends, or silence, as
with a broker that is away. So the address is asked here by each protocol in turn, without a login
and without trust.
"""

from __future__ import annotations

import enum
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cache, partial
from typing import Any

_API_VERSIONS, _METADATA = 18, 3
_CORRELATION = 7
_CLIENT = b"streamlet-look"
#: Record types of TLS that a server sends to bytes that it does not understand.
_TLS_ALERT = b"\x15\x03"
_LARGEST = 1 << 20
_ADDRESS = re.compile(r"(\[[^]]*\]|[^:]*)(?::(\d+))?")
#: Where librdkafka looks without a number.
_USUAL_PORT = 9092
#: How long each answer is waited for. A listener that can answer does so at once.
_WAIT_S = 1.0


class Listener(enum.Enum):
    """The kind of listener at an address, as far as it shows."""

    UNKNOWN = "nothing that answers"
    OPEN = "Kafka"
    LOGIN = "Kafka, with a login"
    TLS = "TLS"
    TLS_OPEN = "Kafka with TLS"
    TLS_LOGIN = "Kafka with TLS and a login"
    WEB = "a web server"


def looking(servers: str, config: Mapping[str, Any]) -> Callable[[], str]:
    """A function that gives the ``mismatch`` of a client's settings, and looks once."""
    return cache(partial(mismatch, servers, str(config.get("security.protocol", "plaintext"))))


def looking_aside(servers: str, config: Mapping[str, Any]) -> Callable[[], Future[str]]:
    """Like ``looking``, on a thread of its own; a call gives the answer to come."""
    look = looking(servers, config)

    def begin() -> Future[str]:
        future: Future[str] = Future()
        threading.Thread(target=lambda: future.set_result(look()), daemon=True).start()
        return future

    return begin


def mismatch(servers: str, protocol: str) -> str:
    """The sentence that says which setting does not fit what answers; empty if none is seen.

    Args:
        servers: ``bootstrap.servers``.
        protocol: ``security.protocol``.
    """
    for address in filter(None, map(str.strip, servers.split(","))):
        found = look(address)
        if found is Listener.UNKNOWN:
            continue
        if found in (Listener.LOGIN, Listener.TLS_LOGIN) and look(address) is not found:
            continue  # a broker that ends looks like that, once
        return sentence(address, found, protocol.lower())
    return ""


def sentence(address: str, found: Listener, protocol: str) -> str:
    """The sentence about a listener that does not fit the protocol, empty if it does."""
    if found is Listener.WEB:
        return f"{address} answers as a web server, not as Kafka: look at bootstrap.servers"
    if found is Listener.UNKNOWN:
        return ""
    encrypted, login = found.name.startswith("TLS"), found in (Listener.LOGIN, Listener.TLS_LOGIN)
    known = found is not Listener.TLS
    logs_in = login if known else protocol.startswith("sasl")
    wanted = f"{'sasl_' * logs_in}{'ssl' if encrypted else 'plaintext'}"
    if wanted == protocol:
        return ""
    if encrypted != protocol.endswith("ssl"):
        seen = "speaks TLS" if encrypted else "does not speak TLS"
    else:
        seen = "asks for a login" if login else "asks for no login"
    more = " and sasl.mechanism" if logs_in and not protocol.startswith("sasl") else ""
    if not known and not logs_in:
        more = ", or sasl_ssl and sasl.mechanism if it asks for a login"
    return (
        f"{address} {seen}, and security.protocol = {protocol}: "
        f"set security.protocol = {wanted}{more}"
    )


def look(address: str) -> Listener:
    """The kind of listener at ``host:port``."""
    parts = _ADDRESS.fullmatch(address.rpartition("://")[2])
    if parts is None or not parts[1].strip("[]"):
        return Listener.UNKNOWN
    where = parts[1].strip("[]"), int(parts[2] or _USUAL_PORT)
    try:
        plain = _plain(where)
        if plain is not Listener.UNKNOWN:
            return plain
        encrypted = _encrypted(where)
        return encrypted if encrypted is not Listener.UNKNOWN else _web(where)
    except (OSError, ValueError, OverflowError):
        # Nothing listens, the name is not known, or it or the port is none.
        return Listener.UNKNOWN


def _plain(where: tuple[str, int]) -> Listener:
    with socket.create_connection(where, _WAIT_S) as connection:
        connection.settimeout(_WAIT_S)
        first = _exchange(connection, _API_VERSIONS, 0, b"")
        if first.startswith(_TLS_ALERT):
            return _encrypted(where)
        if first.startswith(b"HTTP"):
            return Listener.WEB
        if not _is_answer(first):
            return Listener.UNKNOWN
        return Listener.OPEN if _lists_brokers(connection) else Listener.LOGIN


def _encrypted(where: tuple[str, int]) -> Listener:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection(where, _WAIT_S) as plain,
            context.wrap_socket(plain, server_hostname=where[0]) as connection,
        ):
            first = _exchange(connection, _API_VERSIONS, 0, b"")
            if _is_answer(first):
                return Listener.TLS_OPEN if _lists_brokers(connection) else Listener.TLS_LOGIN
            return Listener.WEB if first.startswith(b"HTTP") else Listener.TLS
    except ssl.SSLError as error:
        # An alert is an answer: of a listener that wants a certificate of the client, say.
        return Listener.TLS if "ALERT" in (error.reason or "") else Listener.UNKNOWN


def _web(where: tuple[str, int]) -> Listener:
    with socket.create_connection(where, _WAIT_S) as connection:
        connection.settimeout(_WAIT_S)
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return Listener.WEB if _read(connection).startswith(b"HTTP") else Listener.UNKNOWN


def _lists_brokers(connection: socket.socket) -> bool:
    """True if the listener takes a request without a login."""
    return _is_answer(_exchange(connection, _METADATA, 1, struct.pack(">i", 0)))


def _exchange(connection: socket.socket, key: int, version: int, body: bytes) -> bytes:
    """Send a request; the first bytes that come back, empty for none."""
    header = struct.pack(">hhih", key, version, _CORRELATION, len(_CLIENT)) + _CLIENT
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    return _read(connection)


def _read(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_LARGEST)
    except (TimeoutError, ConnectionError):
        return b""


def _is_answer(data: bytes) -> bool:
    """True if bytes begin an answer of Kafka's to our request."""
    if len(data) < 8:
        return False
    size, correlation = struct.unpack_from(">ii", data)
    return bool(correlation == _CORRELATION and 4 <= size <= _LARGEST)
