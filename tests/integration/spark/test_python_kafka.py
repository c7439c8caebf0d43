"""What source and sink keep of records, and topics that change under a query."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from streamlet.app import App
from streamlet.errors import SparkFailedError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.spark import start
from streamlet.spark.progress import follow
from tests.integration.spark import words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.integration]

AT_MS = 1_600_000_000_000


def run(spark: SparkSession, bootstrap: str, checkpoint: Path, app: App) -> None:
    query = start(
        app,
        spark,
        checkpoint=checkpoint,
        trigger="available-now",
        bootstrap_servers=bootstrap,
    )
    try:
        follow(query)
    finally:
        query.stop()


def test_records_keep_their_times_and_dead_letters_their_headers(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    """A time that the topic refuses, an hour ahead or more, makes a dead letter, too."""
    admin = KafkaAdmin(topics)
    admin.alter_topics({"lines": {"message.timestamp.after.max.ms": str(2**63 - 1)}})
    admin.close()
    day_ahead = int(time.time() * 1000) + 86_400_000
    producer = Producer({"bootstrap.servers": topics})
    for n, line in enumerate([b"a", b"\xff", b"b", b"c"]):
        at_ms = day_ahead if line == b"c" else AT_MS + n
        producer.produce("lines", line, partition=0, timestamp=at_ms)
    assert producer.flush(300) == 0
    run(spark, topics, tmp_path, words.CAREFUL)
    found = {value: headers for value, headers in words.letters(topics)}
    assert found[b"\xff"]["streamlet.topic"] == b"lines"
    refused = found[(1).to_bytes(8, "big")]
    assert any(b"after.max.ms" in value for value in refused.values())
    assert times(topics) == {b"a": AT_MS, b"b": AT_MS + 2}


def test_an_output_that_its_topic_refuses_ends_the_query(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    admin = KafkaAdmin(topics)
    admin.delete_topics(["word-counts"])
    admin.create_topics([NewTopic("word-counts", 3, config=(("max.message.bytes", "500"),))])
    admin.close()
    words.produce(topics, ["short", "w" * 1_000])
    with pytest.raises(SparkFailedError, match="1 record not delivered, first to word-counts"):
        run(spark, topics, tmp_path, words.APP)
    assert words.batches(tmp_path) == 0


def test_a_topic_that_changes_under_a_query_ends_it_by_name(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": topics})
    words.produce(topics, ["a"])
    with running(spark, topics, tmp_path / "more") as query:
        more = admin.create_partitions([NewPartitions("lines", 5)])["lines"]
        more.result()
        with pytest.raises(
            SparkFailedError, match=r"lines had 4 partitions .* and now has 5"
        ) as one:
            follow(query)
    assert not one.value.by_chance
    words.create_topics(topics)
    words.produce(topics, ["a"])
    with running(spark, topics, tmp_path / "again") as query:
        words.create_topics(topics)
        # It may look between the two requests, while there is no such topic.
        with pytest.raises(SparkFailedError, match=r"created again|lines.* Unknown topic") as other:
            follow(query)
    # The source says that there is no such topic (3), or a task fails at it (1).
    assert other.value.exit_code in ((5,) if "created again" in str(other.value) else (1, 3))
    assert not other.value.by_chance


@contextmanager
def running(spark: SparkSession, bootstrap: str, checkpoint: Path) -> Iterator[StreamingQuery]:
    """A query that has processed what there was."""
    how = {"checkpoint": checkpoint, "trigger": "100ms", "bootstrap_servers": bootstrap}
    query = start(words.APP, spark, **how)  # type: ignore[arg-type]
    try:
        query.processAllAvailable()
        yield query
    finally:
        query.stop()


def times(bootstrap: str) -> dict[bytes, int]:
    """Key and time of every count."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    try:
        consumer.assign([TopicPartition("word-counts", p, 0) for p in range(3)])
        found = consumer.consume(2, 300)
        return {one.key(): one.timestamp()[1] for one in found}
    finally:
        consumer.close()
