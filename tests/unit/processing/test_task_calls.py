"""A task with calls of async functions: order, positions, failures, bounds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamlet as sl
from streamlet.clock import ManualClock
from streamlet.dsl.stream import KStream
from streamlet.errors import ProcessingError
from streamlet.processing import task_calls
from streamlet.processing.task import Task
from streamlet.processing.task_calls import TaskCalls
from tests.unit.processing.answers import IN, Answers, calling, come, raw, values
from tests.unit.runtime.members import wait_for

ABAB = [("a", "a1"), ("b", "b1"), ("a", "a2"), ("b", "b2")]
ALL = [value for _, value in ABAB]


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No call outlives its test."""
    tasks: list[Task] = []
    made = Task.__init__

    def noted(task: Task, *arguments: Any, **more: Any) -> None:
        made(task, *arguments, **more)
        tasks.append(task)

    monkeypatch.setattr(Task, "__init__", noted)
    yield
    for task in tasks:
        task.close()


def called(answers: Callable[[str], Any], answer: Any = "fail", **options: Any) -> Task:
    """A task that writes what the calls return."""

    def build(stream: KStream[str, str]) -> None:
        stream.map_values_async(answers, value=str, **options).to("out")

    return calling(build, answer)


def test_calls_of_a_key_wait_for_each_other_and_for_no_other_key() -> None:
    answers = Answers()
    task = called(answers)
    assert values(task.process(raw(ABAB))) == []
    answers.await_calls("a1", "b1")
    answers.give("b1", "b2")
    assert come(task, 2) == ["B1", "B2"]
    answers.await_calls("a1")
    answers.give("a1", "a2")
    assert come(task, 2) == ["A1", "A2"]
    assert answers.calls == ["a1", "b1", "b2", "a2"]


def test_records_without_a_key_wait_for_none() -> None:
    answers = Answers()
    task = called(answers)
    task.process(raw([(None, "x"), (None, "y")]))
    answers.await_calls("x", "y")
    answers.give("y")
    assert come(task, 1) == ["Y"]


def test_in_the_order_of_the_partition_all_are_called_and_results_wait() -> None:
    answers = Answers()
    task = called(answers, order="partition")
    task.process(raw(ABAB))
    answers.await_calls(*ALL)
    answers.give("b2", "a2", "b1")
    wait_for(lambda: task.waits(0), "results")
    assert values(task.resume(0)) == []
    answers.give("a1")
    assert come(task, 4) == ["A1", "B1", "A2", "B2"]


@pytest.mark.parametrize("order", ["key", "partition"])
def test_a_record_keeps_its_key_time_and_headers(order: str) -> None:
    answers = Answers()
    task = called(answers, order=order)
    task.process(raw(ABAB[:2], headers=[None, [("h", b"1")]]))
    answers.give("a1", "b1")
    wait_for(lambda: task.calls and len(task.calls._operators[0]._pool.ended) == 2, "both")
    outputs = task.resume(0)
    found = [
        (key, time, head)
        for out in outputs
        for key, time, head in zip(
            out.keys, out.timestamps, out.headers or [None, None], strict=True
        )
    ]
    assert sorted(found, key=str) == [(b"a", 1_000, None), (b"b", 1_001, [("h", b"1")])]
    assert {offset for out in outputs for _, _, some in out.origins for offset in some} == {0, 1}


def test_no_more_calls_run_than_may_and_the_rest_of_the_input_waits() -> None:
    answers = Answers()
    task = called(answers, concurrency=2)
    names = [f"v{n}" for n in range(20)]
    task.process(raw([(name, name) for name in names]))
    answers.await_calls("v0", "v1")
    begun = task.positions[IN]
    assert 4 <= begun < 10
    assert task.buffered() == {IN: 20 - begun}
    answers.give("v0")
    answers.await_calls("v1", "v2")
    for name in names[1:]:
        answers.give(name)
        come(task, 1 if name != "v1" else 2)
    assert (task.positions, task.buffered(), task.under_way) == ({IN: 20}, {IN: 0}, False)


def test_a_commit_waits_for_calls_and_nothing_is_begun_until_it_is_made() -> None:
    answers = Answers()
    task = called(answers)
    calls = task.calls
    assert calls is not None
    task.process(raw(ABAB[:2]))
    assert task.under_way
    assert not calls.can_commit()
    assert values(task.process(raw([("c", "c1")], first=2))) == []
    assert task.positions == {IN: 2}
    answers.give("a1", "b1")
    assert sorted(come(task, 2)) == ["A1", "B1"]
    wait_for(lambda: task.resume(0) == [] and task.commit_requested, "it asks for a commit")
    assert (calls.can_commit(), task.under_way, task.positions) == (True, False, {IN: 2})
    assert not task.waits(0) or task.resume(0) == []
    answers.await_calls()
    assert values(task.settle()) == []
    assert not task.commit_requested
    task.resume(0)
    answers.give("c1")
    assert come(task, 1) == ["C1"]


