"""The operators of a plan as DataFrames: the map in front, the stages, unpacking behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamlet.spark.plan.folds import Fold
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.query_settings import spread_over
from streamlet.spark.rows.schemas import PACKED_SCHEMA, output_schema
from streamlet.spark.rows.task_reports import observed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamlet.spark.state.processor import Options


def assemble(
    plan: SparkPlan, source: DataFrame, options: Options, columns: tuple[str, ...]
) -> DataFrame:
    """A whole plan over a source that has a row for each record; of what is written these columns.

    Args:
        plan: of the query.
        source: with Kafka's columns.
        options: how stages run.
        columns: of ``schemas.OUTPUT``.
    """
    from streamlet.spark.rows.columns import source_columns
    from streamlet.spark.rows.tasks import MapTasks, Pack

    rows = source_columns(source)
    if not plan.stages:
        return rows.mapInArrow(MapTasks(plan, columns), output_schema(columns))
    packed = rows.mapInArrow(Pack(plan), PACKED_SCHEMA)
    return unpacked(staged(plan, packed, options), columns)


def staged(plan: SparkPlan, packed: DataFrame, options: Options) -> DataFrame:
    """The stages of a plan over rows of ``schemas.PACKED``; what comes out is of it, too.

    What the tasks report is in Spark's progress, and no longer among the rows.
    """
    if plan.mapped:
        packed = observed(packed, f"{plan.reference}:map")
    run = _batch_by_batch if packed.isStreaming else _at_once
    for stage in range(len(plan.stages)):
        packed = observed(run(plan, stage, packed, options), f"{plan.reference}:{stage}")
    return packed


def _batch_by_batch(plan: SparkPlan, stage: int, packed: DataFrame, options: Options) -> DataFrame:
    """A stage whose state Spark keeps from batch to batch."""
    from streamlet.spark.state.processor import StageProcessor

    return packed.groupBy("group").transformWithState(
        statefulProcessor=StageProcessor(plan, stage, options),
        outputStructType=PACKED_SCHEMA,
        outputMode="Update",
        timeMode="None",
    )


def _at_once(plan: SparkPlan, stage: int, packed: DataFrame, options: Options) -> DataFrame:
    """A stage over bounded data: no batch comes after this one, so no state is kept.

    It has as many shuffle partitions as its tasks keep busy. ``transformWithState`` would have the
    session's, by default 200, and each starts a store and a Python worker, with rows or without.
    """
    from streamlet.spark.state.bounded import BoundedStage

    number = spread_over(packed.sparkSession, len(plan.stages[stage].tasks))
    tasks = packed.repartition(number, "group").sortWithinPartitions("group")
    return tasks.mapInArrow(BoundedStage(plan, stage, options), PACKED_SCHEMA)


def unpacked(packed: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """A row for each record, with these columns of ``schemas.OUTPUT``."""
    from streamlet.spark.rows.tasks import Unpack

    return packed.mapInArrow(Unpack(columns), output_schema(columns))


def partials(plan: SparkPlan, folds: Sequence[Fold], source: DataFrame) -> DataFrame:
    """Partial aggregates of a source that has a row for each record."""
    from streamlet.spark.rows.aggregate_rows import partial_schema
    from streamlet.spark.rows.columns import source_columns
    from streamlet.spark.rows.folding import FoldRows

    return source_columns(source).mapInArrow(FoldRows(plan), partial_schema(folds))


def folded(
    plan: SparkPlan, folds: Sequence[Fold], rows: DataFrame, columns: tuple[str, ...] | None
) -> DataFrame:
    """The frame of partial aggregates; columns as of ``aggregate_rows.AggregateRows``."""
    from streamlet.spark.rows.aggregate_rows import AggregateRows, aggregated

    schema = PACKED_SCHEMA if columns is None else output_schema(columns)
    return aggregated(rows, folds).mapInArrow(AggregateRows(plan, columns), schema)
