"""What the admin client is asked, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamlet.errors import UnreachableError
from streamlet.kafka import admin as module
from streamlet.kafka.admin import KafkaAdmin
from streamlet.types import TopicPartition

PARTITION = TopicPartition("in", 0)


class Asked:
    """Stands for librdkafka's client: every topic ends at 7."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.calls: list[str] = []
        self.forgets = 0  # so many requests for offsets

    def poll(self, timeout: float) -> None:
        """Nothing to serve."""

    def list_topics(self, timeout: float) -> Any:
        self.calls.append("topics")
        return SimpleNamespace(topics={})

    def list_offsets(self, wanted: Mapping[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        self.calls.append("offsets")
        answers: dict[Any, Future[Any]] = {partition: Future() for partition in wanted}
        if self.forgets:
            self.forgets -= 1
            return answers
        for answer in answers.values():
            answer.set_result(SimpleNamespace(offset=7))
        return answers


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> KafkaAdmin:
    monkeypatch.setattr(module, "AdminClient", Asked)
    monkeypatch.setattr(module, "_FIRST_ANSWER_MS", 1)
    return KafkaAdmin("localhost:1", timeout_ms=20)


def asked(admin: KafkaAdmin) -> Asked:
    return cast(Asked, admin._client)


def test_the_first_request_for_offsets_looks_for_brokers_before(admin: KafkaAdmin) -> None:
    """A client that is asked for offsets first of all may wait for seconds, even minutes."""
    assert admin.end_offsets([PARTITION]) == {PARTITION: 7}
    assert admin.start_offsets([PARTITION]) == {PARTITION: 7}
    assert asked(admin).calls == ["topics", "offsets", "offsets"]


def test_a_request_for_offsets_that_is_forgotten_is_made_again(admin: KafkaAdmin) -> None:
    asked(admin).forgets = 2
    assert admin.end_offsets([PARTITION]) == {PARTITION: 7}
    assert asked(admin).calls == ["topics", *["offsets", "topics"] * 2, "offsets"]


def test_a_broker_that_never_answers_about_offsets_is_given_up(admin: KafkaAdmin) -> None:
    asked(admin).forgets = 1_000
    with pytest.raises(UnreachableError, match="no answer from localhost:1 within 20 ms"):
        admin.end_offsets([PARTITION])
