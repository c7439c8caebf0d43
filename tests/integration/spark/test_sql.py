"""Aggregations that Spark SQL does end as those of tasks and of the test driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import examples.wordcount
import streamlet as sl
from streamlet.config import Settings
from streamlet.errors import StateError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.spark import start, to_dataframe
from streamlet.spark.plan.folds import folds
from streamlet.spark.progress import BatchProgress, follow
from streamlet.testing import TopologyTestDriver
from tests.integration.spark.test_refusals import setting
from tests.integration.spark.test_tasks import LINES, Files, counts, driver_counts, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyarrow")

from streamlet.spark.rows.aggregate_rows import aggregated, outputs_of, partial_schema

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Flight:
    carrier: str | None
    delay: int | None
    tail: str


DELAY, TAIL = sl.col("delay"), sl.col("tail")

by_carrier = sl.App("by-carrier", on_error="skip")
hops = by_carrier.stream("hops", key=str, value=Flight)
late = hops.filter((DELAY > -5) | DELAY.is_null()).group_by(sl.col("carrier"))
late.aggregate(
    {
        "count": sl.count(),
        "delay": sl.sum_(DELAY),
        "late": sl.sum_(DELAY > 0),
        "least": sl.min_(DELAY),
        "most": sl.max_(DELAY * 2),
        "first": sl.min_(TAIL),
        "last": sl.max_(TAIL),
    },
    store="by-carrier",
).to_stream().to("by-carrier")
hops.group_by_key().count(store="by-key").to_stream().to("by-key")
hops.group_by_key().aggregate(sl.max_(TAIL), store="tails").to_stream().to("tails")

HUGE = 2**63
TEXTS = ["", "a", "ä", "\U0001f600", "zz", "\ufffd", "Z"]


def flight(n: int) -> bytes:
    delay = None if n % 5 == 0 else (n * 37) % 100 - 20
    if n % 17 == 0:
        delay = (HUGE * 3 + n) * (-1 if n % 2 else 1)  # more than 64 bits
    carrier = None if n % 11 == 0 else TEXTS[n % 7]
    return msgspec.json.encode(Flight(carrier, delay, TEXTS[n * 3 % 7]))


def record(n: int) -> tuple[bytes | None, bytes | None]:
    key = None if n % 13 == 0 else TEXTS[n % 3].encode()
    if n % 19 == 0:
        return b"\xff", flight(n)  # no text
    return key, None if n % 23 == 0 else b"{" if n % 29 == 0 else flight(n)


RECORDS = [record(n) for n in range(1, 400)]
Final = dict[tuple[str, bytes], bytes | None]


def in_the_test_driver(app: sl.App, records: Sequence[Any], topic: str = "hops") -> Final:
    """The last value of each key of each topic."""
    found: Final = {}
    with TopologyTestDriver(app) as driver:
        for pair in records:
            driver.pipe_bytes(topic, *pair, 1_000)
        for part in app.topology().subtopologies:
            for sink in part.sinks:
                if sink.topic in app.topology().repartition_topics:
                    continue
                for one in driver.read_output(sink.topic):
                    (key,), (value,) = (
                        sink.key.encode_column([one.key]),
                        sink.value.encode_column([one.value]),
                    )
                    found[sink.topic, key] = value
    return found


def final(rows: Sequence[Any]) -> Final:
    return {
        (row.topic, bytes(row.key)): None if row.value is None else bytes(row.value) for row in rows
    }


def is_sql(frame: DataFrame) -> bool:
    plan: Any = frame._jdf.queryExecution().logical().toString()
    return "Aggregate [" in plan and "TransformWithState" not in plan


def by(how: str, spark: SparkSession, files: Files, partitions: int = 1) -> DataFrame:
    """The latest results, as these do the aggregations."""
    return to_dataframe(
        by_carrier,
        spark,
        source=files.read(),
        partitions={"hops": partitions},
        output="latest",
        aggregations=how,  # type: ignore[arg-type]
    )


def test_nulls_tombstones_unicode_and_huge_numbers_end_as_in_tasks_and_the_test_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In tiny batches over a restart, with records that cannot be read in the middle."""
    wanted = in_the_test_driver(by_carrier, RECORDS)
    files = Files(spark, tmp_path / "hops", "hops", 1)
    found: dict[str, Final] = {"sql": {}, "tasks": {}}

    def go_on() -> None:
        for how, ended in found.items():
            frame = by(how, spark, files)
            assert is_sql(frame) == (how == "sql")
            ended |= final(run(frame, tmp_path / how))

    for begin, end in ((0, 150), (150, 151), (151, 260)):
        files.write(RECORDS[begin:end])
    go_on()
    files.write(RECORDS[260:])
    go_on()
    assert found["tasks"] == wanted
    assert found["sql"] == wanted
    assert max(len(value or b"") for value in wanted.values()) > 100


