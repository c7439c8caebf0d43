"""A client of the extension has a token as long as it lasts, and its function is called aside."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest
from confluent_kafka import KafkaException

from streamlet.errors import AuthenticationError
from streamlet.kafka.client import sink_type, source_type
from streamlet.kafka.native import tokens
from streamlet.kafka.native.library import native
from streamlet.kafka.native.tokens import keep_logged_in
from streamlet.kafka.sink import KafkaSink
from streamlet.kafka.source import KafkaSource
from streamlet.kafka.token_functions import TokenFunction
from tests.kafka_clients import EACH_CLIENT, NATIVE_ONLY

LOGIN: dict[str, Any] = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}
WAIT_S = 120


class Told:
    """Stands for a client of the extension."""

    def __init__(self) -> None:
        self.given: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self.failed: SimpleQueue[str] = SimpleQueue()
        self.closed = False

    def set_token(self, *token: Any) -> None:
        """Take a token."""
        if self.closed:
            raise RuntimeError("the client is closed")
        self.given.put(token)

    def token_failed(self, reason: str) -> None:
        """Take a reason."""
        if self.closed:
            raise RuntimeError("the client is closed")
        self.failed.put(reason)

    def close(self) -> None:
        """Take nothing any more."""
        self.closed = True


def own_thread(told: list[threading.Thread]) -> threading.Thread:
    """The thread that calls the function, once it has."""
    (thread,) = set(told)
    assert thread is not threading.current_thread()
    return thread


@pytest.mark.parametrize("ended", ["dropped", "closed"])
def test_a_client_gets_a_token_before_the_last_one_expires_until_it_ends(
    ended: str, caplog: pytest.LogCaptureFixture
) -> None:
    called_on: list[threading.Thread] = []

    def function(argument: str) -> tuple[Any, ...]:
        called_on.append(threading.current_thread())
        number, expires_s = len(called_on), time.time() + 0.5
        return (f"{argument}{number}", expires_s, "me", {"a": "b", "c": "d"})[
            : 2 if number > 1 else 4
        ]

    client = Told()
    keep_logged_in(client, TokenFunction(function), "token")
    first, second = (client.given.get(timeout=WAIT_S) for _ in range(2))
    assert (first[0], *first[2:]) == ("token1", "me", ("a", "b", "c", "d"))
    assert (second[0], *second[2:]) == ("token2", "", ())
    assert abs(second[1] - time.time() * 1000) < WAIT_S * 1000
    thread = own_thread(called_on)
    if ended == "closed":
        client.close()
    else:
        del client
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert "no token" not in caplog.text, "that it has ended is no news"


def test_a_function_that_fails_is_called_again_and_the_client_knows_why(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "PAUSES_MS", (10, 10_000))
    answers: list[Any] = [ValueError("not yet"), ("text", time.time() + 1e6)]

    def function(_: str) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    client = Told()
    keep_logged_in(client, TokenFunction(function), "")
    assert client.given.get(timeout=WAIT_S)[0] == "text"
    said = client.failed.get(timeout=WAIT_S)
    assert said.startswith("no token to log in with: the function that gets tokens raised ")
    assert said.endswith("ValueError: not yet")
    assert said in caplog.text


def test_a_client_is_not_opened_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "FIRST_S", 0.01)
    may_end = threading.Event()

    def slow(_: str) -> tuple[str, float]:
        assert may_end.wait(WAIT_S)
        return "late", time.time() + 1e6

    client = Told()
    with pytest.raises(KafkaException, match="the function that gets tokens took"):
        keep_logged_in(client, TokenFunction(slow), "")
    may_end.set()
    assert client.closed


@EACH_CLIENT
@pytest.mark.parametrize("kind", [source_type, sink_type])
def test_each_client_logs_in_by_a_function(client: Any, kind: Callable[..., Any]) -> None:
    asked: list[str] = []

    def function(argument: str) -> tuple[Any, ...]:
        asked.append(argument)
        return "token", time.time() + 1e6, "me", {"one": "1"}

    own = {**LOGIN, "oauth_cb": function, "sasl.oauthbearer.config": "team=a"}
    make = kind(client, own)
    assert (make in (KafkaSource, KafkaSink)) is (client == "python")
    make("localhost:1", own).close()
    assert asked == ["team=a"]


@NATIVE_ONLY
@pytest.mark.parametrize("kind", [source_type, sink_type])
def test_a_function_that_never_gives_a_token_is_named_at_once(kind: Callable[..., Any]) -> None:
    own = {**LOGIN, "oauth_cb": lambda _: 7}
    with pytest.raises(AuthenticationError, match=r"must return the token .* it returned int"):
        kind("native", own)("localhost:1", own)


@NATIVE_ONLY
@pytest.mark.parametrize(
    ("token", "error"),
    [
        (("text", 1, "", ()), KafkaException),
        (("te\x01xt", 2**50, "", ()), KafkaException),
        (("te\0xt", 2**50, "", ()), ValueError),
        (("text", 2**70, "", ()), OverflowError),
        (("text", 2**50, None, ()), TypeError),
        (("text", 2**50, "", ("name",)), KafkaException),
        (("text", 2**50, "", ("na me", "value")), KafkaException),
        (("text", 2**50, "", ("name", 7)), TypeError),
        (("text", 2**50, "", ["name", "value"]), TypeError),
        (("text", 2**50, "", ("name", "\ud800")), UnicodeEncodeError),
        (("\ud800", 2**50, "", ()), UnicodeEncodeError),
    ],
)
def test_a_wrong_token_raises_and_the_next_is_taken(
    token: tuple[Any, ...], error: type[Exception]
) -> None:
    module: Any = native().module
    client = module.Client(0, LOGIN, print)
    with pytest.raises(error):
        client.set_token(*token)
    client.set_token("text", 2**50, "me", ("name", "value"))
    with pytest.raises(UnicodeEncodeError):
        client.token_failed("\ud800")
    client.token_failed("none")
    client.close()
    for call in (lambda: client.set_token("text", 2**50, "", ()), lambda: client.token_failed("")):
        with pytest.raises(RuntimeError, match="the client is closed"):
            call()
