"""The benchmarks of Spark run, check their outputs and print what is promised."""

from __future__ import annotations

import pytest

from tests.integration.test_bench import bench

pytestmark = [pytest.mark.spark, pytest.mark.integration]

#: Those that all figures are made of, and others, which only are further queries.
WAYS = ("passthrough", "tws_per_key", "tasks")
MORE = ("native_count", "latest_by_tasks", "latest_by_sql")


@pytest.mark.parametrize(
    "ways", [WAYS, pytest.param((*WAYS, *MORE), marks=pytest.mark.long)], ids=["three", "all"]
)
def test_the_ways_to_count_in_spark_are_measured_and_right(
    bootstrap_servers: str, ways: tuple[str, ...]
) -> None:
    pytest.importorskip("pyspark")
    options = ["--records", "3000", "--keys", "50", "--seconds", "0", "--ways", ",".join(ways)]
    # More small batches than are measured, three of the middle size, and two large ones.
    few = ("--batches", "100,1000,1500", "--counted", "3")
    found = bench(bootstrap_servers, "spark", *options, *few)
    ratios = {"tasks_to_passthrough", "tasks_to_tws_per_key"}
    assert set(found) == {*ways, *ratios, "fit", "batches", "latency_ms", "right"}
    assert set(found["fit"]) == {"passthrough", "tasks"}
    assert found["fit"]["tasks"]["batch_ms"] > 0
    assert min(found[ratio] for ratio in ratios) > 0
    assert min(found[way] for way in ways) > 0
    assert found["latency_ms"] == {"p50": None, "p99": None}
    assert found["right"] is True


def test_batches_of_few_changes_are_measured_by_size_and_cores(bootstrap_servers: str) -> None:
    pytest.importorskip("pyspark")
    options = ["--cores", "2", "--sizes", "100,4000", "--changes", "10,200", "--counted", "3"]
    found = bench(bootstrap_servers, "spark-state", *options)
    assert set(found) == {"value_bytes", "cores_2"}
    value_bytes = found["value_bytes"]
    measured = found["cores_2"]
    assert set(measured) == {"changes_10", "changes_200", "python_mb"}
    assert measured["python_mb"] > 0
    # Where fewer keys are there than are to be changed, nothing is measured.
    assert set(measured["changes_10"]) == {"keys_100", "keys_4000", "ratio"}
    assert set(measured["changes_200"]) == {"keys_4000", "ratio"}
    assert measured["changes_10"]["ratio"] > 0
    for changes in (10, 200):
        figures = measured[f"changes_{changes}"]["keys_4000"]
        assert figures["batch_ms"] > 0
        assert figures["bytes"] > changes * value_bytes
        assert figures["read_entries"] >= changes / 10
        # What is read is bounded by the changes, not by the table.
        assert figures["read_bytes"] < changes * value_bytes * 20
    # Ten changes of 4,000 do not have the table written again, whichever tasks they are of.
    assert measured["changes_10"]["keys_4000"]["most_bytes"] < 4_000 * value_bytes / 4
