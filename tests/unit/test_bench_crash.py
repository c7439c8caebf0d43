"""What the benchmark of crashes makes of changes of writers, and how runs are put together."""

from __future__ import annotations

from bench.crash import Crashes, Kill, result_of, waits_of
from bench.handover_gaps import Move


def test_a_task_waits_until_another_process_writes_it() -> None:
    """What the process gave up before it was killed does not count, nor what others do."""
    moves = [Move(0, 1, 2, 80, 90), Move(1, 1, 2, 99, 140), Move(2, 1, 3, 95, 150)]
    assert waits_of(Kill(1, 100, 2), [*moves, Move(3, 2, 1, 99, 130)]) == [40, 50]


def crashes(*waits: list[int], lost: int = 0, wrong: str = "") -> Crashes:
    return Crashes(list(waits), [3] * len(waits), lost, 1, [wrong] if wrong else [])


def test_each_task_counts_and_of_each_kill_the_last_one() -> None:
    found = result_of([crashes([10, 30], [20, 40]), crashes([50])])
    assert found == {
        "kills": 3,
        "again_ms": {"p50": 30, "p99": 50, "max": 50},
        "all_again_ms": {"p50": 40, "p99": 50, "max": 50},
        "machine_stall_ms": {"p50": 3, "p99": 3, "max": 3},
        "lost": 0,
        "duplicates": 2,
        "right": True,
    }


def test_a_loss_or_a_task_that_did_not_come_back_is_wrong() -> None:
    assert result_of([crashes([1]), crashes([1], lost=1)])["right"] is False
    assert result_of([crashes([1]), crashes([], wrong="0 of 4 tasks")])["right"] is False
