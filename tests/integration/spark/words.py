"""Word count on Spark as tests drive it; run as a program, it is a driver that may be killed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

import examples.wordcount
import streamlet as sl
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streamlet.spark.query import Connector

APP = examples.wordcount.app


def counting(name: str, **how: Any) -> sl.App:
    """Word count under another name, and so with a group and internal topics of its own."""
    app = sl.App(name, **how)
    (
        app.stream("lines", key=bytes, value=str)
        .flat_map_values(examples.wordcount.words)
        .group_by(lambda _, word: word, key=str)
        .count(store="counts")
        .to_stream()
        .to("word-counts")
    )
    return app


#: Word count that puts aside what is no text.
CAREFUL = counting("careful", on_error=("dead_letter", "letters"))
#: Run natively as well.
AGREEING = counting("agreeing")
COUNTS = {"lines": 4, "word-counts": 3, "letters": 1}


def create_topics(bootstrap: str) -> None:
    admin = KafkaAdmin(bootstrap)
    admin.delete_topics(list(COUNTS))
    admin.create_topics([NewTopic(name, count) for name, count in COUNTS.items()])
    admin.close()


def delete_topics(bootstrap: str) -> None:
    admin = KafkaAdmin(bootstrap)
    internal = [name for name in admin.topics() if name.startswith(f"{AGREEING.name}-")]
    admin.delete_topics([*COUNTS, *internal])
    admin.close()


def produce(bootstrap: str, lines: Sequence[str | bytes]) -> None:
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


def batches(checkpoint: Path) -> int:
    """Micro-batches that count."""
    commits = checkpoint / "commits"
    return sum(1 for one in commits.glob("*") if one.name.isdigit()) if commits.is_dir() else 0


def letters(bootstrap: str) -> list[tuple[bytes, dict[str, bytes]]]:
    """Values and headers of all dead letters."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    try:
        partition = TopicPartition("letters", 0, 0)
        end = consumer.get_watermark_offsets(partition, timeout=10)[1]
        consumer.assign([partition])
        found = consumer.consume(end, 30)
        return [(one.value(), dict(one.headers())) for one in found]
    finally:
        consumer.close()


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
    spark: SparkSession,
    bootstrap: str,
    checkpoint: Path,
    trigger: str = "1ms",
    connector: Connector | None = None,
) -> StreamingQuery:
    return sl.spark.start(
        APP,
        spark,
        checkpoint=checkpoint,
        trigger=trigger,
        bootstrap_servers=bootstrap,
        max_records_per_batch=500,
        connector=connector,
    )


def finish(
    spark: SparkSession, bootstrap: str, checkpoint: Path, connector: Connector | None = None
) -> None:
    """Process what is left."""
    query = begin(spark, bootstrap, checkpoint, "available-now", connector)
    try:
        assert query.awaitTermination(180)
    finally:
        query.stop()


def main(bootstrap: str, checkpoint: str, master: str = "local[2]") -> None:
    config = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "600m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
    }
    jars = sl.spark.connector_jars()
    spark = sl.spark.session(master=master, jars=jars, config=config)
    begin(spark, bootstrap, Path(checkpoint)).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
