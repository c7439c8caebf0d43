"""Whole topologies as streaming queries over files, one file a micro-batch, without Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import examples.wordcount
from streamlet.spark import to_dataframe
from streamlet.spark.placement import groups, key_hash
from streamlet.spark.segments import Limits
from streamlet.testing import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

ROWS = "key binary, value binary, topic string, partition int, offset bigint, timestamp bigint"
LINES = ["the quick fox", "the lazy dog; the fox", "", "a dog", "quick quick"]

#: State is compacted all the time, in pieces.
SMALL = Limits(change_bytes=50, changes=1, piece_bytes=30)

Records = Sequence[tuple[bytes | None, bytes | None]]


class Files:
    """A topic of several partitions as a folder of files, each read in a micro-batch of its own."""

    def __init__(self, spark: SparkSession, folder: Path, topic: str, partitions: int) -> None:
        self._spark, self._topic, self._partitions = spark, topic, partitions
        self._folder, self._written, self._ends = folder, 0, [0] * partitions

    def write(self, records: Records) -> None:
        rows = []
        for key, value in records:
            partition = self._written % self._partitions
            place = (self._topic, partition, self._ends[partition], 1_000 + self._written)
            rows.append((key, value, *place))
            self._ends[partition] += 1
            self._written += 1
        frame = self._spark.createDataFrame(rows, ROWS).coalesce(1)
        frame.write.mode("append").parquet(str(self._folder))

    def read(self) -> DataFrame:
        reader = self._spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self._folder))


def run(frame: DataFrame, checkpoint: Path) -> list[Row]:
    """Process what is there and end; what was written, batch by batch."""
    rows: list[Row] = []
    query = (
        frame.writeStream.outputMode("update")
        .foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    return rows


def driver_counts(lines: Sequence[str]) -> dict[str, int]:
    with TopologyTestDriver(examples.wordcount.app) as driver:
        driver.pipe_inputs("lines", [(None, line) for line in lines])
        return {r.key: r.value for r in driver.read_output("word-counts")}


def counts(rows: Sequence[Row]) -> list[tuple[str, int]]:
    return [(row.key.decode(), int.from_bytes(row.value, "big")) for row in rows]


def test_groups_land_on_the_shuffle_partitions_they_were_chosen_for(spark: SparkSession) -> None:
    numbers = groups(12)
    frame = spark.createDataFrame([(n,) for n in numbers], "g int")
    hashed = {row.g: row.h for row in frame.selectExpr("g", "hash(g) as h").collect()}
    for partitions in (2, 3, 4, 8, 12):
        assert [hashed[n] % partitions for n in numbers] == [i % partitions for i in range(12)]


def test_word_count_ends_as_in_the_test_driver_also_over_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql.functions import spark_partition_id

    from streamlet.spark.processor import Options

    files = Files(spark, tmp_path / "lines", "lines", 2)
    for some in (LINES[:2], LINES[2:4]):
        files.write([(None, line.encode()) for line in some])

    def frame() -> DataFrame:
        return to_dataframe(
            examples.wordcount.app,
            spark,
            source=files.read(),
            partitions={"lines": 2},
            options=Options(limits=SMALL),
        ).withColumn("at", spark_partition_id())

    rows = run(frame(), tmp_path / "checkpoint")
    found = counts(rows)
    assert dict(found) == driver_counts(LINES[:4])
    # Two tasks, two shuffle partitions: neither is idle.
    assert {(key_hash(row.key) % 2, row.at) for row in rows} == {(0, 0), (1, 1)}
    words = sum(len(examples.wordcount.words(line)) for line in LINES[:4])
    assert len(found) == words  # an update per record
    files.write([(None, line.encode()) for line in LINES[4:]])
    again = run(frame(), tmp_path / "checkpoint")
    assert dict(counts(again)) == {"quick": driver_counts(LINES)["quick"]}
