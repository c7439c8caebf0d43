"""Spark's settings that one query has for itself, beside those of its session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from streamlet.logs import get_logger
from streamlet.spark.checkpoint import facts_file
from streamlet.spark.kafka.placement import shuffle_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamlet.spark.plan.plan import SparkPlan
    from streamlet.spark.plan.prepare import Prepared

SHUFFLE: Final = "spark.sql.shuffle.partitions"

#: So many times the shuffle partitions that do are worth a warning.
_MANY: Final = 4

log = get_logger(__name__)

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"

#: A batch writes a file for each shuffle partition and two more, in one piece. Without Hadoop's
#: native library, which does not come with PySpark, Spark's usual way to do so on a local disk
#: starts some ten processes for each file (``readlink``, ``chmod``), this one two. Both write under
#: another name and rename; neither waits for the disk.
_LOCAL_FILES = {
    MANAGER: "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
}


def of_query(
    spark: SparkSession, ready: Prepared, checkpoint: str, given: int | None = None
) -> dict[str, str]:
    """Settings that fit a query's tasks and checkpoint; ``given`` shuffle partitions, if any."""
    tasks = max((len(stage.tasks) for stage in ready.plan.stages), default=1)
    # Spark SQL's state lies by key, over as many as there are cores.
    cores = spark.sparkContext.defaultParallelism
    number = given or (cores if ready.folds else spread_over(spark, tasks))
    local = facts_file(spark, checkpoint).local
    return {SHUFFLE: str(number), **({} if local is None else local_files(spark))}


def spread_over(spark: SparkSession, tasks: int) -> int:
    """The number of shuffle partitions for so many tasks, by the session's cores.

    A session of Spark Connect does not say how many it has: there the session's own number is
    taken, at most one for each task.
    """
    if hasattr(spark, "_jvm"):
        return shuffle_partitions(tasks, spark.sparkContext.defaultParallelism)
    return max(1, min(tasks, int(spark.conf.get(SHUFFLE) or 1)))


def warn_of_many(spark: SparkSession, plan: SparkPlan, rows: DataFrame) -> None:
    """Warn where a stream's session has many more shuffle partitions than tasks can use.

    Each starts a state store and a Python process in each micro-batch, with records or without.
    A DataFrame takes the number from its session when the query starts, so it is the user's to set.
    """
    if not (rows.isStreaming and plan.stages):
        return
    tasks = max(len(stage.tasks) for stage in plan.stages)
    number, enough = int(spark.conf.get(SHUFFLE) or 1), spread_over(spark, tasks)
    if number > _MANY * enough:
        log.warning(
            "%s is %d; %d are enough for %d tasks, and each costs time in each micro-batch. "
            'Before the query starts first, call spark.conf.set("%s", %d); a checkpoint keeps its '
            "number",
            *(SHUFFLE, number, enough, tasks, SHUFFLE, enough),
        )


def local_files(spark: SparkSession) -> Mapping[str, str]:
    """Settings for a checkpoint on a local disk; none if the session has chosen its own manager."""
    return {} if spark.conf.get(MANAGER, "") else _LOCAL_FILES


@contextmanager
def settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Start a query with settings of its own; it copies the session's when it starts."""
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, was in before.items():
            if was is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, was)
