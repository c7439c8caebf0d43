"""A query's progress as Prometheus sees it."""

from __future__ import annotations

from prometheus_client import generate_latest

from streamlet.spark.metrics import QueryMetrics
from streamlet.spark.progress import BatchProgress
from streamlet.spark.rows.task_reports import TaskReport
from streamlet.types import TopicPartition


def test_batches_add_up_and_the_last_one_says_lag_and_state() -> None:
    metrics = QueryMetrics("flights")
    metrics.batch(BatchProgress(batch=0, records=10, took_ms=2_000, lag=5, state_bytes=100))
    metrics.batch(BatchProgress(batch=1, records=5, took_ms=400, lag=0, state_bytes=120))
    told = generate_latest(metrics.registry).decode().splitlines()
    label = '{application="flights"}'
    assert f"streamlet_spark_records_total{label} 15.0" in told
    assert f"streamlet_spark_batch_seconds_sum{label} 2.4" in told
    assert f"streamlet_spark_batch_seconds_count{label} 2.0" in told
    assert f"streamlet_spark_lag{label} 0.0" in told
    assert f"streamlet_spark_state_bytes{label} 120.0" in told


def test_tasks_bear_the_names_that_native_ones_have() -> None:
    metrics = QueryMetrics("flights", readers={"lines": 0})
    report = TaskReport("0_1", 10, 20, 1, 2, 3, 0.5, 800)
    lags = {TopicPartition("lines", 1): 7, TopicPartition("of no task", 1): 9}
    for number in range(2):
        metrics.batch(BatchProgress(number, 10, 1_000, 16, 100, tasks=(report,), lags=lags))
    told = generate_latest(metrics.registry).decode().splitlines()
    task = '{application="flights",task="0_1"}'
    assert f"streamlet_stream_task_process_total{task} 20.0" in told
    assert f"streamlet_spark_task_written_total{task} 40.0" in told
    assert f"streamlet_stream_task_dropped_records_total{task} 2.0" in told
    assert f"streamlet_stream_task_late_records_total{task} 4.0" in told
    assert f"streamlet_stream_task_skipped_records_total{task} 6.0" in told
    assert f"streamlet_spark_task_seconds_total{task} 1.0" in told
    assert f"streamlet_spark_task_state_bytes{task} 800.0" in told
    lag = '{application="flights",partition="1",task="0_1",topic="lines"} 7.0'
    assert [line for line in told if line.startswith("streamlet_consumer_")] == [
        f"streamlet_consumer_fetch_manager_records_lag{lag}"
    ]


def test_a_task_without_state_has_no_size() -> None:
    metrics = QueryMetrics("flights")
    report = TaskReport("0_1", 10, 20, 0, 0, 0, 0.5)
    metrics.batch(BatchProgress(0, 10, 1_000, 0, 100, tasks=(report,)))
    assert "task_state_bytes{" not in generate_latest(metrics.registry).decode()


def test_it_is_ready_while_the_query_runs() -> None:
    metrics = QueryMetrics("flights")
    assert not metrics.ready()["ok"]
    metrics.running = True
    assert metrics.ready()["ok"]
