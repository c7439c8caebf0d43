"""What the benchmark of a scale-down finds wrong, and how runs are put together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bench.handover_gaps import Silence
from bench.scale_down import WARM_RUNS, Run, result_of, wrong_members


def instances(*shares: int, said: str = "") -> list[Any]:
    return [SimpleNamespace(tasks=frozenset(map(str, range(n))), said=[said]) for n in shares]


def test_four_that_left_well_and_four_in_band_are_right() -> None:
    assert wrong_members(instances(0, 0, 0, 0), [0] * 4, instances(7, 8, 8, 9)) == []


def test_what_is_wrong_is_named() -> None:
    found = wrong_members(
        instances(0, 0, 0),
        [0, 1, 0],
        instances(6, 8, 8, 10, said="0_1 is restored without its copy"),
    )
    assert found == [
        "3 left",
        "leavers ended with [0, 1, 0]",
        "not in band: [6, 8, 8, 10]",
        "4 tasks were taken over without a copy",
    ]


def run(gap: int, *, seconds: float = 4.0, lost: int = 0, wrong: str = "") -> Run:
    silence = Silence(40 + gap, 40)
    others = [Silence(40, 40)]
    return Run([silence], others, [gap], seconds, [8] * 4, lost, 0, [wrong] if wrong else [])


def test_the_first_runs_do_not_count_unless_one_is_wrong() -> None:
    warm = [run(500, seconds=9)] * WARM_RUNS
    found = result_of([*warm, run(10), run(20)], 6_000)
    assert (found["runs"], found["moved"], found["right"]) == (2, 2, True)
    assert found["gap_ms"] == {"p50": 10, "p99": 20, "max": 20}
    assert found["machine_stall_ms"] == {"p50": 10, "p99": 20, "max": 20}
    assert found["seconds"] == {"p50": 4.0, "max": 4.0}
    for first in (run(0, lost=1), run(0, wrong="3 left")):
        assert result_of([first, *warm[1:], run(0)], 6_000)["right"] is False
