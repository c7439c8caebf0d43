"""What a request that failed is said to be: no answer, a refused login, a missing right."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as RawPartition

from streamlet.broker.port import PortReservation
from streamlet.clock import SystemClock
from streamlet.coordinator.ports import CoordinatorRefused
from streamlet.errors import (
    AuthenticationError,
    DeliveryError,
    MissingRightError,
    MissingTopicError,
    RecordRefusedError,
    UnreachableError,
)
from streamlet.kafka.admin import KafkaAdmin
from streamlet.kafka.admin_errors import AdminErrors
from streamlet.kafka.broker_loss import BrokerLossDetector
from streamlet.kafka.oidc import no_token
from streamlet.kafka.refusals import record_refused, unwritable
from streamlet.kafka.topic_changes import RefusedDeletions
from streamlet.rights import REFUSED, Right, missing
from tests.token_server import HOST, SECRET, TokenServer

WRONG_PASSWORD = KafkaError(
    KafkaError._AUTHENTICATION, "SASL authentication error: Authentication failed"
)
TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "Timed out"))
CLOCK = SystemClock()
READ = Right("READ", "topic", "lines")


def failures(refusal: KafkaError | None = None, misfit: str = "") -> AdminErrors:
    return AdminErrors("broker:9092", 15_000, lambda: refusal, lambda: misfit)


def test_a_client_whose_login_is_refused_does_not_call_the_broker_silent() -> None:
    for error in (
        failures(WRONG_PASSWORD).silent(),
        failures(WRONG_PASSWORD).unreachable(TIMED_OUT),
        failures(WRONG_PASSWORD).failed("topics", TIMED_OUT, READ),
    ):
        assert isinstance(error, AuthenticationError)
        assert not error.passing
        assert "Authentication failed" in str(error)
        assert "Is the broker running" not in str(error)
    assert isinstance(failures().silent(), UnreachableError)


def test_a_token_endpoint_that_gives_no_token_is_named_in_place_of_the_broker() -> None:
    """librdkafka asks on, and reports nothing where the endpoint is busy."""
    with closing(TokenServer(body=b"<html>busy</html>")) as server, PortReservation() as nobody:
        oidc = {
            "sasl.oauthbearer.token.endpoint.url": server.url,
            "sasl.oauthbearer.client.id": "app",
            "sasl.oauthbearer.client.secret": SECRET,
        }
        config = {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            **oidc,
        }
        with pytest.raises(UnreachableError, match="no token to log in with: the answer of the"):
            KafkaAdmin(f"{HOST}:{nobody.port}", config, timeout_ms=1).topics()

        errors = AdminErrors(
            *("broker:9092", 15_000, lambda: None, str),
            no_token=partial(no_token, {**oidc, "sasl.oauthbearer.client.secret": "s3cret"}, CLOCK),
        )
        server.body = None
        refused = errors.silent()
    assert isinstance(refused, AuthenticationError)
    assert "no such secret" in str(refused)
    assert "s3cret" not in str(refused)


@pytest.mark.parametrize(
    ("code", "text", "refused"),
    [
        (KafkaError._AUTHENTICATION, "SASL authentication error", True),
        (KafkaError._SSL, "SSL handshake failed: certificate verify failed", True),
        (
            KafkaError._TRANSPORT,
            "Receive failed: error:0A00045C:SSL routines::tlsv13 alert certificate required: "
            "SSL alert number 116",
            True,
        ),
        (
            KafkaError._TRANSPORT,
            "error:0A000410:SSL routines::ssl/tls alert handshake failure",
            True,
        ),
        (KafkaError._TRANSPORT, "error:0A000438:SSL routines::tlsv1 alert internal error", False),
        (KafkaError._TRANSPORT, "Connect to ipv4#127.0.0.1:9092 failed: refused", False),
        (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down", False),
    ],
)
def test_a_refusal_is_told_from_a_broker_that_is_away(code: int, text: str, refused: bool) -> None:
    detector = BrokerLossDetector()
    detector(KafkaError(code, text))
    assert (detector.refusal is not None) is refused
    broken = not refused and code == KafkaError._TRANSPORT
    assert detector.broken() == (text if broken else "")


def test_a_broker_that_is_away_is_told_by_what_became_of_the_connection() -> None:
    refused = "Connect to ipv4#127.0.0.1:9092 failed: Connection refused"
    errors = AdminErrors("broker:9092", 15_000, lambda: None, str, lambda: refused)
    for error in (errors.silent(), errors.unreachable(TIMED_OUT)):
        assert str(error).startswith(f"no answer from broker:9092 within 15000 ms: {refused}. ")
    assert "within 15000 ms: Timed out. " in str(failures().unreachable(TIMED_OUT))


@pytest.mark.parametrize("code", sorted(REFUSED))
def test_a_missing_right_is_named_with_the_command_that_grants_it(code: int) -> None:
    error = failures().failed("reading", KafkaException(KafkaError(code)), READ)
    assert isinstance(error, MissingRightError)
    assert error.final
    assert "READ on topic lines" in str(error)
    assert "--operation Read --topic lines" in str(error)


def test_the_command_has_kafkas_words() -> None:
    assert "--operation DescribeConfigs --topic a" in missing(
        Right("DESCRIBE_CONFIGS", "topic", "a")
    )
    assert "--operation Read --group a" in missing(Right("READ", "group", "a"))
    assert "DESCRIBE on the cluster" in missing(Right("DESCRIBE", "cluster"))
    assert "--operation Describe --cluster" in missing(Right("DESCRIBE", "cluster"))


def test_a_record_without_the_right_to_write_is_no_record_to_skip() -> None:
    """A policy that skips what the producer refuses would lose all records."""
    error = record_refused("out", 0, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert isinstance(error, MissingRightError)
    assert isinstance(error, DeliveryError)
    assert not isinstance(error, RecordRefusedError)
    assert "WRITE on topic out" in str(error)
    cluster = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    said = str(unwritable("x", cluster, ["out"]))
    assert "WRITE on topic out or IDEMPOTENT_WRITE on the cluster" in said


def test_a_topic_that_is_hidden_is_named_with_the_right() -> None:
    assert "no right to READ on topic lines" in str(MissingTopicError("no lines", hidden=["lines"]))
    assert str(MissingTopicError("no topic matches")) == "no topic matches"


def test_records_that_may_not_be_deleted_name_the_right(caplog: pytest.LogCaptureFixture) -> None:
    answer: Future[Any] = Future()
    with caplog.at_level(logging.WARNING):
        RefusedDeletions().watch({RawPartition("app-x-repartition", 0): answer})
        answer.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    assert "DELETE on topic app-x-repartition" in caplog.text


def test_a_group_that_may_not_be_looked_up_names_the_right() -> None:
    assert "DESCRIBE on group words" in str(CoordinatorRefused(30, "words"))
    assert CoordinatorRefused(30, "words").final
    assert not CoordinatorRefused(24, "words").final
