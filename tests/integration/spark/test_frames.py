"""DataFrames with typed columns in place of topics, and typed columns of what comes out."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

import examples.customers_parquet
import streamlet as sl
from streamlet.errors import ConfigError, TopologyError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.spark import FrameSource, to_dataframe, typed
from tests.integration.spark.test_tasks import run, started

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark


@dataclass
class Sale:
    shop: str
    amount: int
    tags: list[str]


@dataclass
class Total:
    count: int
    amount: int


def add(_: str, sale: Sale, total: Total) -> Total:
    return Total(total.count + 1, total.amount + sale.amount)


SALES = sl.App("frame-sales")
_sales = SALES.stream("sales", key=str, value=Sale)
(
    _sales.group_by(lambda _, sale: sale.shop, key=str)
    .aggregate(lambda: Total(0, 0), add, value=Total, store="totals")
    .to_stream()
    .to("totals", value=Total)
)

HOURS = sl.App("frame-hours")
(
    HOURS.stream("sales", key=str, value=Sale)
    .group_by_key()
    .windowed_by(sl.tumbling("1h"))
    .count(store="hours")
    .to_stream()
    .to("hours")
)

TICKS = sl.App("frame-ticks")
_ticks = TICKS.stream("ticks", key=bytes, value=int)
_ticks.filter(lambda _, n: n % 2 == 0).to("even")
_ticks.filter(lambda _, n: n % 2 == 1).to("odd")

LATEST = sl.App("frame-latest")
LATEST.table("shops", key=str, value=dict, store="shops").to_stream().to("names")

#: Shop, amount, minute.
ROWS = [("a", 5, 0), ("b", 7, 61), ("a", 1, 2), ("a", 2, 130), ("b", 3, 62)]
WANTED = {"a": (3, 8), "b": (2, 10)}
BEGIN = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


def sales(spark: SparkSession) -> DataFrame:
    rows = [
        (shop, amount, [shop], BEGIN + datetime.timedelta(minutes=at)) for shop, amount, at in ROWS
    ]
    return spark.createDataFrame(rows, "shop string, amount int, tags array<string>, at timestamp")


def totals(rows: list[Row]) -> dict[str, tuple[int, int]]:
    """The newest total of each shop; totals grow."""
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        found[row.key] = max(found.get(row.key, (0, 0)), (row.value.count_, row.value.amount))
    return found


def of(frame: DataFrame) -> DataFrame:
    """Totals; a Row's ``count`` is a method of tuples."""
    from pyspark.sql import functions as f

    renamed = f.struct(f.col("value.count").alias("count_"), f.col("value.amount"))
    return frame.withColumn("value", renamed)


def test_a_bounded_frame_gives_a_bounded_frame_with_typed_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    sales(spark).write.parquet(str(tmp_path / "sales"))
    table = spark.read.parquet(str(tmp_path / "sales"))
    source = FrameSource(table, key="shop", time="at")
    frame = to_dataframe(SALES, spark, sources={"sales": source}, partitions={"sales": 2})
    assert not frame.isStreaming
    wanted = "struct<key:string,value:struct<count:bigint,amount:bigint>,timestamp:timestamp>"
    assert frame.schema.simpleString() == wanted
    rows = of(frame).collect()
    assert totals(rows) == WANTED
    assert len(rows) == len(ROWS)
    first = min(rows, key=lambda row: row.timestamp)
    assert first.timestamp.astimezone(datetime.UTC) == BEGIN


