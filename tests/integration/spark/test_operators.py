"""Joins, also by foreign keys, timers and deduplication by Spark: the results of native tasks."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
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
app = assorted("assorted-on-spark")
#: The join by foreign keys, of whose results a batch may have fewer, writes the last topic.
IN, NAMES, *OUTPUTS, FOUND = (f"{app.name}-{name}" for name in ("in", "names", *TOPICS, "found"))

#: Topic, key, number, time.
Fed = tuple[str, str, int | None, int]


def records() -> list[Fed]:
    """Numbers of few keys, a few milliseconds apart; some are late. And what digits refer to."""
    dice, now = random.Random(1), OLD_MS
    found: list[Fed] = []
    for number in range(RECORDS):
        now += dice.randrange(20)
        late = OLD_MS if number % 50 == 49 else 0
        found.append((IN, f"k{dice.randrange(12)}", number, now - late))
        if number % 7 == 0:
            row = None if dice.randrange(5) == 0 else number
            found.append((NAMES, f"k{dice.randrange(8)}", row, now))
    return found


@pytest.fixture
def topics(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with empty topics."""
    admin, every = KafkaAdmin(bootstrap_servers), (IN, NAMES, *OUTPUTS, FOUND)
    admin.create_topics([NewTopic(topic, PARTITIONS) for topic in every])
    yield bootstrap_servers
    admin.delete_topics(every)
    admin.close()


def produce(bootstrap: str, some: Iterable[Fed]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for topic, key, number, time in some:
        value = None if number is None else number.to_bytes(8, "big")
        producer.produce(topic, value, key.encode(), timestamp=time)
    assert producer.flush(300) == 0


def test_every_result_in_several_batches_is_that_of_native_tasks(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    """Native ones go through kills, hand-overs and restores in ``chaos/test_assorted.py``."""
    with TopologyTestDriver(app, partitions={IN: PARTITIONS, NAMES: PARTITIONS}) as driver:
        for record in records():
            driver.pipe_input(*record)
        native = {
            topic: [(r.key, r.value, r.timestamp) for r in driver.read_output(topic)]
            for topic in (*OUTPUTS, FOUND)
        }
    given, batches = records(), 0
    for some in (given[:200], given[200:]):  # the second query goes on from the first one's state
        produce(topics, some)
        batches += len(run(spark, topics, tmp_path, app=app, max_records_per_batch=BATCH // 2))
    assert batches > RECORDS // BATCH
    found = {
        topic: [
            (record.key.decode(), (record.value or b"").decode(), record.at_ms)
            for record in read_all(topics, topic, range(PARTITIONS))
        ]
        for topic in (*OUTPUTS, FOUND)
    }
    assert all(native.values())
    assert last(found.pop(FOUND)) == last(native.pop(FOUND))
    assert {topic: sorted(some) for topic, some in found.items()} == {
        topic: sorted(some) for topic, some in native.items()
    }


def last(results: list[tuple[str, str, int]]) -> dict[str, tuple[str, int]]:
    """The last result of each key, with its time."""
    return {key: (value, time) for key, value, time in results}
