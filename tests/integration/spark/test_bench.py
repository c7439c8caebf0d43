"""The benchmark of Spark runs, checks its outputs and prints what is promised."""

from __future__ import annotations

import pytest

from tests.integration.test_bench import bench

pytestmark = [pytest.mark.spark, pytest.mark.integration]


def test_the_ways_to_count_in_spark_are_measured_and_right(bootstrap_servers: str) -> None:
    pytest.importorskip("pyspark")
    usual = ("passthrough", "native_count", "tws_per_key", "tasks")
    ways = (*usual, "latest_by_tasks", "latest_by_sql")
    options = ["--records", "20000", "--keys", "500", "--seconds", "0", "--ways", ",".join(ways)]
    found = bench(bootstrap_servers, "spark", *options)
    assert set(found) == {*ways, "latency_ms", "right"}
    assert min(found[way] for way in ways) > 0
    assert found["latency_ms"] == {"p50": None, "p99": None}
    assert found["right"] is True
