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
