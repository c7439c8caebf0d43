"""Tokens of the connections to a coordinator: their sources, and that there always is one."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from streamlet.clock import SystemClock
from streamlet.coordinator.events import FailureKind
from streamlet.coordinator.ports import TransportError
from streamlet.coordinator.tokens import TokenProvider, fetch_from
from streamlet.kafka.oidc import Token, TokenError, ask_endpoint
from streamlet.kafka.token_functions import TokenFunction
from tests.token_server import SECRET, TokenServer

CLOCK = SystemClock()
WAIT_S = 120


@pytest.fixture
def server() -> Iterator[TokenServer]:
    """It lives as long as the test."""
    with closing(TokenServer()) as made:
        yield made


def settings(server: TokenServer, **own: str) -> dict[str, str]:
    """The settings of a client."""
    given = {
        "token.endpoint.url": server.url,
        "client.id": "app",
        "client.secret": SECRET,
        "scope": "kafka",
        "extensions": "logicalCluster=lkc-1, identityPoolId=pool-1",
        **{key.replace("_", "."): value for key, value in own.items()},
    }
    return {f"sasl.oauthbearer.{key}": value for key, value in given.items()}


def ready(provider: TokenProvider, wait_ms: int = WAIT_S * 1000) -> None:
    """Wait for the first token as the I/O thread does."""
    asyncio.run(provider.ready(asyncio.sleep, CLOCK.now_ms() + wait_ms))


def test_a_token_is_asked_for_by_the_clients_credentials(server: TokenServer) -> None:
    before = CLOCK.wall_ms()
    token = ask_endpoint(settings(server), before)
    assert server.issued == ["app kafka"]
    assert before < token.expires_ms <= CLOCK.wall_ms() + server.life_s * 1000
    assert token.extensions == {"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}
    assert token.text not in repr(token)


def test_a_secret_that_is_refused_is_an_error_and_no_warning_beside_it(
    server: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    config = settings(server, client_secret="not-the-one")
    with (
        closing(TokenProvider(fetch_from(config, None, CLOCK), CLOCK)) as provider,
        pytest.raises(TransportError, match="invalid_client, no such secret") as refused,
    ):
        ready(provider)
    assert refused.value.kind is FailureKind.AUTHENTICATION
    assert "401" in str(refused.value)
    assert "not-the-one" not in str(refused.value)
    assert caplog.text == ""


def test_an_endpoint_that_is_away_is_named_and_asked_again() -> None:
    away = "http://127.0.0.1:1/token"
    config = {
        "sasl.oauthbearer.token.endpoint.url": away,
        "sasl.oauthbearer.client.id": "app",
        "sasl.oauthbearer.client.secret": SECRET,
    }
    asked_again, answered = threading.Event(), threading.Event()
    endpoints = iter((lambda: ask_endpoint(config, CLOCK.wall_ms()),))

    def fetch() -> Token:
        if (first := next(endpoints, None)) is not None:
            return first()
        asked_again.set()
        assert answered.wait(WAIT_S)
        return Token("second", CLOCK.wall_ms() + 600_000)

    with closing(TokenProvider(fetch, CLOCK)) as provider:
        with pytest.raises(TransportError):
            ready(provider, 0)
        assert asked_again.wait(WAIT_S)
        with pytest.raises(TransportError, match=f"no answer from the token endpoint {away}") as no:
            ready(provider, 0)
        assert no.value.kind is FailureKind.TIMEOUT
        assert no.value.passing
        answered.set()
        ready(provider)
        assert provider.token() == "second"


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>", b"[]", b'{"access_token": "opaque"}', b"\xff"),
        b'{"access_token": "opaque", "expires_in": 1e400}',
        *(b'{"access_token": null, "expires_in": 60}', b'{"access_token": 7, "expires_in": 60}'),
        *(b'{"access_token": "", "expires_in": 60}', b'{"access_token": {}, "expires_in": 60}'),
        b'{"access_token": "opaque\\u0001auth=x", "expires_in": 60}',
        b'{"access_token": "opaque' + b"e" * (1 << 18) + b'", "expires_in": 60}',
    ],
)
def test_an_answer_without_a_token_is_no_token_and_is_not_shown(
    server: TokenServer, body: bytes
) -> None:
    server.body = body
    with pytest.raises(TokenError, match="is no token") as refused:
        ask_endpoint(settings(server), 0)
    assert "opaque" not in str(refused.value)


@pytest.mark.parametrize(
    ("answered", "reason"),
    [
        (b"no web server", "no answer from the token endpoint http://127.0.0.1:"),
        (b"HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:1/", "/token answers 302 Found"),
        (b"HTTP/1.0 500 No\r\nTransfer-Encoding: chunked", "/token answers 500 No"),
    ],
)
def test_what_a_strange_server_answers_gives_no_token(answered: bytes, reason: str) -> None:
    config = {"sasl.oauthbearer.client.id": "app", "sasl.oauthbearer.client.secret": SECRET}
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as received:
                while received.readline().strip():
                    pass
                received.read(len("grant_type=client_credentials"))
                connection.sendall(answered + b"\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/token"
        with pytest.raises(TokenError, match=reason) as refused:
            ask_endpoint({**config, "sasl.oauthbearer.token.endpoint.url": url}, 0)
        thread.join()
    assert not refused.value.final
    with pytest.raises(TokenError, match="no answer from the token endpoint http://a:port/: "):
        ask_endpoint({**config, "sasl.oauthbearer.token.endpoint.url": "http://a:port/"}, 0)


def test_tokens_are_got_again_whatever_went_wrong_and_however_long_one_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A thread that ended would be seen as a warning, which is an error."""
    given = iter(("s3cret", "token"))

    def fetch() -> Token:
        text = next(given)
        if text == "s3cret":
            raise KeyError(text)
        return Token(text, 10**400)

    with closing(TokenProvider(fetch, CLOCK)) as provider:
        ready(provider)
        assert provider.token() == "token"
    assert provider._thread is not None
    provider._thread.join()
    assert "no token to log in with: getting one failed with KeyError" in caplog.text
    assert "s3cret" not in caplog.text


