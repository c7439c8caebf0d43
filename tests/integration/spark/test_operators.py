"""Joins of streams, timers and deduplication by Spark: the results of native tasks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.testing import TopologyTestDriver
from tests.integration.chaos.test_assorted import OLD_MS, PARTITIONS, TOPICS
from tests.integration.chaos.topics import read_all
from tests.integration.chaos.topologies import assorted
from tests.integration.spark.test_kafka import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

RECORDS, BATCH = 400, 250
app = assorted("assorted-on-spark", by_foreign_keys=False)
IN, *OUTPUTS = (f"{app.name}-{name}" for name in ("in", *TOPICS))

#: Key, number, time.
Fed = tuple[str, int, int]


def records() -> list[Fed]:
    """Numbers of few keys, a few milliseconds apart; some are late."""
    dice, now, found = random.Random(1), OLD_MS, []
    for number in range(RECORDS):
        now += dice.randrange(20)
        late = OLD_MS if number % 50 == 49 else 0
        found.append((f"k{dice.randrange(12)}", number, now - late))
    return found


@pytest.fixture
def topics(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with the records."""
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(topic, PARTITIONS) for topic in (IN, *OUTPUTS)])
    producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random"})
    for key, number, time in records():
        producer.produce(IN, number.to_bytes(8, "big"), key.encode(), timestamp=time)
    assert producer.flush(60) == 0
    yield bootstrap_servers
    admin.delete_topics([IN, *OUTPUTS])
    admin.close()


def test_every_result_in_several_batches_is_that_of_native_tasks(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    """Native ones go through kills, hand-overs and restores in ``chaos/test_assorted.py``."""
    with TopologyTestDriver(app, partitions={IN: PARTITIONS}) as driver:
        for key, number, time in records():
            driver.pipe_input(IN, key, number, time)
        native = {
            topic: sorted((r.key, r.value, r.timestamp) for r in driver.read_output(topic))
            for topic in OUTPUTS
        }
    told = run(spark, topics, tmp_path, app=app, max_records_per_batch=BATCH)
    assert len(told) >= RECORDS // BATCH
    found = {
        topic: sorted(
            (record.key.decode(), (record.value or b"").decode(), record.at_ms)
            for record in read_all(topics, topic, range(PARTITIONS))
        )
        for topic in OUTPUTS
    }
    assert all(native.values())
    assert found == native
