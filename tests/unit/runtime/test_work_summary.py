"""What a worker's log says of its work now and then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamlet.clock import ManualClock
from streamlet.runtime.worker_status import WorkSummary
from streamlet.tasks.meters import Meters


def summary(every_ms: int) -> tuple[WorkSummary, ManualClock, Meters, Any]:
    clock = ManualClock()
    meters = Meters(clock)
    task = SimpleNamespace(processor=SimpleNamespace(counters=SimpleNamespace(records=0)))
    registry = SimpleNamespace(tasks={"0_0": task})
    return WorkSummary(every_ms, clock, meters, cast(Any, registry)), clock, meters, registry


def test_a_line_tells_of_what_came_since_the_line_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    lines, clock, meters, registry = summary(60_000)
    registry.tasks["0_0"].processor.counters.records = 70
    meters.commit.add(0.01, 3)
    clock.advance(59_999)
    lines.step()
    assert caplog.messages == []
    clock.advance(1)
    lines.step()
    lines.step()
    del registry.tasks["0_0"]
    meters.processed_before = 75
    clock.advance(61_000)
    lines.step()
    assert caplog.messages == [
        "processed 70 records and committed 3 times in 60 s; running: 1 task",
        "processed 5 records and committed 0 times in 61 s; running: 0 tasks",
    ]


def test_below_zero_there_is_none(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    lines, clock, _, _ = summary(-1)
    clock.advance(10**9)
    lines.step()
    assert caplog.messages == []
