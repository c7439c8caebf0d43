"""What Spark reports of a batch, in our words."""

from __future__ import annotations

from streamlet.spark.progress import OBSERVED, BatchProgress

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
    assert found == BatchProgress(batch=7, records=500, took_ms=250, lag=7, state_bytes=112)
    assert found.records_per_second == 2_000


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
