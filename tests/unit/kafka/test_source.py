"""What the consumer client is told, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from streamlet.clock import ManualClock
from streamlet.errors import OutOfRangeError, UnreachableError
from streamlet.kafka import source as module
from streamlet.kafka.broker_loss import ALONE_MS
from streamlet.kafka.codes import broker_error
from streamlet.kafka.poll_bound import HELD_BYTES
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


class Remembering(Reading):
    """A client that knows where the log ended when it fetched last, as librdkafka does."""

    end: int | None = None

    def get_watermark_offsets(self, partition: Any, cached: bool) -> tuple[int, int]:
        assert cached
        return (-1001, -1001) if self.end is None else (0, self.end)


def test_the_end_that_is_remembered_of_a_partition_that_comes_back_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "Consumer", Remembering)
    source = KafkaSource("localhost:1")
    client = cast(Remembering, source._consumer)
    source.assign({OLD: 3})
    assert source.known_end(OLD) is None
    client.end = 10
    assert source.known_end(OLD) == 10
    source.unassign([OLD])
    source.assign({OLD: 15})
    assert source.known_end(OLD) is None
    client.end = 15
    assert source.known_end(OLD) == 15


class Losing(Reading):
    """A client two of whose partitions have no record at their offset: it says so once."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        gone = KafkaError(KafkaError._AUTO_OFFSET_RESET, "out of range")
        self.messages = [
            Message(topic=topic, partition=0, offset=0, error=gone) for topic in ("old", "new")
        ]

    def consume(self, most: int, timeout: float) -> list[Message]:
        messages, self.messages = self.messages, []
        return messages


def test_each_partition_that_is_out_of_range_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Consumer", Losing)
    source = KafkaSource("localhost:1")
    source.assign({OLD: 3, NEW: 3})
    with pytest.raises(OutOfRangeError) as first:
        source.poll(10, 0)
    with pytest.raises(OutOfRangeError) as second:
        source.poll(10, 0)
    assert [caught.value.partition for caught in (first, second)] == [OLD, NEW]
    assert source.poll(10, 0) == []


