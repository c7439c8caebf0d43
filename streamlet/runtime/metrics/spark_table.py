"""The metrics of a query on Spark, as ``table`` has those of native instances.

What means the same bears the same name there and here.
"""

from __future__ import annotations

from streamlet.runtime.metrics.metric import Metric, counter, gauge, histogram
from streamlet.runtime.metrics.table import METRICS

#: Of the query; their only label is ``application``.
SPARK: tuple[Metric, ...] = (
    counter("streamlet_spark_records_total", "Records read by micro-batches that count"),
    histogram("streamlet_spark_batch_seconds", "What micro-batches took, all of it"),
    gauge("streamlet_spark_lag", "Records in Kafka behind the last micro-batch"),
    gauge(
        "streamlet_spark_state_bytes", "What state takes in Spark's stores, on disk and in memory"
    ),
)

#: By field of ``spark.rows.task_reports.TaskReport``: what each task did in the micro-batches that
#: count.
SPARK_TASKS: dict[str, Metric] = {
    "records": counter(
        "streamlet_stream_task_process_total",
        "Records processed by a task since the query began",
        ("task",),
    ),
    "written": counter(
        "streamlet_spark_task_written_total",
        "Records that a task wrote, to topics and to other tasks",
        ("task",),
    ),
    "dropped": counter(
        "streamlet_stream_task_dropped_records_total",
        "Records left out by rule since the query began",
        ("task",),
    ),
    "late": METRICS["streamlet_stream_task_late_records_total"],
    "skipped": counter(
        "streamlet_stream_task_skipped_records_total",
        "Records left out by the error policy since the query began",
        ("task",),
    ),
    "seconds": counter(
        "streamlet_spark_task_seconds_total",
        "Seconds from a task's first record of a micro-batch until its state was kept",
        ("task",),
    ),
    "state_bytes": gauge(
        "streamlet_spark_task_state_bytes",
        "Keys and values that a task keeps, replaced ones that no merge has dropped yet included",
        ("task",),
    ),
}

#: Of each partition that is read.
SPARK_LAG = METRICS["streamlet_consumer_fetch_manager_records_lag"]

#: Bounds of a micro-batch's time, seconds.
SPARK_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
