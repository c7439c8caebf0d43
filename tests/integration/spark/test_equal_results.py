"""Four applications whose tables and result times are those of native tasks, over restarts.

A left join with aggregates in dataclasses; two repartitions with nulls; Avro and text in one
stream, with dead letters and an extractor of times; windows that send final results.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from confluent_kafka import Producer

import streamlet as sl
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.partitioner import KeyPartitioner
from streamlet.kafka.ports import NewTopic
from streamlet.serdes import avro
from streamlet.spark.sql.typed_columns import output_topics
from streamlet.testing import TopologyTestDriver
from tests.integration.chaos.topics import read_all
from tests.integration.spark.test_kafka import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

PARTITIONS, ROUNDS, RECORDS, STEP_MS = 2, 2, 60, 40

#: Topic, key, value, time.
Given = tuple[str, bytes | None, bytes | None, int]
#: Key, value and time.
Written = tuple[bytes, bytes | None, int]


@attrs.frozen
class Total:
    orders: int
    cents: int
    customer: str


def _added(_: str, order: tuple[int, str], total: Total) -> Total:
    return Total(total.orders + 1, total.cents + order[0], order[1])


totals = sl.App("totals")
_named = totals.stream("eq-orders", key=str, value=int).left_join(
    totals.table("eq-names", key=str, value=str, store="names"),
    lambda cents, name: (cents, name or "?"),
    value=tuple[int, str],
)
_totals = _named.group_by_key().aggregate(lambda: Total(0, 0, ""), _added, value=Total, store="t")
_totals.to_stream().to("eq-totals")

#: A value is a word, which may be missing; words that begin with "x" have no group.
twice = sl.App("twice")
_words = twice.stream("eq-words", key=str, value=str)
_counts = _words.group_by(lambda _, word: word if word and word[0] != "x" else None, key=str).count(
    store="n"
)
_sizes = _counts.to_stream().group_by(lambda word, count: f"{len(word)}", key=str)
_sizes.reduce(max, store="most").to_stream().to("eq-sizes")
_counts.filter(lambda _, count: count % 3 > 0).to_stream().to("eq-counts")

READING = avro(
    {
        "type": "record",
        "name": "Reading",
        "fields": [{"name": "value", "type": "int"}, {"name": "at", "type": "long"}],
    }
)
_PARTED = "|"


def _parsed(text: str) -> dict[str, int]:
    value, at = map(int, text.split(_PARTED))
    return {"value": value, "at": at}


merged = sl.App("merged", on_error=("dead_letter", "eq-letters"))
_readings = merged.stream(
    "eq-avro", key=str, value=READING, timestamp=lambda key, reading, time: reading["at"]
)
_texts = merged.stream("eq-text", key=str, value=str).map_values(_parsed, value=dict)
_both = _readings.map_values(lambda reading: dict(reading), value=dict).merge(_texts)
_both.group_by_key().aggregate(
    lambda: 0, lambda _, reading, total: total + reading["value"], value=int, store="sums"
).to_stream().to("eq-sums")

windows = sl.App("windows")
_hits = windows.stream("eq-hits", key=str, value=int).group_by(lambda _, n: f"g{n % 3}", key=str)
#: A batch may bring its records in another order, so the grace covers one.
_tumbling = sl.tumbling("500ms", grace="3s")
_hits.windowed_by(_tumbling, emit="final").count(store="hits").to_stream().to("eq-hit-counts")


def _orders(dice: random.Random, time: int) -> list[Given]:
    key = f"k{dice.randrange(6)}".encode()
    if dice.randrange(4) == 0:
        return [("eq-names", key, dice.choice([None, b"Ann", b"Ben"]), time)]
    return [("eq-orders", key, dice.randrange(900).to_bytes(8, "big"), time)]


def _some_words(dice: random.Random, time: int) -> list[Given]:
    key = dice.choice([None, b"a", b"b", b"c"])
    return [("eq-words", key, dice.choice([None, b"x", b"to", b"be", b"or", b"not", b"xy"]), time)]


def _some_readings(dice: random.Random, time: int) -> list[Given]:
    key, value = f"k{dice.randrange(5)}".encode(), dice.randrange(100)
    if dice.randrange(2):
        text = dice.choice([f"{value}{_PARTED}{time}", f"{value}{_PARTED}{time}", "no reading"])
        return [("eq-text", key, text.encode(), time)]
    good = READING.encode({"value": value, "at": time})
    return [("eq-avro", key, dice.choice([good, good, b"\xff"]), time + 5_000)]


def _some_hits(dice: random.Random, time: int) -> list[Given]:
    return [
        ("eq-hits", f"k{dice.randrange(8)}".encode(), dice.randrange(9).to_bytes(8, "big"), time)
    ]


Make = Callable[[random.Random, int], list[Given]]
APPS: list[tuple[sl.App, Make]] = [
    (totals, _orders),
    (twice, _some_words),
    (merged, _some_readings),
    (windows, _some_hits),
]


@pytest.fixture
def servers(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with empty topics."""
    admin = KafkaAdmin(bootstrap_servers)
    every = {"eq-letters"}.union(
        *(app.topology().source_topics + output_topics(app.topology()) for app, _ in APPS)
    )
    admin.create_topics([NewTopic(topic, PARTITIONS) for topic in sorted(every)])
    yield bootstrap_servers
    admin.delete_topics(sorted(every))
    admin.close()


def placed(key: bytes | None) -> int:
    """The partition of a record's key; those without one are in the first."""
    return 0 if key is None else KeyPartitioner(PARTITIONS).choose([key], [0])[0]


@pytest.mark.parametrize(("app", "make"), APPS, ids=lambda one: getattr(one, "name", ""))
def test_the_tables_and_times_are_those_of_native_tasks(
    spark: SparkSession, servers: str, tmp_path: Path, app: sl.App, make: Make
) -> None:
    """Each query goes on from the checkpoint of the one before, with the next records."""
    dice, time = random.Random(3), 10_000
    producer = Producer({"bootstrap.servers": servers})
    topics = [*output_topics(app.topology()), *app.policy.topics]
    counts = dict.fromkeys(app.topology().source_topics, PARTITIONS)
    with TopologyTestDriver(app, partitions=counts) as driver:
        for _ in range(ROUNDS):
            for _ in range(RECORDS):
                time += dice.randrange(2 * STEP_MS)
                for topic, key, value, at in make(dice, time):
                    driver.pipe_bytes(topic, key, value, at, partition=placed(key))
                    producer.produce(topic, value, key, placed(key), timestamp=at)
            assert producer.flush(300) == 0
            run(spark, servers, tmp_path, app=app)
        for topic in topics:
            native = [
                (one.key, one.value, one.timestamp)
                for one in driver.read_output(topic, key=bytes, value=bytes)
            ]
            records = read_all(servers, topic, range(PARTITIONS))
            found = [(one.key, one.value, one.at_ms) for one in records]
            assert len(native) > 3, topic
            if topic in app.policy.topics:
                assert sorted(found) == sorted(native)
            else:
                assert last(found) == last(native)


def last(records: list[Written]) -> dict[bytes, tuple[bytes | None, int]]:
    """The last value of each key, with its time."""
    return {key: (value, time) for key, value, time in records}
