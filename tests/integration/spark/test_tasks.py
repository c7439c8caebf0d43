"""Whole topologies as streaming queries over files, one file a micro-batch, without Kafka."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import examples.wordcount
from streamlet.spark import query_settings, to_dataframe
from streamlet.spark.kafka.placement import groups, key_hash
from streamlet.spark.state.segments import SegmentLimits
from streamlet.testing import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.spark

ROWS = "key binary, value binary, topic string, partition int, offset bigint, timestamp bigint"
LINES = ["the quick fox", "the lazy dog; the fox", "", "a dog", "quick quick"]

#: State is compacted all the time, in pieces.
SMALL = SegmentLimits(merge_bytes=50, small_runs=1, block_bytes=30)

Records = Sequence[tuple[bytes | None, bytes | None]]


class Files:
    """A topic of several partitions as a folder of files, each read in a micro-batch of its own."""

    def __init__(self, spark: SparkSession, folder: Path, topic: str, partitions: int) -> None:
        self._spark, self._topic, self._partitions = spark, topic, partitions
        self._folder, self._written, self._ends = folder, 0, [0] * partitions

    def write(self, records: Records) -> None:
        """One more file; Spark takes them by their times, and would need a job to write one."""
        import pyarrow as pa
        from pyarrow import parquet

        rows = []
        for key, value in records:
            partition = self._written % self._partitions
            place = (self._topic, partition, self._ends[partition], 1_000 + self._written)
            rows.append((key, value, *place))
            self._ends[partition] += 1
            self._written += 1
        columns = zip(*rows, strict=True)
        types = (pa.binary(), pa.binary(), pa.string(), pa.int32(), pa.int64(), pa.int64())
        names = [column.partition(" ")[0] for column in ROWS.split(", ")]
        arrays = [pa.array(column, of) for column, of in zip(columns, types, strict=True)]
        self._folder.mkdir(exist_ok=True)
        file = self._folder / f"{self._written}.parquet"
        parquet.write_table(pa.table(arrays, names=names), file)
        os.utime(file, (self._written, self._written))

    def read(self) -> DataFrame:
        reader = self._spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self._folder))


def run(frame: DataFrame, checkpoint: Path, kept: list[int] | None = None) -> list[Row]:
    """Process what is there and end; what was written, batch by batch.

    ``kept`` gets the number of entries in Spark's state after each batch.
    """
    rows: list[Row] = []
    query = started(
        frame.writeStream.outputMode("update")
        .foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True),
        frame.sparkSession,
    )
    try:
        assert query.awaitTermination(300)
    finally:
        query.stop()
    if kept is not None:
        reports = [json.loads(one.json) for one in query.recentProgress]
        kept += [one["stateOperators"][0]["numRowsTotal"] for one in reports if one["numInputRows"]]
    return rows


def started(writer: DataStreamWriter, spark: SparkSession) -> StreamingQuery:
    """A query that writes its checkpoint as those do that we start, without many processes."""
    with query_settings.settings(spark, query_settings.local_files(spark)):
        return writer.start()


def driver_counts(lines: Sequence[str]) -> dict[str, int]:
    with TopologyTestDriver(examples.wordcount.app) as driver:
        driver.pipe_inputs("lines", [(None, line) for line in lines])
        return {r.key: r.value for r in driver.read_output("word-counts")}


def spilled_bytes(spark: SparkSession) -> int:
    """What sorts have put aside in all stages that the session remembers."""
    context: Any = spark.sparkContext
    store = context._jsc.sc().statusStore()
    quantiles = context._gateway.new_array(context._jvm.double, 0)
    stages = store.stageList(None, False, False, quantiles, None)
    return sum(stages.apply(i).memoryBytesSpilled() for i in range(stages.size()))


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

    from streamlet.spark.state.processor import Options

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


def test_counts_are_right_when_the_sort_spills(spark: SparkSession, tmp_path: Path) -> None:
    """Eight files in one batch: each map packs a row for each task, which makes sorts of many."""
    files = Files(spark, tmp_path / "lines", "lines", 2)
    written: list[str] = []
    for number in range(8):
        lines = [f"all w{number} w{n % 3}" for n in range(6)]
        files.write([(None, line.encode()) for line in lines])
        written += lines
    source = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 8)
    before = spilled_bytes(spark)
    frame = to_dataframe(
        examples.wordcount.app,
        spark,
        source=source.parquet(str(tmp_path / "lines")),
        partitions={"lines": 2},
    )
    found = counts(run(frame, tmp_path / "checkpoint"))
    assert spilled_bytes(spark) > before
    assert dict(found) == driver_counts(written)
    for word in dict(found):  # every update, in order
        assert [c for w, c in found if w == word] == list(range(1, dict(found)[word] + 1))


def test_sparks_state_grows_with_the_keys_and_not_with_the_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    from streamlet.spark.state.processor import Options

    files = Files(spark, tmp_path / "lines", "lines", 2)
    for _ in range(12):
        files.write([(None, b"one two three")] * 2)
    limits = SegmentLimits(merge_bytes=60, small_runs=3, block_bytes=1_000)
    frame = to_dataframe(
        examples.wordcount.app,
        spark,
        source=files.read(),
        partitions={"lines": 2},
        options=Options(limits=limits),
    )
    kept: list[int] = []
    found = counts(run(frame, tmp_path / "checkpoint", kept))
    assert dict(found) == {"one": 24, "two": 24, "three": 24}
    # For each of two tasks a head, the whole in one piece, and at most three changes.
    assert len(kept) == 12
    assert max(kept) <= 2 * (1 + 1 + 3)
    assert min(kept[3:]) < max(kept)  # what was compacted is gone
