"""The benchmark of crashes runs, checks its outputs and prints what is promised."""

from __future__ import annotations

import pytest

from tests.integration.test_bench import bench

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_crashes_are_measured_and_nothing_is_lost(bootstrap_servers: str) -> None:
    found = bench(
        bootstrap_servers, "crash", "--kills", "1", "--rate", "500", "--crashes", "static"
    )
    assert found["right"] is True
    assert {*found} == {"workload", "right", "static"}
    assert (found["static"]["kills"], found["static"]["lost"]) == (1, 0)
    assert found["static"]["again_ms"]["p50"] > 0
