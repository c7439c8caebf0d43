"""Word count on Spark as tests drive it; run as a program, it is a driver that may be killed."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

import examples.wordcount
import streamlet as sl
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from tests.integration.spark.archive import from_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streamlet.spark.query import OutputKind

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
#: Without state.
COPYING = sl.App("copying")
COPYING.stream("lines", key=bytes, value=str).to("word-counts")
#: Records of a batch while something is killed, so that there are many batches, and afterwards.
FEW, MANY = 500, 2_500
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
    assert producer.flush(300) == 0


def consume(bootstrap: str) -> list[tuple[str, int]]:
    """Word and count of all records written, each partition in order."""
    return [
        (message.key().decode(), int.from_bytes(message.value(), "big"))
        for message in messages(bootstrap, "word-counts")
    ]


def messages(bootstrap: str, topic: str) -> list[Message]:
    """All records of a topic, each partition in order."""
    found: list[Message] = []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    try:
        partitions = [TopicPartition(topic, p) for p in range(COUNTS[topic])]
        ends = [consumer.get_watermark_offsets(p, timeout=60)[1] for p in partitions]
        consumer.assign([TopicPartition(p.topic, p.partition, 0) for p in partitions])
        while len(found) < sum(ends):
            for message in consumer.consume(1_000, 1):
                assert message.error() is None
                found.append(message)
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
        end = consumer.get_watermark_offsets(partition, timeout=60)[1]
        consumer.assign([partition])
        found = consumer.consume(end, 300)
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


def check(bootstrap: str, checkpoint: Path, lines: Sequence[str], output: OutputKind) -> None:
    """All lines are counted and written as they should be, once the query has ended."""
    written = consume(bootstrap)
    if output == "updates":
        check_exact(written, lines)
    else:
        check_batches(written, messages(bootstrap, "lines"), checkpoint)
        assert dict(written) == counted(lines)


def check_batches(
    written: Sequence[tuple[str, int]], lines: Sequence[Message], checkpoint: Path
) -> None:
    """Each batch wrote each of its words with the count at its end, and nothing else was written.

    Some may have been written again, but nothing older behind something newer.
    """
    ends = batch_ends(checkpoint)
    read = [Counter[str]() for _ in ends]
    for line in lines:
        partition, offset = str(line.partition()), line.offset()
        batch = next(i for i, end in enumerate(ends) if offset < end[partition])
        read[batch].update(examples.wordcount.words((line.value() or b"").decode()))
    expected: set[tuple[str, int]] = set()
    so_far = Counter[str]()
    for words in read:
        so_far += words
        expected |= {(word, so_far[word]) for word in words}
    assert set(written) == expected
    by_word: dict[str, list[int]] = {}
    for word, count in written:
        by_word.setdefault(word, []).append(count)
    fell = {w: found for w, found in by_word.items() if any(a > b for a, b in pairwise(found))}
    assert not fell


def batch_ends(checkpoint: Path) -> list[dict[str, int]]:
    """Of each batch that was begun the next offset of each partition of the lines."""
    numbers = sorted(int(one.name) for one in (checkpoint / "offsets").glob("[0-9]*"))
    assert numbers == list(range(batches(checkpoint))), "a batch was not committed, or is forgotten"
    found = [
        json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[-1])
        for number in numbers
    ]
    return [end["lines"] for end in found]


def begin(
    spark: SparkSession,
    bootstrap: str,
    checkpoint: Path,
    trigger: str = "1ms",
    output: OutputKind = "updates",
    most: int = FEW,
) -> StreamingQuery:
    """Counted by tasks where every update is written, and by Spark SQL where the latest is."""
    return sl.spark.start(
        APP,
        spark,
        checkpoint=checkpoint,
        trigger=trigger,
        bootstrap_servers=bootstrap,
        max_records_per_batch=most,
        output=output,
        aggregations="sql" if output == "latest" else None,
    )


def finish(
    spark: SparkSession,
    bootstrap: str,
    checkpoint: Path,
    output: OutputKind = "updates",
) -> None:
    """Process what is left."""
    query = begin(spark, bootstrap, checkpoint, "available-now", output, MANY)
    try:
        assert query.awaitTermination(300)
    finally:
        query.stop()


def main(
    bootstrap: str,
    checkpoint: str,
    output: OutputKind = "updates",
    master: str = "local[2]",
    trigger: str = "1ms",
) -> None:
    config = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": from_archive(),
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.python.daemon.module": "streamlet.spark.cluster.daemon",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": "/tmp",
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
    }
    spark = sl.spark.session(master=master, config=config)
    begin(spark, bootstrap, Path(checkpoint), trigger, output=output).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
