"""From Kafka to Kafka by Spark, against a real broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import examples.wordcount
from streamlet.errors import MissingTopicError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.spark import start
from streamlet.testing import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

LINES = ["the quick fox", "the lazy dog; the fox", "", "a dog", "quick quick"] * 20
COUNTS = {"lines": 4, "word-counts": 3}


@pytest.fixture
def topics(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with word count's topics, empty."""
    admin = KafkaAdmin(bootstrap_servers)
    admin.delete_topics(list(COUNTS))
    admin.create_topics([NewTopic(name, count) for name, count in COUNTS.items()])
    yield bootstrap_servers
    admin.delete_topics(list(COUNTS))
    admin.close()


def produce(bootstrap: str, lines: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number, line in enumerate(lines):
        producer.produce("lines", line, b"%d" % number)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topic: str) -> list[tuple[int, str, int]]:
    """Partition, word and count of all there is in a topic."""
    found: list[tuple[int, str, int]] = []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    try:
        partitions = [TopicPartition(topic, p) for p in range(COUNTS[topic])]
        ends = [consumer.get_watermark_offsets(p, timeout=10)[1] for p in partitions]
        consumer.assign([TopicPartition(topic, p.partition, 0) for p in partitions])
        while len(found) < sum(ends):
            for message in consumer.consume(1_000, 1):
                assert message.error() is None
                count = int.from_bytes(message.value(), "big")
                found.append((message.partition(), message.key().decode(), count))
    finally:
        consumer.close()
    return found


def run(spark: SparkSession, bootstrap: str, checkpoint: Path, **how: object) -> None:
    query = start(
        examples.wordcount.app,
        spark,
        checkpoint=checkpoint,
        trigger="available-now",
        bootstrap_servers=bootstrap,
        **how,  # type: ignore[arg-type]
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def test_word_count_reads_kafka_and_writes_kafka_and_goes_on_from_its_checkpoint(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    produce(topics, LINES[:60])
    run(spark, topics, tmp_path, max_records_per_batch=25)
    produce(topics, LINES[60:])
    run(spark, topics, tmp_path, output="latest")
    found = consume(topics, "word-counts")
    with TopologyTestDriver(examples.wordcount.app) as driver:
        driver.pipe_inputs("lines", [(None, line) for line in LINES])
        wanted = {r.key: r.value for r in driver.read_output("word-counts")}
    last = {word: count for _, word, count in found}
    assert last == wanted
    seen = Counter(word for line in LINES[:60] for word in examples.wordcount.words(line))
    for word, count in seen.items():
        # Every update of the first run, in order, then the last of the second's only batch.
        counts = [c for _, w, c in found if w == word]
        assert counts == [*range(1, count + 1), wanted[word]]


def test_a_topic_that_is_not_there_is_named(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    with pytest.raises(MissingTopicError, match="does not exist: lines, word-counts"):
        start(
            examples.wordcount.app,
            spark,
            checkpoint=tmp_path,
            bootstrap_servers=bootstrap_servers,
        )
