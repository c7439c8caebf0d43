"""Windows on Spark over ten retentions of event time: the checkpoint does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

import streamlet as sl
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.spark import start
from streamlet.spark.progress import BatchProgress, follow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

RETENTIONS, RETENTION_MS = 10, 10_000
#: Each key once a second, in a window of its own; a batch is half a retention.
KEYS = 2_000
RECORDS = KEYS * RETENTION_MS // 1_000
BATCH = RECORDS // 2

app = sl.App("windows-on-spark")
_clicks = app.stream("clicks", key=str, value=str).group_by_key()
_kept = sl.Materialized("seconds", retention=RETENTION_MS)
_clicks.windowed_by(sl.tumbling("1s")).count(store=_kept).to_stream().to("seconds")


@pytest.fixture
def topics(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with ten retentions of clicks."""
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic("clicks", 1), NewTopic("seconds", 1)])
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 50})
    # So long, and so unlike each other, that a batch changes a megabyte of state.
    keys = [blake2b(b"%d" % number).hexdigest() * 2 for number in range(KEYS)]
    for number in range(RETENTIONS * RECORDS):
        at_ms = 1 + number * RETENTION_MS // RECORDS
        producer.produce("clicks", b"x", keys[number % KEYS], timestamp=at_ms)
        if not number % RECORDS:
            assert producer.flush(300) == 0
    assert producer.flush(300) == 0
    yield bootstrap_servers
    admin.delete_topics(["clicks", "seconds"])
    admin.close()


def size_of(folder: Path) -> int:
    """Bytes of all files; those that are deleted meanwhile count nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def test_the_checkpoint_is_flat_over_ten_retentions(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    """Spark keeps the files of few batches here; state that grew would show in them."""
    sizes: list[tuple[int, int]] = []

    def note(batch: BatchProgress) -> None:
        sizes.append((batch.state_bytes, size_of(tmp_path)))

    prefix = "spark.sql.streaming"
    kept = {f"{prefix}.minBatchesToRetain": "2", f"{prefix}.stateStore.minDeltasForSnapshot": "2"}
    for name, value in kept.items():
        spark.conf.set(name, value)
    try:
        query = start(
            app,
            spark,
            checkpoint=tmp_path,
            trigger="available-now",
            max_records_per_batch=BATCH,
            bootstrap_servers=topics,
            output="latest",
        )
        try:
            follow(query, note, every_s=0.1)
        finally:
            query.stop()
    finally:
        for name in kept:
            spark.conf.unset(name)
    assert len(sizes) >= RETENTIONS * RECORDS // BATCH
    lines = (f"batch {n}: state {a:,}, checkpoint {b:,}" for n, (a, b) in enumerate(sizes))
    print(*lines, sep="\n")
    state, checkpoint = zip(*sizes, strict=True)
    half = len(sizes) // 2
    assert max(state[half:]) <= 1.5 * max(state[:half]), sizes
    # Old files stay until Spark's maintenance comes by: the size swings between its rounds.
    quarter = len(sizes) // 4
    assert min(checkpoint[-quarter:]) <= 1.5 * max(checkpoint[:half]), sizes
