"""Our own source and sink, for machines without the connector's jars."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from streamlet.app import App
from streamlet.spark import start
from streamlet.spark.progress import BatchProgress, follow
from tests.integration.spark import words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

LINES = ["the quick fox", "the lazy dog; the fox", "", "a dog", "quick quick"] * 20
AT_MS = 1_600_000_000_000


@pytest.fixture
def topics(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with word count's topics, empty."""
    words.create_topics(bootstrap_servers)
    yield bootstrap_servers
    words.delete_topics(bootstrap_servers)


def run(
    spark: SparkSession, bootstrap: str, checkpoint: Path, app: App, most: int
) -> list[BatchProgress]:
    told: list[BatchProgress] = []
    query = start(
        app,
        spark,
        checkpoint=checkpoint,
        trigger="available-now",
        bootstrap_servers=bootstrap,
        max_records_per_batch=most,
        connector="python",
    )
    try:
        follow(query, told.append)
    finally:
        query.stop()
    return told


def test_word_count_goes_on_from_its_checkpoint(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    words.produce(topics, LINES[:60])
    told = run(spark, topics, tmp_path, words.APP, 25)
    assert sum(one.records for one in told) == 60
    assert len([one for one in told if one.records]) >= 2
    assert told[-1].lag == 0
    words.produce(topics, LINES[60:])
    run(spark, topics, tmp_path, words.APP, 1_000)
    words.check_exact(words.consume(topics), LINES)


def test_records_keep_their_times_and_dead_letters_their_headers(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": topics})
    for n, line in enumerate([b"a", b"\xff", b"b"]):
        producer.produce("lines", line, partition=0, timestamp=AT_MS + n)
    assert producer.flush(30) == 0
    run(spark, topics, tmp_path, words.CAREFUL, 1_000)
    ((value, headers),) = words.letters(topics)
    assert (value, headers["streamlet.topic"]) == (b"\xff", b"lines")
    assert times(topics) == {b"a": AT_MS, b"b": AT_MS + 2}


def times(bootstrap: str) -> dict[bytes, int]:
    """Key and time of every count."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    try:
        consumer.assign([TopicPartition("word-counts", p, 0) for p in range(3)])
        found = consumer.consume(2, 30)
        return {one.key(): one.timestamp()[1] for one in found}
    finally:
        consumer.close()
