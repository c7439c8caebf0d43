"""What Spark reports of a batch, in our words."""

from __future__ import annotations

import pytest

from streamlet.spark.progress import OBSERVED, BatchProgress
from streamlet.spark.rows.task_reports import OBSERVED_TASKS, TaskReport
from streamlet.types import TopicPartition

REPORT = {
    "batchId": 7,
    "numInputRows": 500,
    "durationMs": {"addBatch": 180, "triggerExecution": 250},
    "sources": [
        {
            "endOffset": {"lines": {"0": 10, "1": 20}},
            "latestOffset": {"lines": {"0": 15, "1": 20}},
        },
        {"endOffset": '{"airlines": {"0": 1}}', "latestOffset": '{"airlines": {"0": 3}}'},
        {"endOffset": {"logOffset": 3}, "latestOffset": None},
    ],
    "stateOperators": [
        {"memoryUsedBytes": 100, "customMetrics": {"rocksdbSstFileSize": 11}},
        {"memoryUsedBytes": 1},
    ],
}


def test_a_batch_says_its_rate_its_lag_and_what_state_takes() -> None:
    found = BatchProgress.of(REPORT)
    lags = {("lines", 0): 5, ("lines", 1): 0, ("airlines", 0): 2}
    by_partition = {TopicPartition(*where): lag for where, lag in lags.items()}
    assert found == BatchProgress(7, 500, 250, lag=7, state_bytes=112, lags=by_partition)
    assert found.records_per_second == 2_000


def test_the_lag_of_a_batch_that_was_planned_before_is_asked_for() -> None:
    sources = [{"endOffset": {"lines": {"0": 10}, "#ids": {"lines": "abc"}}, "latestOffset": None}]
    report = REPORT | {"sources": sources}
    where = TopicPartition("lines", 0)
    found = BatchProgress.of(report, lambda partitions: dict.fromkeys(partitions, 17))
    assert (found.lag, found.lags) == (7, {where: 7})
    assert BatchProgress.of(report).lag == 0
    known = BatchProgress.of(REPORT, lambda _: pytest.fail("Spark has asked"))
    assert known.lag == 7


def test_each_task_reports_once_however_often_spark_ran_it() -> None:
    """Tasks with state by their last report, those without by the sum of their parts."""

    def texts(*reports: TaskReport) -> dict[str, list[str]]:
        return {"tasks": [report.row().records.decode() for report in reports]}

    mapped = TaskReport("0_1", 10, 20, 1, 0, 2, 0.5)
    again, kept = (TaskReport("1_0", 30, 3, 0, 4, 0, took, 800) for took in (0.25, 0.75))
    observed = {
        f"{OBSERVED_TASKS}a:app:map": texts(mapped, mapped),
        f"{OBSERVED_TASKS}a:app:0": texts(again, kept),
        f"{OBSERVED_TASKS}a:app:1": {"tasks": None},
    }
    found = BatchProgress.of(REPORT | {"observedMetrics": observed})
    assert found.tasks == (TaskReport("0_1", 20, 40, 2, 0, 4, 1.0), kept)
    assert found.records == 500


def test_rows_that_are_many_records_say_how_many() -> None:
    def records(*counts: int | None) -> int:
        observed = {f"{OBSERVED}app{i}": {"records": count} for i, count in enumerate(counts)}
        others = {"mine": {"records": 5}}
        return BatchProgress.of(REPORT | {"observedMetrics": observed | others}).records

    assert records() == 500
    assert records(70_000) == 70_000
    assert records(1_000, 20) == 1_020
    assert records(None) == 0  # a batch without rows has no sum


def test_a_batch_that_took_no_time_has_no_rate() -> None:
    assert BatchProgress.of(REPORT | {"durationMs": {}}).records_per_second == 0
