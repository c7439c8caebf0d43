"""The ways to count words in Spark that are measured, and the floor: from Kafka to Kafka, no more.

All read the same topic and write the same one. ``tws_per_key`` is what one would write by hand: a
``transformWithState`` with a state per word. It and Spark's own count write one update per word and
batch, streamlet's word count one per record. The last two are one application of expressions, which
writes the latest per word and batch: its aggregation done by tasks, and by Spark SQL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import streamlet as sl
from bench.spark_topics import OUTPUT, SOURCE_VARIABLE

_RECORD = "word string, n long, ts long, pad string"
_Update = Row("key", "value")


class CountPerKey(StatefulProcessor):
    """A state per word, read and written once per batch."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        count = sum(1 for _ in rows)
        kept = self._count.get()
        if kept is not None:
            count += kept[0]
        self._count.update((count,))
        yield _Update(key[0], f'{{"word":"{key[0]}","count":{count}}}')

    def close(self) -> None:
        pass


def words(source: DataFrame) -> DataFrame:
    """The word of each record, out of its JSON."""
    return source.select(f.from_json(f.col("value").cast("string"), _RECORD).word.alias("word"))


def passthrough(source: DataFrame) -> DataFrame:
    """Key and value as they are."""
    return source.select("key", "value")


def native_count(source: DataFrame) -> DataFrame:
    """Spark's own aggregation."""
    counted = words(source).groupBy("word").count()
    return counted.select(
        f.col("word").alias("key"), f.to_json(f.struct("word", "count")).alias("value")
    )


def tws_per_key(source: DataFrame) -> DataFrame:
    """``CountPerKey``."""
    grouped = words(source).groupBy("word")
    return grouped.transformWithState(CountPerKey(), "key string, value string", "Update", "None")


Start = Callable[[SparkSession, str, str, int], StreamingQuery]


def _of(build: Callable[[DataFrame], DataFrame], mode: str) -> Start:
    def start(spark: SparkSession, bootstrap: str, checkpoint: str, most: int) -> StreamingQuery:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        reader = reader.option("kafka.fetch.max.wait.ms", "10").option("maxOffsetsPerTrigger", most)
        reader = reader.option("subscribe", os.environ[SOURCE_VARIABLE])
        writer = build(reader.option("startingOffsets", "earliest").load()).writeStream
        writer = writer.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        writer = writer.option("topic", OUTPUT).option("checkpointLocation", checkpoint)
        return writer.outputMode(mode).trigger(availableNow=True).start()

    return start


def _app(name: str, **how: Any) -> Start:
    def start(spark: SparkSession, bootstrap: str, checkpoint: str, most: int) -> StreamingQuery:
        return sl.spark.start(
            f"bench.spark_app:{name}",
            spark,
            checkpoint=checkpoint,
            trigger="available-now",
            bootstrap_servers=bootstrap,
            max_records_per_batch=most,
            **how,
        )

    return start


_LATEST = {"output": "latest"}

WAYS: Mapping[str, Start] = {
    "passthrough": _of(passthrough, "append"),
    "native_count": _of(native_count, "update"),
    "tws_per_key": _of(tws_per_key, "update"),
    "tasks": _app("app"),
    "latest_by_tasks": _app("expressions", **_LATEST, aggregations="tasks"),
    "latest_by_sql": _app("expressions", **_LATEST, aggregations="sql"),
}
