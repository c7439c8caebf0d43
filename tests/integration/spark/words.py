"""Word count on Spark as tests drive it; run as a program, it is a driver that may be killed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition

import examples.wordcount
import streamlet as sl
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

APP = examples.wordcount.app
COUNTS = {"lines": 4, "word-counts": 3}


def create_topics(bootstrap: str) -> None:
    admin = KafkaAdmin(bootstrap)
    admin.delete_topics(list(COUNTS))
    admin.create_topics([NewTopic(name, count) for name, count in COUNTS.items()])
    admin.close()


def delete_topics(bootstrap: str) -> None:
    admin = KafkaAdmin(bootstrap)
    admin.delete_topics(list(COUNTS))
    admin.close()


def produce(bootstrap: str, lines: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number, line in enumerate(lines):
        producer.produce("lines", line, b"%d" % number)
        producer.poll(0)
    assert producer.flush(30) == 0


def consume(bootstrap: str) -> list[tuple[str, int]]:
    """Word and count of all records written, each partition in order."""
    found: list[tuple[str, int]] = []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    try:
        partitions = [TopicPartition("word-counts", p) for p in range(COUNTS["word-counts"])]
        ends = [consumer.get_watermark_offsets(p, timeout=10)[1] for p in partitions]
        consumer.assign([TopicPartition(p.topic, p.partition, 0) for p in partitions])
        while len(found) < sum(ends):
            for message in consumer.consume(1_000, 1):
                assert message.error() is None
                found.append((message.key().decode(), int.from_bytes(message.value(), "big")))
    finally:
        consumer.close()
    return found


def counted(lines: Sequence[str]) -> Counter[str]:
    return Counter(word for line in lines for word in examples.wordcount.words(line))


def check_exact(written: Sequence[tuple[str, int]], lines: Sequence[str]) -> None:
    """Every count of every word was written, nothing above it, and the last one last.

    Some may have been written again.
    """
    expected = counted(lines)
    assert dict(written) == expected
    assert set(written) == {(w, n) for w, count in expected.items() for n in range(1, count + 1)}


def begin(
    spark: SparkSession, bootstrap: str, checkpoint: Path, trigger: str = "1ms"
) -> StreamingQuery:
    return sl.spark.start(
        APP,
        spark,
        checkpoint=checkpoint,
        trigger=trigger,
        bootstrap_servers=bootstrap,
        max_records_per_batch=500,
    )


def finish(spark: SparkSession, bootstrap: str, checkpoint: Path) -> None:
    """Process what is left."""
    query = begin(spark, bootstrap, checkpoint, "available-now")
    try:
        assert query.awaitTermination(180)
    finally:
        query.stop()


def main(bootstrap: str, checkpoint: str) -> None:
    config = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    jars = sl.spark.connector_jars()
    spark = sl.spark.session(master="local[2]", jars=jars, config=config)
    begin(spark, bootstrap, Path(checkpoint)).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
