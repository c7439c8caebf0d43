"""Records that wait for others at ``map_batches``: how many, how long, commits, failures."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamlet as sl
from streamlet.clock import ManualClock
from streamlet.dsl.stream import KStream
from streamlet.processing.task import Task
from streamlet.processing.task_calls import TaskCalls
from tests.unit.processing.answers import IN, Answers, calling, raw, values
from tests.unit.runtime.members import wait_for

WAIT_MS = 100


class Capitals:
    """A function of batches that notes the values of each call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, batch: sl.RecordBatch[str, str]) -> list[str]:
        self.calls.append(list(batch.values))
        if "bad" in batch.values:
            raise sl.FailedAt(batch.values.index("bad"))
        return [value.upper() for value in batch.values]


def gathering(answer: Any = "fail", most: int = 3) -> tuple[Capitals, ManualClock, Task, TaskCalls]:
    """A task whose records wait for others, by a clock of the test."""
    function, clock = Capitals(), ManualClock(10_000)
    task = calling(
        lambda stream: stream.map_batches(
            function, max_records=most, max_wait=WAIT_MS, value=str
        ).to("out"),
        answer,
    )
    calls = task.calls
    assert calls is not None
    calls._clock = clock
    (records,) = calls._operators
    records._clock = clock
    return function, clock, task, calls


def of(*some: str, first: int = 0) -> Any:
    return raw([("k", value) for value in some], first=first)


def test_records_wait_until_there_are_enough_and_no_longer_than_they_may() -> None:
    function, clock, task, calls = gathering()
    assert values(task.process(of("a", "b"))) == []
    assert (calls.in_flight, task.under_way, calls.running) == (2, True, False)
    assert values(task.process(of("c", "d", first=2))) == ["A", "B", "C"]
    clock.advance(WAIT_MS - 1)
    assert not task.waits(0)
    clock.advance(1)
    assert task.waits(0)
    assert values(task.resume(0)) == ["D"]
    assert function.calls == [["a", "b", "c"], ["d"]]
    assert (calls.in_flight, task.under_way, task.positions) == (0, False, {IN: 4})


def test_a_commit_empties_the_batch_first() -> None:
    _, _, task, calls = gathering()
    task.process(of("a"))
    assert (calls.can_commit(), calls.before(task.positions)) == (False, {IN: 0})
    assert values(task.resume(0)) == ["A"]
    assert (calls.can_commit(), task.commit_requested) == (True, True)
    assert values(task.process(of("b", first=1))) == []  # the commit comes first
    assert task.positions == {IN: 1}
    assert (task.settle(), calls.shut) == ([], False)
    task.resume(0)
    assert calls.in_flight == 1


def test_a_task_that_must_stop_takes_what_waits_along() -> None:
    _, _, task, _ = gathering()
    task.process(of("a", "b"))
    assert values(task.settle()) == ["A", "B"]
    assert (task.under_way, task.positions) == (False, {IN: 2})


@pytest.mark.parametrize("answer", ["skip", ("dead_letter", "dead")])
def test_a_record_that_fails_meets_the_policy_as_it_was_read(answer: Any) -> None:
    _, _, task, _ = gathering(answer)
    task.process(of("a"))
    task.process(of("bad", first=1))
    outputs = task.process(of("c", first=2))
    assert values(outputs) == ["A", "C"]
    assert task.counters.skipped == 1
    letters = [out for out in outputs if out.topic == "dead"]
    assert [out.values for out in letters] == ([[b"bad"]] if answer != "skip" else [])


def test_results_of_calls_keep_their_records_for_dead_letters_in_any_order() -> None:
    answers = Answers()

    def checked(batch: sl.RecordBatch[str, str]) -> list[str]:
        if "BAD" in batch.values:
            raise sl.FailedAt(batch.values.index("BAD"))
        return batch.values

    def build(stream: KStream[str, str]) -> None:
        called = stream.map_values_async(answers, value=str)
        called.map_batches(checked, max_records=4, max_wait="1 h", value=str).to("out")

    task = calling(build, ("dead_letter", "dead"))
    for place, value in enumerate(("bad", "b", "c")):
        task.process(raw([(value, value)], first=place))
    assert task.calls is not None
    pool = task.calls._calling[0]._pool

    def end(value: str, ended: int = 1) -> None:
        answers.give(value)
        wait_for(lambda: len(pool.ended) == ended, f"the call for {value}")

    for number, value in enumerate(("c", "b", "bad"), 1):
        end(value, number)
    task.resume(0)  # the batch has the three in the order in which their calls ended
    task.process(raw([("d", "d")], first=3))
    end("d")
    (letter,) = [out for out in task.resume(0) if out.topic == "dead"]
    assert (letter.keys, letter.values) == ([b"bad"], [b"bad"])


@given(st.lists(st.integers(1, 5), max_size=12), st.integers(1, 6), st.sets(st.integers(0, 20)))
def test_each_record_comes_out_once_in_order(sizes: list[int], most: int, bad: set[int]) -> None:
    """Commits, time and records come in between; some records fail."""
    _, clock, task, calls = gathering("skip", most)
    got, first = [], 0
    for turn, size in enumerate(sizes):
        some = ["bad" if n in bad else f"v{n}" for n in range(first, first + size)]
        got += values(task.process(of(*some, first=first)))
        first += size
        assert calls.in_flight < most + 5
        if turn % 3 == 0:
            clock.advance(WAIT_MS)
        if turn % 4 == 1 and not calls.can_commit():
            got += values(task.resume(0))
            assert calls.can_commit()
            got += values(task.settle())
    got += values(task.settle())
    assert got == [f"V{n}" for n in range(first) if n not in bad]
    assert task.positions.get(IN, 0) == first