def test_a_task_that_must_stop_waits_for_its_calls() -> None:
    answers = Answers()
    task = called(answers)
    task.process(raw(ABAB))
    threading.Timer(0, lambda: answers.give("a1", "b1", "a2", "b2")).start()
    assert sorted(values(task.settle())) == sorted(value.upper() for value in ALL)
    assert (task.under_way, task.positions) == (False, {IN: 4})


def test_a_call_that_takes_too_long_for_a_stop_stays_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_calls, "SETTLE_MS", 0)
    answers = Answers()
    task = called(answers)
    task.process(raw(ABAB[:1]))
    assert values(task.settle()) == []
    assert task.under_way
    answers.give("a1")  # where the stop is withdrawn, it goes on
    assert come(task, 1) == ["A1"]


def calling_once() -> tuple[Answers, ManualClock, Task, TaskCalls]:
    """A task that waits for its first call, by a clock of the test."""
    answers, clock = Answers(), ManualClock(10_000)
    task = called(answers)
    calls = task.calls
    assert calls is not None
    calls._clock = clock
    task.process(raw(ABAB[:1]))
    return answers, clock, task, calls


def test_a_commit_that_calls_delay_too_long_is_left_out_and_so_are_the_next_ones() -> None:
    answers, clock, task, calls = calling_once()
    assert (calls.can_commit(), calls.shut) == (False, True)
    clock.advance(task_calls.SETTLE_MS - 1)
    assert (calls.can_commit(), calls.shut) == (False, True)
    clock.advance(1)
    assert (calls.can_commit(), calls.shut) == (False, False)
    task.process(raw(ABAB[1:2], first=1))
    answers.await_calls("a1", "b1")
    clock.advance(task_calls.APART * task_calls.SETTLE_MS - 1)
    assert (calls.can_commit(), calls.shut) == (False, False)
    clock.advance(1)
    assert (calls.can_commit(), calls.shut) == (False, True)


def test_a_stop_is_delayed_for_a_time_and_commits_open_nothing_meanwhile() -> None:
    _answers, clock, _task, calls = calling_once()
    calls.can_commit()
    clock.advance(task_calls.SETTLE_MS - 1)
    assert calls.delays_stop()
    clock.advance(1)
    assert not calls.delays_stop()
    assert (calls.can_commit(), calls.shut) == (False, True)
    clock.advance(task_calls.SETTLE_MS)  # the stop did not come
    assert (calls.can_commit(), calls.shut) == (False, False)


def test_a_closed_task_cancels_its_calls() -> None:
    answers = Answers()
    task = called(answers)
    task.process(raw(ABAB))
    answers.await_calls("a1", "b1")
    task.close()
    wait_for(lambda: sorted(answers.cancelled) == ["a1", "b1"], "both are cancelled")
    assert answers.calls == ["a1", "b1"]


# Failures.


@pytest.mark.parametrize("order", ["key", "partition"])
def test_a_failed_call_is_skipped_or_ends_the_task(order: str) -> None:
    answers = Answers()
    task = called(answers, "skip", order=order)
    task.process(raw(ABAB[:3]))
    answers.fail("a1")
    answers.give("b1")
    got = come(task, 1)
    answers.give("a2")
    assert got + come(task, 1) == ["B1", "A2"]
    assert task.counters.skipped == 1
    failing = called(answers, "fail", order=order)
    failing.process(raw(ABAB[:1]))
    answers.fail("a1")
    wait_for(lambda: failing.waits(0), "the failure")
    with pytest.raises(ProcessingError, match="ConnectionError: a1") as raised:
        failing.resume(0)
    assert (raised.value.offset, raised.value.topic) == (0, "in")


def test_dead_letters_have_the_record_as_it_was_read_whatever_came_behind() -> None:
    answers = Answers()
    task = called(answers, ("dead_letter", "dead"))
    task.process(raw(ABAB[:1]))
    for first in range(1, 4):
        task.process(raw([("b", f"more{first}")], first=first))
        answers.give(f"more{first}")
        come(task, 1)
    answers.fail("a1")
    assert come(task, 1, "dead") == ["a1"]
    assert task.counters.dead_lettered == 1


def test_a_handler_that_retries_has_only_its_key_wait() -> None:
    answers = Answers()
    attempts: list[int] = []

    def handler(context: sl.ErrorContext, record: object, error: BaseException) -> sl.Answer:
        attempts.append(context.attempt)
        return sl.Retry(3, backoff=0, then="skip")

    task = called(answers, handler)
    task.process(raw(ABAB))
    answers.fail("a1")
    wait_for(lambda: task.waits(0), "the failure")
    assert values(task.resume(0)) == []
    answers.await_calls("a1", "b1")
    answers.give("b1", "b2")
    assert come(task, 2) == ["B1", "B2"]
    answers.give("a1", "a2")
    assert come(task, 2) == ["A1", "A2"]
    assert attempts == [1]


