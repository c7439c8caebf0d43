"""Bytes that are no request: they are refused, and leave no traceback in the log."""

from __future__ import annotations

import logging
import socket

import pytest

from tests.unit.web.served import counted, server_of

pytest.importorskip("aiohttp")

REQUESTS = (
    b"GET /stores/counts/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /stores HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n",
    b"GET /stores HTTP/1.1\r\n\r\n",
    b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"f" * 20
    + b"\r\n",
)


def test_what_is_no_request_is_refused_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Anyone who reaches the port can send such bytes, without a token, as often as they like."""
    with server_of(counted().served) as server, caplog.at_level(logging.INFO):
        for request in REQUESTS:
            with socket.create_connection(("127.0.0.1", server.port), 300) as connection:
                connection.sendall(request)
                assert connection.recv(1_000).split(b"\r\n")[0].endswith(b"400 Bad Request")
    assert caplog.text == ""
