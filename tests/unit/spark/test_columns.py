"""Rows of a source become batches of partitions, and rows of outputs what a sink is told."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.spark.rows.blobs import Records, pack, unpack
from streamlet.spark.rows.columns import (
    columns_as_read,
    output_rows,
    partitions_of,
    read_rows,
    unpacked_rows,
)
from streamlet.spark.rows.packing import Packed
from streamlet.spark.rows.schemas import OUTPUT_COLUMNS, output_schema
from streamlet.types import TopicPartition


def rows(*places: tuple[str, int, int]) -> pa.RecordBatch:
    """One row per topic, partition and offset; its value says which."""
    topics, partitions, offsets = map(list, zip(*places, strict=True))
    columns: dict[str, Any] = {
        "topic": pa.array(topics, pa.string()),
        "partition": pa.array(partitions, pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "value": pa.array([f"{t}{p}{o}".encode() for t, p, o in places], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def split(*places: tuple[str, int, int]) -> dict[TopicPartition, list[bytes]]:
    return {where: some["value"].to_pylist() for where, some in partitions_of(rows(*places))}


def test_rows_of_one_partition_stay_as_they_are() -> None:
    found = split(("a", 1, 4), ("a", 1, 5), ("a", 1, 9))
    assert found == {TopicPartition("a", 1): [b"a14", b"a15", b"a19"]}


def test_rows_that_came_mixed_are_parted_and_put_in_order() -> None:
    found = split(("b", 0, 2), ("a", 1, 5), ("a", 0, 1), ("a", 1, 4), ("b", 0, 1))
    assert found == {
        TopicPartition("a", 0): [b"a01"],
        TopicPartition("a", 1): [b"a14", b"a15"],
        TopicPartition("b", 0): [b"b01", b"b02"],
    }


def test_no_rows_are_no_partitions() -> None:
    assert list(partitions_of(rows(("a", 0, 0)).slice(1))) == []


def test_records_come_back_with_nulls_and_with_offsets_that_have_holes() -> None:
    records = Records([None, b""], [b"v", None], [1, 2], None, [4, 7])
    assert unpack(pack(records)) == records
    whole = Records([b"k"], [b"v"], [1], first=0)
    assert unpack(pack(whole)) == whole


def test_a_sink_is_told_only_the_columns_it_asked_for() -> None:
    output = Output("t", [b"k"], [b"v"], [5], [3], [[("h", b"x")]])
    slim = output_rows(output, ("key", "value", "topic"))
    assert slim.to_pylist() == [{"key": b"k", "value": b"v", "topic": "t"}]
    assert output_schema(("key", "topic")) == "key binary, topic string"
    packed = pack(Records([b"k"], [b"v"], [5]))
    (row,) = unpacked_rows("t", packed, OUTPUT_COLUMNS).to_pylist()
    assert (row["timestamp"], row["partition"], row["headers"]) == (5, None, None)


def test_rows_read_say_once_how_many_records_they_were_made_of() -> None:
    packed = [Packed(7, "t-0", at, 0, 5, "t", 0, b"x") for at in (0, 1)]
    assert read_rows(30, packed)["read"].to_pylist() == [30, 0]
    (row,) = read_rows(4, []).to_pylist()  # a filter dropped all of them
    assert (row["read"], row["records"]) == (4, None)


def test_a_batch_of_our_client_is_packed_as_that_of_spark() -> None:
    batch = PartitionBatch("t", 0, [3, 5], [b"k", None], [None, b"v"], [1, 2])
    assert columns_as_read(batch).to_pylist() == [
        {"key": b"k", "value": None, "timestamp": 1, "offset": 3},
        {"key": None, "value": b"v", "timestamp": 2, "offset": 5},
    ]
