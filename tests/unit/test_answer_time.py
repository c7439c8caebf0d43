"""Servers that hand out an answer byte by byte: it is whole in time, or there is none."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from streamlet.answer_time import AnswerTime, opener
from streamlet.kafka.oidc import TokenError, ask_endpoint
from streamlet.state.query_errors import StateStoreMigratedError
from streamlet.web.client import StoreClient

#: What a server sends at once, and then byte by byte.
HEADERS = b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 400 + b"\r\nContent-Length: 0\r\n\r\n"
CLOSES = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"[" + b" " * 400 + b"]"
KEEPS = b"HTTP/1.1 200 OK\r\nContent-Length: 402\r\n\r\n", b"[" + b" " * 400 + b"]"
REFUSES = b"HTTP/1.1 400 No\r\nConnection: close\r\n\r\n", b"{" + b" " * 400 + b"}"
HANDSHAKE = b"\x16\x03\x03\x40\x00", b"\x02" + b"\0" * 400
BETWEEN_S, LIMIT_S = 0.05, 0.2


@contextmanager
def dripping(first: bytes, rest: bytes) -> Iterator[int]:
    """The port of a server that answers so; it is whole in 20 s."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while not over.is_set():
                with suppress(OSError):  # cut, or the listener is closed
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65_536)
                        connection.sendall(first)
                        for at in range(len(rest)):
                            if over.wait(BETWEEN_S):
                                return
                            connection.sendall(rest[at : at + 1])

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def opened(_: AnswerTime, port: int) -> None:
    """Ask as the token endpoint is asked."""
    with opener(ssl.create_default_context()).open(f"http://127.0.0.1:{port}/") as answer:
        answer.read()


def opened_with_tls(_: AnswerTime, port: int) -> None:
    """The same with TLS."""
    opener(ssl.create_default_context()).open(f"https://127.0.0.1:{port}/")


def connected(time: AnswerTime, port: int) -> None:
    """Ask as a registry is asked."""
    with closing(time.plain("127.0.0.1", port)) as connection:
        connection.request("GET", "/")
        connection.getresponse().read()


def connected_with_tls(time: AnswerTime, port: int) -> None:
    """The same with TLS."""
    context = ssl.create_default_context()
    with closing(time.secured("127.0.0.1", port, context=context)) as connection:
        connection.request("GET", "/")


@pytest.mark.parametrize(
    ("asks", "answer"),
    [(one, answer) for one in (opened, connected) for answer in (HEADERS, CLOSES, KEEPS)]
    + [(one, HANDSHAKE) for one in (opened_with_tls, connected_with_tls)],
)
def test_an_answer_that_is_not_whole_in_time_is_none(
    asks: Callable[[AnswerTime, int], None], answer: tuple[bytes, bytes]
) -> None:
    with (
        dripping(*answer) as port,
        pytest.raises(TimeoutError, match=r"no whole answer in 0\.2 s"),
        AnswerTime(LIMIT_S) as time,
    ):
        asks(time, port)


def test_what_goes_wrong_in_time_is_as_it_is() -> None:
    with pytest.raises(ConnectionRefusedError), AnswerTime(60) as time:
        connected(time, 1)


@pytest.mark.parametrize("answer", [CLOSES, REFUSES])
def test_a_token_endpoint_takes_no_longer(
    answer: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamlet.kafka.oidc._TIMEOUT_S", LIMIT_S)
    login = {"sasl.oauthbearer.client.id": "app", "sasl.oauthbearer.client.secret": "secret"}
    with dripping(*answer) as port:
        url = f"http://127.0.0.1:{port}/token"
        with pytest.raises(TokenError) as refused:
            ask_endpoint({**login, "sasl.oauthbearer.token.endpoint.url": url}, 0)
    cut = "no whole answer in 0.2 s" if answer is CLOSES else "answers 400 No"
    assert cut in str(refused.value)


@pytest.mark.parametrize("answer", [HEADERS, CLOSES, KEEPS, REFUSES])
def test_a_client_of_stores_takes_no_longer(
    answer: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamlet.web.client._MARGIN_S", LIMIT_S)
    with dripping(*answer) as port:
        client = StoreClient(f"http://127.0.0.1:{port}")
        with pytest.raises(
            StateStoreMigratedError, match=r"no whole answer in 0\.\d+ s; ask again"
        ):
            client.get("/stores", {"timeout": "0"})
