"""What the admin client is asked, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from streamlet.kafka import admin as module
from streamlet.kafka.admin import KafkaAdmin
from streamlet.types import TopicPartition


class Asked:
    """Stands for librdkafka's client: every topic ends at 7."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.calls: list[str] = []

    def list_topics(self, timeout: float) -> Any:
        self.calls.append("topics")
        return SimpleNamespace(topics={})

    def list_offsets(self, wanted: Mapping[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        self.calls.append("offsets")
        answers: dict[Any, Future[Any]] = {partition: Future() for partition in wanted}
        for answer in answers.values():
            answer.set_result(SimpleNamespace(offset=7))
        return answers


def test_the_first_request_for_offsets_looks_for_brokers_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that is asked for offsets first of all may wait for seconds, even minutes."""
    monkeypatch.setattr(module, "AdminClient", Asked)
    admin = KafkaAdmin("localhost:1")
    partition = TopicPartition("in", 0)
    assert admin.end_offsets([partition]) == {partition: 7}
    assert admin.start_offsets([partition]) == {partition: 7}
    assert admin._client.calls == ["topics", "offsets", "offsets"]  # type: ignore[attr-defined]
