"""Answers that no broker gives: of another program at the port, or of one that wants to harm."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator

import pytest

from streamlet.coordinator.ports import TransportError
from streamlet.coordinator.transport import Transport
from tests.unit.coordinator.servers import answering

LARGE = 1 << 20
#: Frames by name: a length, and what comes behind the number of the request.
FRAMES = {
    "another protocol": b"RFB 003.008\n" + bytes(100),
    "a web server's": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "too long": struct.pack(">i", (1 << 31) - 1) + bytes(100),
    "negative": struct.pack(">i", -5) + bytes(100),
    "cut off": struct.pack(">ii", 5, 1) + b"\0",
    "garbled": struct.pack(">ii", LARGE + 4, 1) + b"\0\0" + b"\x7f" * (LARGE - 2),
}


#: Who is known by a look at the address is named as soon as that has been, however long it takes.
NAMED = {"a web server's": "answers as a web server, not as Kafka"}


@pytest.fixture(params=FRAMES)
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that answers each first request with such a frame."""

    def answer(connection: socket.socket) -> None:
        if connection.recv(4_096):
            connection.sendall(FRAMES[request.param])
            connection.recv(4_096)

    with answering(answer) as found:
        yield found


def test_a_frame_that_is_none_is_an_error_of_its_own_and_fills_no_log(
    address: str,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kafka-python printed all bytes of a garbled answer, at each of ten tries a second."""
    named = NAMED.get(request.node.callspec.params["address"])
    if named:
        monkeypatch.setattr("streamlet.kafka.listener._WAIT_S", 300)
    transport = Transport(address)
    try:
        with pytest.raises(TransportError, match=named or "cannot reach 127"):
            transport.find_coordinator("g", 300_000 if named else 300).result(300)
    finally:
        transport.close()
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
