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
from streamlet.spark.rows.schemas import OUTPUT, PACKED
from streamlet.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Columns a source must have, with ``timestamp`` as TIMESTAMP or as ms since the epoch.
SOURCE_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")

#: Arrow's types by Spark's names of them.
ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "decimal(38,0)": pa.decimal128(38, 0),
    OUTPUT["headers"]: HEADERS,
}


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """The schema of columns with these types of Spark's."""
    return pa.schema([(name, ARROW[of]) for name, of in columns.items()])


_OUTPUT, _PACKED = arrow_schema(OUTPUT), arrow_schema(PACKED)


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
    """The outputs of a task, as rows with these columns of ``schemas.OUTPUT``."""
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


def unpacked_rows(topic: str, packed: bytes, columns: Sequence[str]) -> pa.RecordBatch:
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
    """Rows between two stages, as ``schemas.PACKED`` has them."""
    columns = zip(*packed, strict=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(list(column), field.type)
            for column, field in zip(columns, _PACKED, strict=True)
        ],
        schema=_PACKED,
    )


def read_rows(count: int, packed: Sequence[Packed]) -> pa.RecordBatch:
    """Rows of ``schemas.READ_SCHEMA``: what became of so many records."""
    return with_read(packed_rows(packed) if packed else nothing(_PACKED), count)


def nothing(schema: pa.Schema) -> pa.RecordBatch:
    """A row of nulls."""
    return pa.RecordBatch.from_pylist([{}], schema=schema)


def with_read(rows: pa.RecordBatch, count: int) -> pa.RecordBatch:
    """Rows with a column ``read``: of how many records the first, and with it all, are made."""
    reads = pa.array([count] + [0] * (rows.num_rows - 1), pa.int64())
    return pa.RecordBatch.from_arrays([*rows.columns, reads], names=[*rows.schema.names, "read"])


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