def test_calls_are_made_again_by_the_own_rule_before_the_handler_is_asked() -> None:
    answers = Answers()
    attempts: list[int] = []

    def handler(context: sl.ErrorContext, record: object, error: BaseException) -> sl.Answer:
        attempts.append(context.attempt)
        return "skip"

    task = called(answers, handler, order="partition", retry=sl.Retry(3, backoff=0))
    task.process(raw(ABAB))
    answers.give("a1", "b1", "a2")
    assert come(task, 3) == ["A1", "B1", "A2"]
    for _ in range(3):
        assert attempts == []
        answers.fail("b2")
        wait_for(lambda: task.waits(0), "the failure")
        assert task.resume(0) == []
    assert not task.under_way
    assert (answers.calls.count("b2"), attempts, task.counters.skipped) == (3, [3], 1)


def test_a_call_beyond_its_time_fails() -> None:
    errors: list[BaseException] = []

    def handler(context: sl.ErrorContext, record: object, error: BaseException) -> sl.Answer:
        errors.append(error)
        return "skip"

    answers = Answers()
    task = called(answers, handler, timeout=1)
    task.process(raw(ABAB[:1]))
    # The call may have failed before ``process`` returned.
    wait_for(lambda: errors or (task.waits(0) and task.resume(0)), "the failure")
    assert isinstance(errors[0], TimeoutError)
    assert answers.cancelled == ["a1"]


def test_a_function_that_is_not_async_fails_by_record() -> None:
    task = called(len, "skip")
    task.process(raw(ABAB[:1]))
    wait_for(lambda: (task.resume(0), task.counters.skipped)[1] == 1, "it is skipped")


# Several operators.


def test_results_go_from_one_operator_with_calls_to_the_next() -> None:
    first, second = Answers(), Answers()

    def build(stream: KStream[str, str]) -> None:
        once = stream.map_values_async(first, value=str)
        once.map_values_async(second, value=str, order="partition").to("out")

    task = calling(build)
    task.process(raw(ABAB[:2]))
    first.give("b1", "a1")
    wait_for(lambda: (task.resume(0), len(second.calls))[1] == 2, "both come to the second")
    second.give("A1", "B1")
    assert sorted(come(task, 2)) == ["A1", "B1"]
    assert not task.under_way


def test_what_waits_for_a_commit_goes_through_the_calls_before_it() -> None:
    answers = Answers()

    def build(stream: KStream[str, str]) -> None:
        newest = stream.group_by_key().reduce(lambda one, two: two, emit="on_commit")
        newest.to_stream().map_values_async(answers, value=str).to("out")

    task = calling(build)
    calls = task.calls
    assert calls is not None
    task.process(raw(ABAB))
    assert (task.under_way, calls.can_commit()) == (False, False)
    wait_for(lambda: (task.resume(0), len(answers.calls))[1] == 2, "what was held back is called")
    assert task.under_way
    answers.give("a2", "b2")
    assert sorted(come(task, 2)) == ["A2", "B2"]
    wait_for(lambda: (task.resume(0), task.commit_requested)[1], "it asks for a commit")
    assert calls.can_commit()
    assert task.settle() == []
    assert sorted(answers.calls) == ["a2", "b2"]


# Order, whatever the answers.

KEYS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=30)


@given(KEYS, st.integers(0, 10_000), st.integers(1, 8), st.booleans())
def test_results_are_in_order_whatever_order_calls_end_in(
    keys: list[str], seed: int, concurrency: int, in_order: bool
) -> None:
    """Some calls fail, and their records are skipped; commits come in between."""
    dice, answers = Random(seed), Answers()
    order = "partition" if in_order else "key"
    task = called(answers, "skip", order=order, concurrency=concurrency)
    assert task.calls is not None
    records = [(key, f"{key}{n}") for n, key in enumerate(keys)]
    bad = {value for _, value in records if dice.random() < 0.15}
    got: list[str] = []
    for first in range(0, len(records), 7):
        got += values(task.process(raw(records[first : first + 7], first)))
    while task.under_way or task.buffered()[IN]:
        got += values(task.resume(0))
        waiting = sorted(answers.waiting)
        if waiting:
            value = dice.choice(waiting)
            answers.fail(value) if value in bad else answers.give(value)
        if dice.random() < 0.2:
            task.calls.can_commit()
        if task.commit_requested:
            assert task.positions[IN] == len(got) + task.counters.skipped
            assert values(task.settle()) == []
    wanted = [value.upper() for _, value in records if value not in bad]
    assert task.counters.skipped == len(bad)
    if in_order:
        assert got == wanted
    for key in "ABCD":
        mine = [value for value in wanted if value[0] == key]
        assert [value for value in got if value[0] == key] == mine
    task.close()