def test_what_is_reported_late_of_a_partition_that_was_given_up_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A member that has just lost its tasks would end with it."""
    monkeypatch.setattr(module, "Consumer", Losing)
    source = KafkaSource("localhost:1")
    source.assign({OLD: 3, NEW: 3})
    source.unassign([OLD, NEW])
    assert source.poll(10, 0) == []


def test_what_was_reported_of_a_partition_is_over_when_it_is_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "Consumer", Losing)
    source = KafkaSource("localhost:1")
    source.assign({OLD: 3, NEW: 3})
    with pytest.raises(OutOfRangeError):
        source.poll(10, 0)
    source.assign({NEW: 5})
    assert source.poll(10, 0) == []


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


class Lonely(Reading):
    """A client whose brokers may be gone; all of them are noted."""

    made: ClassVar[list[Lonely]] = []

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.config = config
        self.asked = 0
        self.read: dict[str, int] = {}
        self.paused: list[str] = []
        self.messages: list[Message] = []
        self.closed = False
        self.made.append(self)

    def list_topics(self, topic: str, timeout: float) -> None:
        self.asked += 1
        super().list_topics(topic, timeout)

    def pause(self, partitions: list[Any]) -> None:
        self.paused += [one.topic for one in partitions]

    def resume(self, partitions: list[Any]) -> None:
        self.paused = [topic for topic in self.paused if topic not in {p.topic for p in partitions}]

    def position(self, partitions: list[Any]) -> list[Any]:
        for one in partitions:
            one.offset = self.read.get(one.topic, -1001)
        return partitions

    def consume(self, most: int, timeout: float) -> list[Message]:
        messages, self.messages = self.messages, []
        return messages

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def lonely(monkeypatch: pytest.MonkeyPatch) -> tuple[KafkaSource, ManualClock, list[Lonely]]:
    """A source that has read up to 4 of ``old`` and nothing of ``new``, which is paused."""
    monkeypatch.setattr(Lonely, "made", [])
    monkeypatch.setattr(module, "Consumer", Lonely)
    clock = ManualClock()
    source = KafkaSource("localhost:1", clock=clock)
    source.assign({OLD: 3, NEW: 7})
    source.pause([OLD, NEW])
    source.resume([OLD])
    Lonely.made[0].read, Lonely.made[0].asked = {"old": 4}, 0
    return source, clock, Lonely.made


def test_another_client_reads_on_for_one_that_lost_its_brokers(
    lonely: tuple[KafkaSource, ManualClock, list[Lonely]],
) -> None:
    source, clock, made = lonely
    made[0].away = True  # and never says so
    clock.advance(ALONE_MS - 1)
    assert source.poll(10, 0) == []
    assert (len(made), made[0].asked) == (1, 0)
    clock.advance(1)
    assert source.poll(10, 0) == []
    before, after = made
    assert before.closed
    assert (after.offsets, after.paused) == ({"old": 4, "new": 7}, ["new"])
    assert source.positions([OLD, NEW]) == {OLD: 4}
    after.read = {"old": 5}
    assert source.positions([OLD, NEW]) == {OLD: 5}
    source.unassign([OLD])
    source.assign({OLD: 1})
    after.read = {}
    assert source.positions([OLD]) == {}
    clock.advance(ALONE_MS)
    assert source.poll(10, 0) == []
    assert len(made) == 2


def test_a_client_that_reads_on_is_not_asked(
    lonely: tuple[KafkaSource, ManualClock, list[Lonely]],
) -> None:
    source, clock, made = lonely
    made[0].away = True  # as far as it would say
    for offset in range(4, 9):
        clock.advance(ALONE_MS - 1)
        made[0].messages = [Message(topic="old", partition=0, offset=offset)]
        assert len(source.poll(10, 0)) == 1
        assert source.poll(10, 0) == []
    assert (len(made), made[0].asked) == (1, 0)


def test_a_silent_client_that_finds_a_broker_stays_and_is_asked_again_later(
    lonely: tuple[KafkaSource, ManualClock, list[Lonely]],
) -> None:
    source, clock, made = lonely
    for times in (1, 2):
        clock.advance(ALONE_MS)
        for _ in range(3):
            assert source.poll(10, 0) == []
        assert (len(made), made[0].asked) == (1, times)


def test_a_client_that_knows_no_topic_yet_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lonely, "made", [])
    monkeypatch.setattr(module, "Consumer", Lonely)
    clock = ManualClock()
    source = KafkaSource("localhost:1", clock=clock)
    clock.advance(ALONE_MS)
    assert source.poll(10, 0) == []
    assert [client.asked for client in Lonely.made] == [0]


def test_behind_headers_that_do_not_fit_another_client_queues_few_records(
    lonely: tuple[KafkaSource, ManualClock, list[Lonely]],
) -> None:
    """A client queues thousands of records, and their headers do not count there."""
    source, _, made = lonely
    source._with_headers = True
    large: list[tuple[str, str | bytes | None]] = [("h", b"x" * HELD_BYTES)]

    def queue(client: Lonely) -> None:
        """Two records, whose headers do not fit together."""
        client.messages = [
            Message(topic="old", partition=0, offset=at, headers=large, timestamp=(1, 7))
            for at in (4, 5)
        ]
        client.read = {"old": 6}

    queue(made[0])
    (batch,) = source.poll(10, 0)
    assert (len(batch), batch.offsets[0], len(made)) == (1, 4, 2)
    first, second = made
    assert first.closed
    assert second.offsets == {"old": 5, "new": 7}
    assert second.paused == ["new"]
    assert source.positions([OLD, NEW]) == {OLD: 5}
    queued = [client.config["queued.min.messages"] for client in made]
    assert queued == [6_000, 10]
    queue(second)
    source.poll(10, 0)
    assert (len(made), second.offsets["old"]) == (2, 5), "that client goes back by itself"
