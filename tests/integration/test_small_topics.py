"""Topics whose max.message.bytes is lower than the producer's limit."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from uuid import uuid4

import pytest
from confluent_kafka import Producer

import streamlet as sl
from streamlet.errors import (
    DeliveryError,
    EntryTooLargeError,
    ProcessingError,
    RecordRefusedError,
)
from streamlet.kafka.client import KafkaAdmin, KafkaSink
from streamlet.kafka.limits import TopicLimits
from streamlet.kafka.ports import NewTopic, OutgoingRecords
from streamlet.types import TopicPartition
from tests.integration.commits import assert_all_committed

pytestmark = pytest.mark.integration

MOST = 20_000
SMALL = (("max.message.bytes", str(MOST)),)


@pytest.fixture
def name(admin: KafkaAdmin) -> Iterator[str]:
    """An application's: ``NAME-in``, a small ``NAME-out``."""
    name = f"small-{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(f"{name}-in", 1, 1), NewTopic(f"{name}-out", 1, 1, SMALL)])
    yield name
    admin.delete_topics([one for one in admin.topics() if one.startswith(name)])


def test_a_record_is_refused_on_its_own_exactly_where_the_broker_would(
    bootstrap_servers: str, admin: KafkaAdmin, name: str
) -> None:
    """Without knowing the limit, a full batch of small records is turned away as a whole."""
    topic = f"{name}-out"
    settings = admin.topic_settings([topic, "no-such-topic"])
    assert settings.keys() == {topic}
    sink = KafkaSink(bootstrap_servers)
    sink.send(OutgoingRecords(topic, [b"k"] * 500, [b"x" * 100] * 500))
    with pytest.raises(DeliveryError, match=f"{topic}.*max.message.bytes"):
        sink.flush(15_000)
    sink.close()

    sink = KafkaSink(bootstrap_servers, limits=TopicLimits.of(settings, {}))
    before = admin.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    sink.send(OutgoingRecords(topic, [b"k"] * 500, [b"x" * 100] * 500))
    largest = MOST - 88
    values = [b"x" * (largest - 1), b"x" * largest, b"y"]
    with pytest.raises(RecordRefusedError, match=f"{topic} was refused.*{MOST:,}") as refused:
        sink.send(OutgoingRecords(topic, [b"k"] * 3, values))
    assert (refused.value.index, refused.value.too_large) == (1, True)
    sink.flush(15_000)
    assert admin.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): before + 501}
    sink.close()


Policy = Literal["fail", "skip"]


def texts(
    bootstrap_servers: str, name: str, folder: Path, policy: Policy, sizes: list[tuple[str, int]]
) -> sl.App:
    """An application with a few texts of these lengths to read."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for key, size in sizes:
        producer.produce(f"{name}-in", b"x" * size, key)
    assert producer.flush(300) == 0
    config = {"state.dir": str(folder), "commit.interval.ms": 100}
    return sl.App(name, bootstrap_servers=bootstrap_servers, config=config, on_error=policy)


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_an_output_that_is_too_large_meets_the_error_policy(
    bootstrap_servers: str, name: str, tmp_path: Path, policy: Policy
) -> None:
    sizes = [("a", 5), ("b", MOST), ("c", 7)]
    app = texts(bootstrap_servers, name, tmp_path, policy, sizes)
    app.stream(f"{name}-in", key=str, value=str).to(f"{name}-out")
    if policy == "fail":
        with pytest.raises(ProcessingError, match=r"max\.message\.bytes, 20,000 .*-in-0 offset 1"):
            app.run(timeout=300)
        return
    written = [(r.key, len(r.value)) for r in app.run(count=2, timeout=300)]
    assert written == [("a", 5), ("c", 7)]
    assert_all_committed(bootstrap_servers, app.name)


def test_a_record_without_a_key_for_a_compacted_topic_is_one_for_the_policy(
    bootstrap_servers: str, admin: KafkaAdmin, name: str, tmp_path: Path
) -> None:
    assert admin.alter_topics({f"{name}-out": {"cleanup.policy": "compact"}}) == {}
    app = texts(bootstrap_servers, name, tmp_path, "skip", [("a", 5), ("b", 6), ("c", 7)])
    stream = app.stream(f"{name}-in", key=str, value=str)
    keys = stream.map(lambda key, value: (key if key != "b" else None, value), key=str, value=str)
    keys.to(f"{name}-out")
    assert [r.key for r in app.run(count=2, timeout=300)] == ["a", "c"]
    assert_all_committed(bootstrap_servers, app.name)


@pytest.mark.parametrize("chosen", [False, True], ids=["by name", "by record"])
def test_a_time_too_far_ahead_is_one_for_the_policy_and_passes_a_repartition_topic(
    bootstrap_servers: str, admin: KafkaAdmin, name: str, tmp_path: Path, chosen: bool
) -> None:
    """An hour ahead is what Kafka 4 takes; a topic of streamlet's own takes any time."""
    admin.create_topics([NewTopic(f"{name}-letters", 1, 1)])
    texts(bootstrap_servers, name, tmp_path, "skip", [("a", 5), ("b", 9), ("c", 7)])
    day_ahead = int(time.time() * 1000) + 86_400_000
    policy = ("dead_letter", f"{name}-letters")
    config = {"state.dir": str(tmp_path), "commit.interval.ms": 100}
    app = sl.App(name, bootstrap_servers=bootstrap_servers, config=config, on_error=policy)
    ahead = lambda key, value, written: day_ahead if len(value) == 9 else written  # noqa: E731
    stream = app.stream(f"{name}-in", key=str, value=str, timestamp=ahead)
    counts = stream.group_by(lambda key, value: value).count(store="n")
    counts.to_stream().to((lambda key, value: f"{name}-out") if chosen else f"{name}-out")
    assert len(app.run(count=2, timeout=300)) == 2
    assert_all_committed(bootstrap_servers, app.name)
    ends = admin.end_offsets([TopicPartition(f"{name}-{one}", 0) for one in ("out", "letters")])
    assert list(ends.values()) == [2, 1]