def test_records_of_a_bounded_frame_come_in_the_order_of_their_times(spark: SparkSession) -> None:
    source = FrameSource(sales(spark).repartition(3), key="shop", time="at")
    rows = to_dataframe(HOURS, spark, sources={"sales": source}).collect()
    begin = int(BEGIN.timestamp() * 1000)
    assert sorted(
        (row.key.key, (row.key.start - begin) // 3_600_000, row.value) for row in rows
    ) == [
        ("a", 0, 1),
        ("a", 0, 2),
        ("a", 2, 1),
        ("b", 1, 1),
        ("b", 1, 2),
    ]


@pytest.mark.parametrize("streaming", [True, False])
def test_several_files_give_what_one_gives(
    spark: SparkSession, tmp_path: Path, streaming: bool
) -> None:
    """Spark takes the largest file first, which has the newest records; windows have no grace."""
    rows = [("abcde"[n % 5], n, ["x"] * (n // 60), n * 60_000) for n in range(240)]
    schema = "shop string, amount int, tags array<string>, at bigint"
    wanted = {
        ("abcde"[shop], hour): sum(n % 5 == shop for n in range(hour * 60, hour * 60 + 60))
        for shop in range(5)
        for hour in range(4)
    }
    for hour in range(4):
        part = spark.createDataFrame(rows[hour * 60 : hour * 60 + 60], schema).coalesce(1)
        part.write.mode("append").parquet(str(tmp_path / "files"))
    reader: Any = spark.readStream if streaming else spark.read
    source = FrameSource(reader.schema(schema).parquet(str(tmp_path / "files")), "shop", time="at")
    frame = to_dataframe(HOURS, spark, sources={"sales": source}, partitions={"sales": 2})
    found: dict[tuple[str, int], int] = {}
    for row in run(frame, tmp_path / "checkpoint") if streaming else frame.collect():
        place = row.key.key, row.key.start // 3_600_000
        found[place] = max(found.get(place, 0), row.value)
    assert found == wanted


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_files_are_a_stream(spark: SparkSession, tmp_path: Path, form: str) -> None:
    frame = sales(spark)
    if form == "csv":
        frame = frame.drop("tags")
    frame.coalesce(1).write.format(form).save(str(tmp_path / "files"))
    files = spark.readStream.schema(frame.schema).format(form).load(str(tmp_path / "files"))
    if form == "csv":
        files = files.selectExpr("*", "cast(array() as array<string>) as tags")
    source = FrameSource(files, key="shop", time="at")
    found = to_dataframe(SALES, spark, sources={"sales": source}, partitions={"sales": 2})
    assert totals(run(of(found), tmp_path / "checkpoint")) == WANTED


def test_a_rate_source_is_a_topic_of_numbers_and_each_output_topic_a_sink(
    spark: SparkSession, tmp_path: Path
) -> None:
    ticks = spark.readStream.format("rate-micro-batch")
    rate = ticks.option("rowsPerBatch", 20).option("numPartitions", 2).load()
    frame = to_dataframe(TICKS, spark, sources={"ticks": rate}, partitions={"ticks": 2}, topic="*")

    def split(batch: DataFrame, _: int) -> None:
        for topic in ("even", "odd"):
            rows = typed(batch, TICKS, topic)
            rows.write.mode("append").parquet(str(tmp_path / topic))

    query = started(
        frame.writeStream.outputMode("append")
        .foreachBatch(split)
        .option("checkpointLocation", str(tmp_path / "checkpoint")),
        spark,
    )
    try:
        while not query.recentProgress and query.isActive:
            query.awaitTermination(1)
        assert query.exception() is None
    finally:
        query.stop()
    for topic, rest in (("even", 0), ("odd", 1)):
        found = [row.value for row in spark.read.parquet(str(tmp_path / topic)).collect()]
        assert set(range(rest, 20, 2)) <= set(found)
        assert {n % 2 for n in found} == {rest}


def test_rows_with_a_kind_of_change_are_a_table_and_its_tombstones(spark: SparkSession) -> None:
    """As a Delta table's change feed has them."""
    from pyspark.sql import functions as f

    rows = [
        ("a", "Ann", "insert", 1),
        ("b", "Bob", "insert", 2),
        ("a", "Anna", "update_preimage", 3),
        ("a", "Anna", "update_postimage", 3),
        ("b", "Bob", "delete", 4),
    ]
    changes = spark.createDataFrame(rows, "id string, name string, _change_type string, at bigint")
    there = f.when(f.col("_change_type") != "delete", f.struct("name"))
    feed = changes.where("_change_type <> 'update_preimage'").withColumn("value", there)
    source = FrameSource(feed, key="id", value="value", time="at")
    frame = to_dataframe(LATEST, spark, sources={"shops": source}, partitions={"shops": 2})
    found: dict[str, Any] = {}
    for row in sorted(frame.collect(), key=lambda row: row.timestamp):
        found[row.key] = row.value and bytes(row.value)
    assert found == {"a": b'{"name":"Anna"}', "b": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop("amount"), "sales: there is no column amount, a field of .*Sale"),
        (
            lambda f: f.withColumn("amount", f.shop),
            r"sales: column amount is string, and int64 is needed",
        ),
        (lambda f: f.withColumnRenamed("shop", "id"), "sales: there is no column shop"),
        (lambda f: f.withColumn("at", f.shop), "sales: column at is string: times are"),
    ],
)
def test_a_column_that_does_not_fit_is_named_before_anything_runs(
    spark: SparkSession, change: Callable[[DataFrame], DataFrame], message: str
) -> None:
    source = FrameSource(change(sales(spark)), key="shop", time="at")
    with pytest.raises(ConfigError, match=message):
        to_dataframe(SALES, spark, sources={"sales": source})


@dataclass
class Stay:
    shop: str
    at: datetime.datetime
    days: list[datetime.date]


STAYS = sl.App("frame-stays")
STAYS.stream("stays", key=str, value=Stay).group_by_key().reduce(
    lambda kept, new: new, store="newest"
).to_stream().to("stayed", value=Stay)


def test_a_field_may_be_a_timestamp(spark: SparkSession) -> None:
    rows = [("a", BEGIN, [BEGIN.date()])]
    stays = spark.createDataFrame(rows, "shop string, at timestamp, days array<date>")
    source = FrameSource(stays, key="shop", time="at")
    [row] = to_dataframe(STAYS, spark, sources={"stays": source}).collect()
    assert (row.value.at.astimezone(datetime.UTC), row.value.days) == (BEGIN, [BEGIN.date()])


def test_a_column_that_python_cannot_read_is_named(spark: SparkSession) -> None:
    stays = sales(spark).selectExpr("shop", "make_interval(1) at", "array() days", "0 timestamp")
    with pytest.raises(ConfigError, match="stays: column at is interval, which Python cannot read"):
        to_dataframe(STAYS, spark, sources={"stays": FrameSource(stays, key="shop")})


@pytest.mark.parametrize(
    ("app", "topic", "operator"),
    [(HOURS, "sales", "KSTREAM-AGGREGATE-"), (LATEST, "shops", "rows of a table")],
)
def test_records_without_keys_are_refused_where_operators_go_by_keys(
    spark: SparkSession, app: sl.App, topic: str, operator: str
) -> None:
    source = FrameSource(sales(spark), time="at")
    with pytest.raises(ConfigError, match=rf"{topic}: there is no column key .*{operator}.* key="):
        to_dataframe(app, spark, sources={topic: source})


def test_records_without_keys_are_taken_where_they_get_one_or_it_is_said(
    spark: SparkSession,
) -> None:
    rekeyed = FrameSource(sales(spark), time="at")
    assert totals(of(to_dataframe(SALES, spark, sources={"sales": rekeyed})).collect()) == WANTED
    keyless = FrameSource(sales(spark), key=(), time="at")
    assert to_dataframe(HOURS, spark, sources={"sales": keyless}).collect() == []


def test_a_row_that_does_not_fit_names_topic_and_column(spark: SparkSession) -> None:
    rows = sales(spark).selectExpr("shop", "if(amount = 7, null, amount) amount", "tags", "at")
    source = FrameSource(rows, key="shop", time="at")
    frame = to_dataframe(SALES, spark, sources={"sales": source})
    with pytest.raises(Exception, match=r"sales: column shop, amount, tags: Expected `int`"):
        frame.collect()


def test_sources_that_cannot_be_are_refused(spark: SparkSession) -> None:
    frame = sales(spark)
    with pytest.raises(TopologyError, match="does not read 'sells'; it reads sales"):
        to_dataframe(SALES, spark, sources={"sells": frame})
    with pytest.raises(TopologyError, match="writes even and odd: name the one"):
        to_dataframe(TICKS, spark, sources={"ticks": spark.range(3).toDF("value")})
    table = FrameSource(frame, key="shop")
    with pytest.raises(ConfigError, match="customers is bounded, and orders is a stream"):
        to_dataframe(examples.customers_parquet.app, spark, sources={"customers": table})


@pytest.mark.integration
def test_the_example_joins_kafka_with_a_parquet_table_into_parquet(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = [("a", "Ann", 0.5), ("b", "Bob", 0.0)]
    table = spark.createDataFrame(people, "id string, name string, discount double")
    table.write.parquet(str(tmp_path / "customers"))
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic("orders", 2)])
    try:
        producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2"})
        for number, who in enumerate("abxa"):
            producer.produce("orders", b'{"order":%d,"amount":10}' % number, who)
        assert producer.flush(300) == 0
        monkeypatch.setattr(sl.spark, "session", lambda _: spark)
        monkeypatch.setattr(sl.spark, "stop", lambda _: None)
        places = [str(tmp_path / name) for name in ("customers", "priced", "checkpoint")]
        table_folder, out, checkpoint = places
        examples.customers_parquet.main(table_folder, out, checkpoint, bootstrap_servers)
    finally:
        admin.delete_topics(["orders"])
        admin.close()
    rows = spark.read.parquet(str(tmp_path / "priced")).collect()
    assert sorted((row.key, row.order, row.name, row.price) for row in rows) == [
        ("a", 0, "Ann", 5.0),
        ("a", 3, "Ann", 5.0),
        ("b", 1, "Bob", 10.0),
    ]
