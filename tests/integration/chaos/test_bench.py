"""The benchmark of crashes runs, checks its outputs and prints what is promised."""

from __future__ import annotations

import pytest

from tests.integration.test_bench import bench

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_crashes_are_measured_and_nothing_is_lost(bootstrap_servers: str) -> None:
    ways = ["dynamic", "static"]
    options = ["--kills", "1", "--rate", "500", "--crashes", ",".join(ways)]
    found = bench(bootstrap_servers, "crash", *options)
    assert found["right"] is True
    assert {*found} == {"workload", "right", *ways}
    for way in ways:
        assert (found[way]["kills"], found[way]["lost"]) == (1, 0)
        assert found[way]["again_ms"]["p50"] > 0
