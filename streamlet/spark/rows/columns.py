"""Arrow record batches in, raw batches of a task out, and back.

A source is a DataFrame with Kafka's columns. Timestamps are longs, ms since the epoch: Arrow's own
timestamps become a Python object each, which halves the throughput.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.spark.rows.blobs import HEADERS, as_structs, rows_of
from streamlet.spark.rows.packing import Packed
from streamlet.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Columns a source must have, with ``timestamp`` as TIMESTAMP or as ms since the epoch.
SOURCE_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")

#: Columns of what an application writes; ``partition`` is null where the key decides.
_OUTPUT_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "timestamp": "bigint",
    "headers": "array<struct<key: string, value: binary>>",
}
OUTPUT_COLUMNS = tuple(_OUTPUT_TYPES)
OUTPUT_SCHEMA = ", ".join(f"{name} {of}" for name, of in _OUTPUT_TYPES.items())

_OUTPUT = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.int64()),
        ("headers", HEADERS),
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
        ("until", pa.int64()),
    ]
)


def output_schema(columns: Sequence[str]) -> str:
    """``OUTPUT_SCHEMA`` with these columns only."""
    return ", ".join(f"{name} {_OUTPUT_TYPES[name]}" for name in columns)


def source_columns(source: DataFrame) -> DataFrame:
    """The columns a task reads, of the types it reads them in."""
    from pyspark.sql import functions as f

    time = source.schema["timestamp"].dataType.typeName()
    millis = f.unix_millis("timestamp") if time == "timestamp" else f.col("timestamp")
    return source.select(
        *(f.col(name) for name in SOURCE_COLUMNS[:-1]), millis.cast("long").alias("timestamp")
    )


def partitions_of(rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """The rows of each topic and partition, in the order of their offsets."""
    if not rows.num_rows:
        return
    topics, partitions = rows["topic"], rows["partition"]
    if pc.all(pc.equal(topics, topics[0])).as_py() and (
        pc.all(pc.equal(partitions, partitions[0])).as_py()
    ):
        yield TopicPartition(topics[0].as_py(), partitions[0].as_py()), _ordered(rows)
        return
    for topic, partition in sorted(
        set(zip(topics.to_pylist(), partitions.to_pylist(), strict=True))
    ):
        mask = pc.and_(pc.equal(topics, topic), pc.equal(partitions, partition))
        yield TopicPartition(topic, partition), _ordered(rows.filter(mask))


def _ordered(rows: pa.RecordBatch) -> pa.RecordBatch:
    offsets = rows["offset"].to_numpy()
    if (offsets[1:] > offsets[:-1]).all():
        return rows
    return rows.take(pc.sort_indices(rows["offset"]))


def raw_batch(where: TopicPartition, rows: pa.RecordBatch) -> PartitionBatch:
    """Rows of one partition as a task takes them."""
    offsets = rows["offset"].to_pylist()
    span = range(offsets[0], offsets[-1] + 1)
    return PartitionBatch(
        where.topic,
        where.partition,
        span if len(span) == len(offsets) else offsets,
        rows["key"].to_pylist(),
        rows["value"].to_pylist(),
        rows["timestamp"].to_pylist(),
    )


def output_rows(output: Output, columns: Sequence[str]) -> pa.RecordBatch:
    """The outputs of a task, as rows with these columns of ``OUTPUT_SCHEMA``."""
    headers = None if output.headers is None else list(map(as_structs, output.headers))
    return _outgoing(
        output.topic,
        len(output.keys),
        {
            "key": pa.array(output.keys, pa.binary()),
            "value": pa.array(output.values, pa.binary()),
            "timestamp": pa.array(output.timestamps, pa.int64()),
            "partition": _array_or_none(output.partitions, pa.int32()),
            "headers": _array_or_none(headers, HEADERS),
        },
        columns,
    )


def unpacked_rows(
    topic: str, packed: bytes, columns: Sequence[str] = OUTPUT_COLUMNS
) -> pa.RecordBatch:
    """The rows of a packed row that leaves the query."""
    rows = rows_of(packed)
    found = {name: rows[name] for name in rows.schema.names}
    return _outgoing(topic, rows.num_rows, found, columns)


def _outgoing(
    topic: str, count: int, found: Mapping[str, Any], columns: Sequence[str]
) -> pa.RecordBatch:
    arrays = {**found, "topic": pa.repeat(pa.scalar(topic, pa.string()), count)}
    schema = pa.schema([_OUTPUT.field(name) for name in columns])
    given = [arrays.get(field.name) for field in schema]
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(count, field.type) if array is None else array
            for array, field in zip(given, schema, strict=True)
        ],
        schema=schema,
    )


def _array_or_none(column: Sequence[Any] | None, of: pa.DataType) -> pa.Array | None:
    return None if column is None else pa.array(column, of)


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


_READ = _PACKED.append(pa.field("read", pa.int64()))


def read_rows(count: int, packed: Sequence[Packed]) -> pa.RecordBatch:
    """Rows of ``packing.READ_SCHEMA``: what became of so many records."""
    if not packed:
        nothing = [None] * len(_PACKED)
        return pa.RecordBatch.from_pydict(
            dict(zip(_READ.names, [[one] for one in [*nothing, count]], strict=True)), schema=_READ
        )
    reads = pa.array([count] + [0] * (len(packed) - 1), pa.int64())
    return pa.RecordBatch.from_arrays([*packed_rows(packed).columns, reads], schema=_READ)


def columns_as_read(batch: PartitionBatch) -> pa.RecordBatch:
    """A batch of one partition as ``packing.pack_raw`` takes it."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array(batch.keys, pa.binary()),
            pa.array(batch.values, pa.binary()),
            pa.array(batch.timestamps, pa.int64()),
            pa.array(batch.offsets, pa.int64()),
        ],
        names=["key", "value", "timestamp", "offset"],
    )