def test_a_handler_decides_about_each_output_that_is_too_large(
    bootstrap_servers: str, admin: KafkaAdmin, name: str, tmp_path: Path
) -> None:
    asked: list[tuple[sl.ErrorContext, sl.FailedRecord | None, BaseException]] = []

    def decide(
        context: sl.ErrorContext, record: sl.FailedRecord | None, error: BaseException
    ) -> sl.Answer:
        asked.append((context, record, error))
        return "skip" if context.offset == 1 else ("dead_letter", f"{name}-dead")

    admin.create_topics([NewTopic(f"{name}-dead", 1, 1)])
    sizes = [("a", 5), ("b", MOST), ("c", 7), ("d", MOST + 1), ("e", 9)]
    texts(bootstrap_servers, name, tmp_path, "fail", sizes)
    config = {"state.dir": str(tmp_path), "commit.interval.ms": 100}
    app = sl.App(
        name, bootstrap_servers=bootstrap_servers, config=config, production_handler=decide
    )
    app.stream(f"{name}-in", key=str, value=str).to(f"{name}-out")
    assert [r.key for r in app.run(count=3, timeout=300)] == ["a", "c", "e"]
    assert [(context.stage, context.offset) for context, _, _ in asked] == [
        ("production", 1),
        ("production", 3),
    ]
    _, record, error = asked[1]
    assert record == sl.FailedRecord(b"d", b"x" * (MOST + 1), f"{name}-out")
    assert isinstance(error, RecordRefusedError)
    assert error.too_large
    ends = admin.end_offsets([TopicPartition(f"{name}-{one}", 0) for one in ("out", "dead")])
    assert list(ends.values()) == [3, 1], "three texts, and one dead letter"


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_an_entry_that_is_too_large_for_its_changelog_is_found_as_ever(
    bootstrap_servers: str, admin: KafkaAdmin, name: str, tmp_path: Path, policy: Policy
) -> None:
    admin.create_topics([NewTopic(f"{name}-texts-changelog", 1, 1, SMALL)])
    half = MOST * 2 // 3
    sizes = [("a", half), ("b", 7), ("a", half), ("a", 5), ("b", 1)]
    app = texts(bootstrap_servers, name, tmp_path, policy, sizes)
    texts_by_key = app.stream(f"{name}-in", key=str, value=str).group_by_key()
    table = texts_by_key.aggregate(str, lambda key, text, so_far: so_far + text, store="texts")
    table.to_stream().map_values(len, value=int).to(f"{name}-out")
    if policy == "fail":
        with pytest.raises(EntryTooLargeError, match=r"key b'a': .*texts-changelog.*20,000"):
            app.run(timeout=300)
        return
    results: dict[str, int] = {}
    patience = itertools.accumulate(itertools.repeat(10))  # a slow machine takes longer to begin
    while results != {"a": half + 5, "b": 8}:
        results |= {r.key: r.value for r in app.run(timeout=next(patience))}
    assert_all_committed(bootstrap_servers, app.name)
