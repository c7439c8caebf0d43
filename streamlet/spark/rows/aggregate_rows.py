"""Aggregates as rows: partial ones into Spark's aggregation, results out of it.

A row has the number of the fold, the partition of the task, the key as its store has it, the newest
time, and a column for each slot of each fold, null in rows of other folds. A key that lies in two
partitions of a topic has two tasks natively, and two rows here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from streamlet.errors import SerdeError, StateError
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.serdes import ColumnError, Serde
from streamlet.spark.error_notes import reported_rows
from streamlet.spark.plan.folds import Fold, Slot
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.plan.reference import resolve
from streamlet.spark.rows.columns import (
    ARROW,
    arrow_schema,
    nothing,
    output_rows,
    packed_rows,
    with_read,
)
from streamlet.spark.rows.folding import Folder, folds_of
from streamlet.spark.rows.packing import Packed, Sender
from streamlet.spark.rows.partial import Partial
from streamlet.spark.rows.refused_times import RefusedTimes
from streamlet.spark.rows.schemas import ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHERE = {"fold": "int", "partition": "int", "key": "binary"}


def column_of(fold: int, slot: int) -> str:
    """Name of the column of a slot."""
    return f"f{fold}_{slot}"


def columns_of(folds: Sequence[Fold]) -> dict[str, str]:
    """Columns of the rows with their SQL types."""
    slots = {
        column_of(i, j): _sql_type(slot)
        for i, fold in enumerate(folds)
        for j, slot in enumerate(fold)
    }
    return {**_WHERE, "time": "bigint", **slots}


def _sql_type(slot: Slot) -> str:
    """Text as its bytes, which have its order; whole numbers beyond 64 bits as well."""
    if slot.kind == "count":
        return "bigint"
    return "decimal(38,0)" if slot.result is int else "binary"


def partial_schema(folds: Sequence[Fold]) -> str:
    """The schema of partial aggregates, as DDL."""
    return ddl(columns_of(folds))


def aggregated(rows: DataFrame, folds: Sequence[Fold]) -> DataFrame:
    """The aggregates of all partial ones so far, as Spark SQL has them; the same columns."""
    from pyspark.sql import functions as f

    by_kind = {"count": f.sum, "sum": f.sum, "min": f.min, "max": f.max}
    slots = [
        by_kind[slot.kind](column_of(i, j)).alias(column_of(i, j))
        for i, fold in enumerate(folds)
        for j, slot in enumerate(fold)
    ]
    return rows.groupBy(*_WHERE).agg(f.max("time").alias("time"), *slots)


def partial_rows(
    folds: Sequence[Fold], number: int, partition: int, partial: Partial
) -> pa.RecordBatch:
    """Rows of one fold and one partition.

    Raises:
        StateError: a number has more than 38 digits.
    """
    count = len(partial)
    found: dict[str, Any] = {
        "fold": pa.repeat(pa.scalar(number, pa.int32()), count),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "key": pa.array(list(partial.times), pa.binary()),
        "time": pa.array(list(partial.times.values()), pa.int64()),
    }
    for j, (slot, values) in enumerate(zip(folds[number], partial.columns(), strict=True)):
        found[column_of(number, j)] = _array(folds[number], slot, values)
    columns = columns_of(folds)
    arrays = [
        found[name] if name in found else pa.nulls(count, ARROW[of]) for name, of in columns.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _array(fold: Fold, slot: Slot, values: list[Any]) -> pa.Array:
    if slot.result is str:
        values = [None if value is None else value.encode() for value in values]
    try:
        return pa.array(values, ARROW[_sql_type(slot)])
    except pa.ArrowInvalid as error:
        raise _too_large(fold) from error


def _too_large(fold: Fold) -> StateError:
    return StateError(
        f"{fold.node.name}: a number of more than 38 digits, which Spark SQL cannot have: take a "
        "new checkpoint and aggregations='tasks'"
    )


def folded_rows(plan: SparkPlan, batches: Iterator[PartitionBatch]) -> Iterator[pa.RecordBatch]:
    """Partial aggregates as our own source gives them, with a column ``read``.

    It has the number of records read in one row, which has no key where there is nothing else.
    """
    folder, read = Folder(plan), 0
    for batch in batches:
        folder.take(batch)
        read += len(batch)
        for rows in folder.rows(at_end=False):
            yield with_read(rows, read)
            read = 0
    for rows in folder.rows(at_end=True):
        yield with_read(rows, read)
        read = 0
    if read:
        yield with_read(nothing(arrow_schema(columns_of(folder.folds))), read)


@attrs.frozen
class AggregateRows:
    """The map behind Spark's aggregation: aggregates in, rows of outputs out.

    ``columns`` are of ``schemas.OUTPUT``; None: rows packed for our own sink.

    Raises:
        StateError: when called, a number has outgrown Spark SQL.
        SerdeError: when called, a result cannot be written.
    """

    plan: SparkPlan
    columns: tuple[str, ...] | None

    @reported_rows
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode the results of one Spark partition."""
        app = resolve(self.plan.reference)
        folds, refused = (
            folds_of(app),
            RefusedTimes(self.plan.written, self.plan.inside, app.policy),
        )
        sender, sent = Sender(self.plan, len(self.plan.stages), "sql"), 0
        for rows in batches:
            for output in outputs_of(folds, rows):
                if self.columns is not None:
                    yield output_rows(output, self.columns)
                    continue
                taken = refused.of_aggregates(output)
                packed: list[Packed] = list(sender.rows([taken] if taken.keys else [], sent))
                sent += 1
                if packed:
                    yield packed_rows(packed)


def outputs_of(folds: Sequence[Fold], rows: pa.RecordBatch) -> Iterator[Output]:
    """The outputs written of aggregates.

    Raises:
        StateError: a number has outgrown Spark SQL.
        SerdeError: a result cannot be written.
    """
    for number, fold in enumerate(folds):
        own = rows if len(folds) == 1 else rows.filter(pc.equal(rows["fold"], number))
        if not own.num_rows:
            continue
        keys, times = own["key"].to_pylist(), own["time"].to_pylist()
        columns = [
            _read(fold, slot, own[column_of(number, j)].to_pylist()) for j, slot in enumerate(fold)
        ]
        values: list[Any] = columns[0]
        if fold.names is not None:
            values = [dict(zip(fold.names, row, strict=True)) for row in zip(*columns, strict=True)]
        kept = _encoded(fold, fold.value, values)
        for sink in fold.sinks:
            alike = sink.value is fold.value
            written = kept if alike else _encoded(fold, sink.value, values)
            yield Output(sink.topic, keys, written, times)


def _read(fold: Fold, slot: Slot, values: list[Any]) -> list[Any]:
    """Python's values of a column of results."""
    if slot.result is str:
        return [None if value is None else value.decode() for value in values]
    if slot.result is bytes or slot.kind == "count":
        return values
    if slot.kind == "sum" and any(value is None for value in values):
        raise _too_large(fold)
    return [None if value is None else int(value) for value in values]


def _encoded(fold: Fold, serde: Serde[Any], values: list[Any]) -> list[bytes | None]:
    """A result that no task could keep, or write, has no record to blame: the query ends."""
    try:
        return serde.encode_column(values)
    except ColumnError as failed:
        raise SerdeError(
            f"{fold.node.name}, by Spark SQL: {failed.cause}; aggregations='tasks' would say which "
            "record led to it, and meet its error policy"
        ) from failed