def test_a_token_that_says_no_time_has_that_of_the_answer(server: TokenServer) -> None:
    server.body = b'{"access_token": "opaque", "expires_in": 60}'
    assert ask_endpoint(settings(server), 5) == Token(
        "opaque", 60_005, {"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}
    )


def test_a_token_is_renewed_before_it_expires() -> None:
    """Without a call for it: a connection logs in again later than that."""
    renewed = threading.Event()
    given = iter(range(1, 1000))

    def fetch() -> Token:
        number = next(given)
        if number > 1:
            renewed.set()
        return Token(f"token {number}", CLOCK.wall_ms() + (1_300 if number == 1 else 600_000))

    with closing(TokenProvider(fetch, CLOCK)) as provider:
        ready(provider)
        assert renewed.wait(WAIT_S)
        ready(provider)
        assert provider.token() == "token 2"


def test_a_token_that_has_expired_is_not_used() -> None:
    asked_again, given = threading.Event(), iter(range(1000))

    def fetch() -> Token:
        if next(given):
            asked_again.set()
        return Token("old", 1)

    with closing(TokenProvider(fetch, CLOCK)) as provider:
        with pytest.raises(TransportError):
            ready(provider, 0)
        assert asked_again.wait(WAIT_S)
        with pytest.raises(TransportError, match="the last one has expired"):
            ready(provider, 0)
        with pytest.raises(Exception, match="the last one has expired"):
            provider.token()


def test_the_function_of_confluent_kafka_gives_tokens() -> None:
    asked: list[str] = []

    def oauth_cb(config: str) -> tuple[Any, ...]:
        asked.append(config)
        return "token", 12.5, "principal", {"logicalCluster": "other"}

    config = {"sasl.oauthbearer.config": "a=b", "sasl.oauthbearer.extensions": "logicalCluster=lkc"}
    assert fetch_from(config, TokenFunction(oauth_cb), CLOCK)() == Token(
        "token", 12_500, {"logicalCluster": "other"}
    )
    assert asked == ["a=b"]
    assert fetch_from({}, TokenFunction(lambda _: ("token", 12)), CLOCK)() == Token(
        "token", 12_000, {}
    )


@pytest.mark.parametrize(
    "wrong",
    [
        *("token", None, ("token",), (1, 2), ("token", "tomorrow")),
        *(("token", math.inf), ("token", math.nan), ("token", 1_700_000_000_000)),
        *(("token", 1, None), ("token", 1, "me", ["a"]), ("token", 1, "me", {"a": 1})),
        ("token", 1, "me", {}, "more"),
    ],
)
def test_a_function_that_gives_something_else_is_refused(wrong: object) -> None:
    with pytest.raises(TokenError, match="must return the token and when it expires") as refused:
        fetch_from({}, TokenFunction(lambda _: wrong), CLOCK)()
    assert refused.value.final


def test_a_function_that_raises_is_asked_again() -> None:
    def sealed(_: str) -> None:
        raise RuntimeError("the vault is sealed")

    with pytest.raises(TokenError, match="RuntimeError: the vault is sealed") as refused:
        fetch_from({}, TokenFunction(sealed), CLOCK)()
    assert not refused.value.final


def test_a_function_that_does_not_return_is_named_and_its_late_token_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client that was made hung with it, and a command for ever."""
    monkeypatch.setattr("streamlet.kafka.token_functions.FIRST_S", 0.01)
    calls, answers = threading.Semaphore(0), threading.Event()

    def slow(_: str) -> tuple[str, float]:
        calls.release()
        answers.wait(WAIT_S)
        return "token", 12

    function = TokenFunction(slow)
    for _ in range(2):
        with pytest.raises(TimeoutError, match="has not returned for"):
            function("")
        assert "has not returned for" in function.problem
    answers.set()
    monkeypatch.setattr("streamlet.kafka.token_functions.FIRST_S", WAIT_S)
    assert function("") == ("token", 12)
    assert (function.problem, function.expires_s) == ("", 12)
    assert calls.acquire(blocking=False)
    assert not calls.acquire(blocking=False)  # it was not called beside the call that hung


def test_tokens_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    fetch: Callable[[], Token] = lambda: Token("s3cret", CLOCK.wall_ms() + 600_000)  # noqa: E731
    with closing(TokenProvider(fetch, CLOCK)) as provider:
        ready(provider)
    assert "s3cret" not in caplog.text
