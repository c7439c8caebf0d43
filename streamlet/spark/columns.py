"""Arrow record batches in, raw batches of a task out, and back.

A source is a DataFrame with Kafka's columns. Timestamps are longs, ms since the epoch: Arrow's own
timestamps become a Python object each, which halves the throughput.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from streamlet.kafka.ports import PartitionBatch
from streamlet.runtime.task import Output
from streamlet.spark.packing import Packed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Columns a source must have, with ``timestamp`` as TIMESTAMP or as ms since the epoch.
SOURCE_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")

#: Columns of what an application writes; ``partition`` is null where the key decides.
OUTPUT_SCHEMA = (
    "key binary, value binary, topic string, partition int, timestamp bigint, "
    "headers array<struct<key: string, value: binary>>"
)

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_OUTPUT = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.int64()),
        ("headers", _HEADERS),
    ]
)
_PACKED = pa.schema(
    [
        ("group", pa.int32()),
        ("sender", pa.string()),
        ("first", pa.int64()),
        ("part", pa.int32()),
        ("time", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("records", pa.binary()),
    ]
)


def source_columns(source: DataFrame) -> DataFrame:
    """The columns a task reads, of the types it reads them in."""
    from pyspark.sql import functions as f

    time = source.schema["timestamp"].dataType.typeName()
    millis = f.unix_millis("timestamp") if time == "timestamp" else f.col("timestamp")
    return source.select(
        *(f.col(name) for name in SOURCE_COLUMNS[:-1]), millis.cast("long").alias("timestamp")
    )


def raw_batches(rows: pa.RecordBatch) -> Iterator[PartitionBatch]:
    """One batch per topic and partition, each in the order of its offsets."""
    topics, partitions = rows["topic"].to_pylist(), rows["partition"].to_pylist()
    offsets = rows["offset"].to_pylist()
    keys, values = rows["key"].to_pylist(), rows["value"].to_pylist()
    timestamps = rows["timestamp"].to_pylist()
    if not topics:
        return
    places = set(zip(topics, partitions, strict=True))
    if len(places) == 1 and _contiguous(offsets):
        span = range(offsets[0], offsets[-1] + 1)
        yield PartitionBatch(topics[0], partitions[0], span, keys, values, timestamps)
        return
    for topic, partition in sorted(places):
        at = [
            i
            for i, place in enumerate(zip(topics, partitions, strict=True))
            if place == (topic, partition)
        ]
        at.sort(key=offsets.__getitem__)
        yield PartitionBatch(
            topic,
            partition,
            as_span([offsets[i] for i in at]),
            [keys[i] for i in at],
            [values[i] for i in at],
            [timestamps[i] for i in at],
        )


def as_span(offsets: Sequence[int]) -> Sequence[int]:
    """The same offsets, as a range where they are contiguous."""
    return range(offsets[0], offsets[-1] + 1) if _contiguous(offsets) else offsets


def _contiguous(offsets: Sequence[int]) -> bool:
    return list(offsets) == list(range(offsets[0], offsets[0] + len(offsets)))


def output_rows(output: Output) -> pa.RecordBatch:
    """What a task wrote, as rows of ``OUTPUT_SCHEMA``."""
    count = len(output.keys)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(output.keys, pa.binary()),
            pa.array(output.values, pa.binary()),
            pa.array([output.topic] * count, pa.string()),
            pa.nulls(count, pa.int32())
            if output.partitions is None
            else pa.array(output.partitions, pa.int32()),
            pa.array(output.timestamps, pa.int64()),
            pa.nulls(count, _HEADERS)
            if output.headers is None
            else pa.array([_headers(one) for one in output.headers], _HEADERS),
        ],
        schema=_OUTPUT,
    )


def packed_rows(packed: Sequence[Packed]) -> pa.RecordBatch:
    """Rows between two stages, as ``packing.PACKED_SCHEMA`` has them."""
    columns = zip(*packed, strict=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(list(column), field.type)
            for column, field in zip(columns, _PACKED, strict=True)
        ],
        schema=_PACKED,
    )


def _headers(one: Sequence[tuple[str, bytes | None]] | None) -> list[dict[str, object]] | None:
    return None if one is None else [{"key": name, "value": value} for name, value in one]
