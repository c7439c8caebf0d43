"""The producer of transactions, as far as it needs no broker."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamlet.errors import ConfigError, MissingRightError, UnreachableError
from streamlet.kafka import transactions
from streamlet.kafka.client import TransactionalSink


def test_memberships_have_the_clients_own_form() -> None:
    transactions.check_group_form()


def test_another_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "group_bytes", lambda *parts: b"CGMDv3:")
    with pytest.raises(ConfigError, match="at_least_once"):
        transactions.check_group_form()


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (53, MissingRightError, "--operation Write --transactional-id app-1-0"),
        (50, ConfigError, "transaction.timeout.ms = 60000"),
        (KafkaError._TIMED_OUT, UnreachableError, "app-1-0 has no epoch yet"),
    ],
)
def test_why_there_is_no_epoch(
    monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception], said: str
) -> None:
    def refuse(self: TransactionalSink, timeout_s: float) -> None:
        raise KafkaException(KafkaError(code))

    monkeypatch.setattr(TransactionalSink, "_initialized", refuse)
    with pytest.raises(kind, match=said):
        TransactionalSink("app-1-0", 60_000, "127.0.0.1:1")


def test_a_client_that_was_fenced_while_it_asked_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fenced one never has an epoch, and what is open on the brokers waits for one."""
    asked: list[object] = []

    def refuse_once(self: TransactionalSink, timeout_s: float) -> None:
        asked.append(self._producer)
        if len(asked) == 1:
            raise KafkaException(KafkaError(KafkaError._FENCED, fatal=True))

    monkeypatch.setattr(TransactionalSink, "_initialized", refuse_once)
    sink = TransactionalSink("app-1-0", 60_000, "127.0.0.1:1")
    assert sink.has_room(hurried=False)
    assert len(asked) == 2
    assert asked[1] is not asked[0]
    sink.close()
