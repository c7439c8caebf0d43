"""Stream time that jumps: each window that closes has its result, or it is counted and said."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import streamlet as sl
from streamlet.testing import TopologyTestDriver
from tests.unit.dsl.window_tasks import WindowTask

MINUTE = 60_000
RECORDS = [("a", 10_000), ("b", 15_000), ("a", 20_000)]

WINDOWS: dict[str, Any] = {
    "tumbling": sl.tumbling("1m"),
    "tumbling with grace": sl.tumbling("1m", grace="10s"),
    "hopping": sl.hopping("1m", "20s"),
    "hopping with grace": sl.hopping("1m", "20s", grace="30s"),
    "sliding": sl.sliding("1m"),
    "sliding with grace": sl.sliding("1m", grace="10s"),
    "session": sl.session("1m"),
    "session with grace": sl.session("1m", grace="10s"),
}


def results(windows: Any, jump: int, how: str = "final") -> dict[tuple[str, int, int], int]:
    app = sl.App("a")
    grouped = app.stream("in", key=str, value=str).group_by_key()
    if how == "final":
        table = grouped.windowed_by(windows, emit="final").count()
    else:
        table = grouped.windowed_by(windows).count().suppress(sl.until_window_closes())
    table.to_stream().to("out")
    with TopologyTestDriver(app, start_ms=0) as driver:
        for key, time in [*RECORDS, ("c", jump)]:
            driver.pipe_input("in", key, "v", time)
        found = driver.read_output("out")
        assert (driver.dropped(), driver.late()) == (0, 0)
    return {(r.key.key, r.key.start, r.key.end): r.value for r in found}


@pytest.mark.parametrize("how", ["final", "suppress"])
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_windows_give_their_results_however_far_stream_time_jumps(windows: Any, how: str) -> None:
    # With so small a step nothing has expired.
    near = results(windows, windows.closed_at(20_000), how)
    near = {window: n for window, n in near.items() if window[0] != "c"}
    assert near
    for jump in (2 * MINUTE + 10_000, 3 * MINUTE, 24 * 60 * MINUTE, 400 * 24 * 60 * MINUTE):
        found = results(windows, jump, how)
        assert {w: n for w, n in found.items() if w[0] != "c"} == near


@pytest.mark.parametrize("name", ["tumbling", "hopping", "sliding"])
def test_results_that_a_given_retention_loses_are_counted_and_said_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    windows = WINDOWS[name]
    app = sl.App("a")
    kept = sl.Materialized("counts", retention=windows.kept_ms)
    grouped = app.stream("in", key=str, value=str).group_by_key()
    grouped.windowed_by(windows, emit="final").count(store=kept).to_stream().to("out")
    near = results(windows, windows.closed_at(20_000))
    lost = sum(1 for key, _, _ in near if key != "c")
    with caplog.at_level(logging.WARNING), TopologyTestDriver(app, start_ms=0) as driver:
        for key, time in RECORDS:
            driver.pipe_input("in", key, "v", time)
        driver.pipe_input("in", "c", "v", timestamp_ms=24 * 60 * MINUTE)
        assert driver.read_output("out") == []
        assert driver.dropped() == lost
        driver.pipe_input("in", "c", "v", timestamp_ms=48 * 60 * MINUTE)
        assert driver.dropped() > lost
    said = [one.getMessage() for one in caplog.records if "are lost" in one.getMessage()]
    assert len(said) == 1
    assert "store counts" in said[0]
    assert "retention=" in said[0]


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_windows_wait_through_commits_and_restarts(windows: Any, tmp_path: Any) -> None:
    """Rows that are still to be sent are neither deleted by commits nor unknown to a new owner."""
    task = WindowTask(windows, tmp_path, emit="final")
    assert task.send([("a", 10_000), ("b", 15_000)]) == []
    task.commit()
    task.restart()
    found = task.send([("a", 24 * 60 * MINUTE)])
    assert {row[0] for row in found} == {"a", "b"}
    task.commit()
    assert {row[0] for row in task.send([("a", 48 * 60 * MINUTE)])} <= {"a"}
    task.close()
