"""Stores that are opened beside tasks that run, which do not wait for all of them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from streamlet.types import TaskId
from tests.unit.tasks.test_activation import Bench, Warm


@pytest.mark.parametrize("runs", [True, False], ids=["beside tasks that run", "alone"])
def test_tasks_that_run_go_on_between_two_parts_of_the_opening(tmp_path: Path, runs: bool) -> None:
    copies = Warm()
    copies.wanted, copies.has_actives = frozenset(), runs
    bench = Bench(tmp_path, copies, partitions=6, opening_ms=8)
    bench.admin.answers.set()
    for partition in range(6):
        bench.activation.want(TaskId(0, partition))
    opened, deadline = [0], time.monotonic() + 300
    while opened[-1] < 6:
        assert time.monotonic() < deadline
        assert bench.activation.step() == []
        if len(copies.restoring) > opened[-1]:
            opened.append(len(copies.restoring))
    assert opened == ([0, 3, 6] if runs else [0, 6])
    for one in copies.restoring:
        one.close()
    bench.activation.close()
