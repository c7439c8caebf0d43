"""The stateless part of word count inside Spark, by the same task as everywhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import psutil
import pytest

import examples.wordcount
from streamlet.spark.plan.plan import plan
from streamlet.spark.plan.reference import reference_of
from streamlet.spark.rows.columns import source_columns
from streamlet.spark.rows.schemas import OUTPUT_COLUMNS, output_schema
from streamlet.spark.rows.tasks import MapTasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LINES = ["The quick fox", "", "jumps; over the fox", "fox, fox"]
ROWS = "key binary, value binary, topic string, partition int, offset bigint, timestamp bigint"


def test_workers_start_with_modules_loaded(spark: SparkSession) -> None:
    """A worker is forked from a process that has loaded them; without it PySpark loads none."""
    loaded = spark.sparkContext.parallelize([0], 1).map(lambda _: sorted(sys.modules)).collect()
    needed = {"pandas", "pyarrow", "confluent_kafka", "streamlet.spark.kafka.packed_reads"}
    assert needed | {"streamlet.spark.state.stage"} <= set(loaded[0])


def test_workers_are_reached_without_tcp(spark: SparkSession) -> None:
    """Over TCP each batch waits 40 ms for an acknowledgement that the kernel delays."""
    found = spark.sparkContext.parallelize([0], 1).map(tcp_connections).collect()
    assert found == [0]


def tcp_connections(_: int) -> int:
    """The TCP connections of this worker to the JVM, which may have others to a broker."""
    worker = psutil.Process()
    daemon = worker.parent()
    assert daemon is not None
    jvm = daemon.parent()
    assert jvm is not None
    ports = {one.laddr.port for one in jvm.net_connections("tcp")}
    found = [one.raddr.port for one in worker.net_connections("tcp") if one.raddr]
    return len(ports.intersection(found))


def test_word_counts_stateless_part_runs_in_map_in_arrow(spark: SparkSession) -> None:
    rows = [
        (None, bytearray(line, "utf-8"), "lines", partition, offset, 1_000 + offset)
        for partition in range(2)
        for offset, line in enumerate(LINES)
    ]
    source = spark.createDataFrame(rows, ROWS).coalesce(1)
    app = examples.wordcount.app
    stateless = MapTasks(plan(reference_of(app), app.topology(), {"lines": 2}), OUTPUT_COLUMNS)
    out = source_columns(source).mapInArrow(stateless, output_schema(OUTPUT_COLUMNS)).collect()
    wanted = [
        (word, 1_000 + offset)
        for _ in range(2)
        for offset, line in enumerate(LINES)
        for word in examples.wordcount.words(line)
    ]
    assert [(row.key.decode(), row.timestamp) for row in out] == wanted
    assert {bytes(row.value) for row in out} == {b""}, "a count needs no values"
    assert {row.topic for row in out} == {"wordcount-counts-repartition"}
    assert {row.partition for row in out} == {None}
