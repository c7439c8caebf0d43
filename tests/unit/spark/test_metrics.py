"""A query's progress as Prometheus sees it."""

from __future__ import annotations

from prometheus_client import generate_latest

from streamlet.spark.metrics import QueryMetrics
from streamlet.spark.progress import BatchProgress


def test_batches_add_up_and_the_last_one_says_lag_and_state() -> None:
    metrics = QueryMetrics("flights")
    metrics.batch(BatchProgress(batch=0, records=10, took_ms=2_000, lag=5, state_bytes=100))
    metrics.batch(BatchProgress(batch=1, records=5, took_ms=400, lag=0, state_bytes=120))
    told = generate_latest(metrics.registry()).decode().splitlines()
    label = '{application="flights"}'
    assert f"streamlet_spark_records_total{label} 15.0" in told
    assert f"streamlet_spark_batch_seconds_sum{label} 2.4" in told
    assert f"streamlet_spark_batch_seconds_count{label} 2.0" in told
    assert f"streamlet_spark_lag{label} 0.0" in told
    assert f"streamlet_spark_state_bytes{label} 120.0" in told


def test_it_is_ready_while_the_query_runs() -> None:
    metrics = QueryMetrics("flights")
    assert not metrics.ready()["ok"]
    metrics.running = True
    assert metrics.ready()["ok"]