def test_word_count_ends_as_in_the_test_driver_also_over_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Words are made by a function, and counted by Spark SQL."""
    files = Files(spark, tmp_path / "lines", "lines", 2)
    found: dict[str, int] = {}
    for some in (LINES[:2], LINES[2:]):
        files.write([(None, line.encode()) for line in some])
        frame = to_dataframe(
            examples.wordcount.app,
            spark,
            source=files.read(),
            partitions={"lines": 2},
            output="latest",
        )
        assert is_sql(frame)
        found |= dict(counts(run(frame, tmp_path / "checkpoint")))
    assert found == driver_counts(LINES)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_sum_that_spark_cannot_have_is_an_error_in_every_mode(
    spark: SparkSession, ansi: str
) -> None:
    """38 digits are more than any sum of longs, but JSON may have longer numbers."""
    app = sl.App("sums")
    stream = app.stream("numbers", key=str, value=Flight)
    stream.group_by_key().aggregate({"sum": sl.sum_(DELAY)}).to_stream().to("sums")
    found = folds(app.topology(), app.policy)
    with setting(spark, "spark.sql.ansi.enabled", ansi):
        half = Decimal(6 * 10**37)
        rows = spark.createDataFrame(
            [(0, 0, b"k", 1, half), (0, 0, b"k", 2, half)], partial_schema(found)
        )
        with pytest.raises(Exception, match=r"38 digits|OVERFLOW|OUT_OF_RANGE"):
            list(outputs_of(found, aggregated(rows, found).toArrow().to_batches()[0]))


def test_a_key_in_two_partitions_has_two_tasks_here_as_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = Files(spark, tmp_path / "hops", "hops", 2)
    files.write([(b"k", flight(n)) for n in range(1, 8)])
    found = []
    for how in ("sql", "tasks"):
        frame = by(how, spark, files, 2)
        rows = run(frame, tmp_path / how)
        found.append(sorted(bytes(row.value) for row in rows if row.topic == "by-key"))
    assert found == [[(3).to_bytes(8, "big"), (4).to_bytes(8, "big")]] * 2


def test_a_query_of_ones_own_does_not_go_on_where_tasks_were(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark itself finds another operator in the checkpoint than it has."""
    files = Files(spark, tmp_path / "hops", "hops", 1)
    for how in ("tasks", "sql"):
        files.write(RECORDS[:3])
        frame = by(how, spark, files)
        if how == "tasks":
            run(frame, tmp_path / "checkpoint")
        else:
            with pytest.raises(Exception, match="STATEFUL_OPERATOR_NOT_MATCH"):
                run(frame, tmp_path / "checkpoint")


TOPICS = {"hops": 3, "by-carrier": 2, "by-key": 2, "tails": 1}


@pytest.fixture
def broker(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with the topics, empty."""
    make_topics(bootstrap_servers)
    yield bootstrap_servers
    delete_topics(bootstrap_servers)


def make_topics(bootstrap: str) -> None:
    admin = KafkaAdmin(bootstrap)
    admin.create_topics([NewTopic(name, count) for name, count in TOPICS.items()])
    admin.close()


def delete_topics(bootstrap: str) -> None:
    admin = KafkaAdmin(bootstrap)
    internal = [name for name in admin.topics() if name.startswith(f"{by_carrier.name}-")]
    admin.delete_topics([*TOPICS, *internal])
    admin.close()


def send(bootstrap: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
    # Without the partitioner it would spread the empty key.
    how = {"enable.idempotence": True, "partitioner": "murmur2"}
    producer = Producer({"bootstrap.servers": bootstrap, **how})
    for key, value in records:
        producer.produce("hops", value, key)
    assert producer.flush(300) == 0


def written(bootstrap: str) -> tuple[Final, int]:
    """The last value of each key of each topic, and the number of records."""
    found: Final = {}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    count = 0
    try:
        places = [TopicPartition(t, p, 0) for t, n in TOPICS.items() for p in range(n)]
        places = [place for place in places if place.topic != "hops"]
        end = sum(consumer.get_watermark_offsets(place, timeout=60)[1] for place in places)
        consumer.assign(places)
        while count < end:
            for message in consumer.consume(1_000, 1):
                assert message.error() is None
                found[message.topic(), message.key()] = message.value()
                count += 1
    finally:
        consumer.close()
    return found, count


def by_spark(
    spark: SparkSession, bootstrap: str, checkpoint: Path, **how: Any
) -> tuple[str, list[BatchProgress]]:
    """Process what is there; what was told, and the batches."""
    told: list[str] = []
    batches: list[BatchProgress] = []
    query = start(
        by_carrier,
        spark,
        checkpoint=checkpoint,
        trigger="available-now",
        bootstrap_servers=bootstrap,
        max_records_per_batch=100,
        notify=told.append,
        **how,
    )
    try:
        follow(query, batches.append)
    finally:
        query.stop()
    return told[0], batches


@pytest.mark.integration
def test_native_run_and_spark_agree_over_restarts(
    spark: SparkSession, broker: str, tmp_path: Path
) -> None:
    wanted = in_the_test_driver(by_carrier, RECORDS)
    send(broker, RECORDS)
    settings = Settings.load({"bootstrap.servers": broker, "state.dir": tmp_path / "state"})
    by_carrier.run(count=outputs(RECORDS), timeout=120, settings=settings)
    assert written(broker)[0] == wanted
    delete_topics(broker)
    make_topics(broker)
    checkpoint, read = tmp_path / "checkpoint", 0
    for begin, end in ((0, 250), (250, 399)):
        send(broker, RECORDS[begin:end])
        told, batches = by_spark(spark, broker, checkpoint, output="latest")
        assert "Spark SQL aggregates KSTREAM-AGGREGATE-" in told
        assert len(batches) >= (end - begin) // 100
        read += sum(one.records for one in batches)
    assert read == len(RECORDS)
    assert written(broker)[0] == wanted
    with pytest.raises(StateError, match="Spark SQL did its aggregations, and now the tasks"):
        by_spark(spark, broker, checkpoint, output="latest", aggregations="tasks")
    with pytest.raises(StateError, match="every update is asked for"):
        by_spark(spark, broker, checkpoint)


def outputs(records: Sequence[Any]) -> int:
    """How many records are written in all."""
    with TopologyTestDriver(by_carrier) as driver:
        for pair in records:
            driver.pipe_bytes("hops", *pair, 1_000)
        return sum(len(driver.read_output(topic)) for topic in TOPICS if topic != "hops")
