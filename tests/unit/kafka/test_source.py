"""What the consumer client is told, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from streamlet.errors import UnreachableError
from streamlet.kafka import source as module
from streamlet.kafka.codes import broker_error
from streamlet.kafka.source import KafkaSource
from streamlet.types import TopicPartition

OLD, NEW = TopicPartition("old", 0), TopicPartition("new", 0)


class Reading:
    """Stands for librdkafka's client: it has partitions, and asks brokers that may be away."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.offsets: dict[str, int] = {}
        self.away = False

    def list_topics(self, topic: str, timeout: float) -> None:
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "away"))

    def incremental_assign(self, partitions: list[Any]) -> None:
        self.offsets |= {one.topic: one.offset for one in partitions}

    def incremental_unassign(self, partitions: list[Any]) -> None:
        for one in partitions:
            del self.offsets[one.topic]

    def resume(self, partitions: list[Any]) -> None:
        """Nothing was paused."""


def test_what_is_read_is_read_on_when_a_broker_does_not_answer_for_a_new_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "Consumer", Reading)
    source = KafkaSource("localhost:1")
    client = cast(Reading, source._consumer)
    source.assign({OLD: 3})
    client.away = True
    with pytest.raises(UnreachableError):
        source.assign({OLD: 5, NEW: 7})
    assert client.offsets == {"old": 3}
    client.away = False
    source.assign({OLD: 5, NEW: 7})
    assert client.offsets == {"old": 5, "new": 7}


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.NETWORK_EXCEPTION])
def test_what_brokers_say_while_they_restart_passes(code: int) -> None:
    assert broker_error(KafkaException(KafkaError(code, "not now"))).passing


class Waiting:
    """Stands for a client with so many records; it notes what it was asked for."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.left = 3
        self.asked: list[tuple[int, float]] = []

    def consume(self, most: int, timeout: float) -> list[Any]:
        self.asked.append((most, timeout))
        taken = min(most, self.left)
        self.left -= taken
        first = 3 - self.left - taken
        return [Message(topic="old", partition=0, offset=first + n) for n in range(taken)]


@pytest.mark.parametrize(
    ("idle_ms", "asked"),
    [
        (0, [(10, 0.005)] * 2),
        (5, [(10, 0.005)] * 2),
        (20, [(1, 0.02), (9, 0.005), (1, 0.02)]),
    ],
)
def test_the_first_record_may_be_awaited_longer_than_the_others(
    monkeypatch: pytest.MonkeyPatch, idle_ms: int, asked: list[tuple[int, float]]
) -> None:
    monkeypatch.setattr(module, "Consumer", Waiting)
    source = KafkaSource("localhost:1")
    (batch,) = source.poll(10, 5, idle_ms)
    assert (batch.topic, batch.offsets) == ("old", range(3))
    assert source.poll(10, 5, idle_ms) == []
    assert cast(Waiting, source._consumer).asked == asked
