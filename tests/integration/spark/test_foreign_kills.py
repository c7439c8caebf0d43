"""Joins by foreign keys whose Python processes are killed: each row is joined as it should be."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from confluent_kafka import Producer

from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.spark import start
from tests.integration.chaos.support import wait_for
from tests.integration.chaos.topics import read_all
from tests.integration.spark import foreign, words
from tests.integration.spark.test_kafka import run
from tests.integration.spark.test_kills import daemons, python_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.chaos,
]

PARTITIONS = 2
#: Left rows are replaced, and with them their foreign keys.
LEFT_KEYS, ROUNDS, CHANGES = 30, 6, 60


@pytest.fixture
def topics(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with empty topics."""
    admin, every = KafkaAdmin(bootstrap_servers), (foreign.LEFT, foreign.RIGHT, foreign.JOINED)
    admin.create_topics([NewTopic(topic, PARTITIONS) for topic in every])
    yield bootstrap_servers
    admin.delete_topics(every)
    admin.close()


def some_changes(dice: random.Random, first: int) -> list[foreign.Change]:
    found: list[foreign.Change] = []
    for number in range(first, first + CHANGES):
        row = None if dice.randrange(8) == 0 else number
        if dice.randrange(3) == 0:
            found.append((foreign.RIGHT, f"r{dice.randrange(foreign.RIGHT_KEYS)}", row))
        else:
            found.append((foreign.LEFT, f"l{dice.randrange(LEFT_KEYS)}", row))
    return found


def send(bootstrap: str, changes: list[foreign.Change]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for topic, key, number in changes:
        producer.produce(topic, None if number is None else number.to_bytes(8, "big"), key)
    assert producer.flush(300) == 0


def last_results(bootstrap: str) -> dict[str, str]:
    """The last result of each key that has one."""
    found = {
        record.key.decode(): record.value
        for record in read_all(bootstrap, foreign.JOINED, range(PARTITIONS))
    }
    return {key: value.decode() for key, value in found.items() if value is not None}


def test_killed_workers_and_daemons_leave_each_row_joined_as_it_should_be(
    spark: SparkSession, topics: str, tmp_path: Path
) -> None:
    """The last changes are of all right rows: each must still know the left rows that name it."""
    dice, given, killed = random.Random(5), list[foreign.Change](), 0
    known: set[psutil.Process] = set()

    def running(query: StreamingQuery | None) -> StreamingQuery:
        if query is not None and query.isActive:
            return query
        where = {"checkpoint": tmp_path, "bootstrap_servers": topics}
        return start(foreign.APP, spark, trigger="1ms", **where)  # type: ignore[arg-type]

    query = running(None)
    try:
        for number in range(ROUNDS):
            before = words.batches(tmp_path)
            given += (changes := some_changes(dice, number * CHANGES))
            send(topics, changes)
            if number:  # the first batch has to start workers
                time.sleep(dice.uniform(0, 0.6))  # any moment of a batch
                forking = daemons()
                known.update(python_workers())  # they live on without their daemon
                alive = [one for one in known if one.is_running()]
                with suppress(psutil.NoSuchProcess):
                    dice.choice(forking if number % 2 and forking else alive).kill()
                    killed += 1

            def further(before: int = before) -> bool:
                nonlocal query
                query = running(query)  # it fails with the process that plans its batches
                return words.batches(tmp_path) > before

            wait_for(further, "a batch", 300)
        assert killed > ROUNDS // 2
    finally:
        query.stop()
    run(spark, topics, tmp_path, app=foreign.APP)
    assert last_results(topics) == foreign.joined(given)
    given += (touched := [(foreign.RIGHT, f"r{n}", 1_000 + n) for n in range(foreign.RIGHT_KEYS)])
    send(topics, touched)
    run(spark, topics, tmp_path, app=foreign.APP)
    assert last_results(topics) == foreign.joined(given)
