"""What the demo makes of the instances' logs and of the times of results."""

from __future__ import annotations

import json
from pathlib import Path

from examples.flights.handovers import Arrivals, Handovers, Silence


def say(log: Path, at_ms: int, message: str) -> None:
    with log.open("a") as file:
        file.write(json.dumps({"at_ms": at_ms, "message": message}) + "\n")


def test_a_silence_is_found_and_compared_with_those_before() -> None:
    arrivals = Arrivals()
    for at_ms in [*range(0, 12_000, 10), *range(12_070, 20_000, 10)]:
        arrivals.tell("out", 0, at_ms)
    assert arrivals.around(("out", 0), 12_000) == Silence(80, 10)
    assert arrivals.around(("out", 0), 16_000) == Silence(10, 10)
    assert arrivals.around(("out", 0), 19_999) is None, "nothing came after it"


def test_moves_are_told_once_both_sides_know_and_measured_where_their_tasks_write(
    tmp_path: Path,
) -> None:
    a, b = tmp_path / "a.log", tmp_path / "b.log"
    a.write_text("not a line of the log\n")
    handovers = Handovers({2: "out"})
    say(b, 11_000, "generation 6: active 1_0, learner 2_0")
    assert handovers.read({"a": a, "b": b}) == ["b learns 2_0"]
    say(b, 12_010, "generation 7: active 1_0, pending 2_0")
    assert handovers.read({"a": a, "b": b}) == []
    say(a, 12_000, "generation 7: active 2_1, release 2_0")
    assert handovers.read({"a": a, "b": b}) == ["2_0 is warm and goes from a to b"]
    arrivals = Arrivals()
    for at_ms in [*range(0, 12_000, 10), *range(12_070, 20_000, 10)]:
        arrivals.tell("out", 0, at_ms)
        arrivals.tell("out", 1, at_ms // 20 * 20)
    assert handovers.report(arrivals) == [
        "1 tasks were handed over; the longest time without a result then:",
        "  2_0 from a to b: 80 ms, usually 10 ms",
        "  tasks that stayed: up to 80 ms, usually 20 ms",
    ]
