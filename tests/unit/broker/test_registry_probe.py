"""The question whether a schema registry serves on this machine."""

from __future__ import annotations

import socket
import threading

import pytest

from streamlet.broker.registry import answers
from tests.registry_server import HOST, RegistryServer


def test_a_registry_here_is_asked_directly_whatever_proxy_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://{HOST}:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with RegistryServer() as server:
        server.bad = 200, b"[]"
        assert answers(server.url)


def test_a_program_that_speaks_no_http_is_no_registry() -> None:
    with socket.create_server((HOST, 0)) as listening:

        def answer() -> None:
            connection = listening.accept()[0]
            with connection:
                connection.recv(1_000)
                connection.sendall(b"nonsense\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert not answers(f"http://{HOST}:{listening.getsockname()[1]}")
        thread.join()
