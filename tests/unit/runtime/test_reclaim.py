"""Looking up whose the last commit of a held task was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from streamlet.clock import ManualClock
from streamlet.group.events import FetchDone, FetchOutcome
from streamlet.group.messages import Committed
from streamlet.runtime.reclaim import RETRY_MS, Reclaims
from streamlet.types import TaskId, TopicPartition

IN0, IN1 = TopicPartition("in", 0), TopicPartition("in", 1)


def held(partition: int) -> Any:
    inputs = (TopicPartition("in", partition),)
    return SimpleNamespace(task=TaskId(0, partition), inputs=inputs)


class Desk:
    """Reclaims whose questions are noted and answered by hand."""

    def __init__(self) -> None:
        self.asked: list[tuple[TopicPartition, ...]] = []
        self.clock = ManualClock()
        self.reclaims = Reclaims(self._fetch, self.clock)

    def _fetch(self, inputs: Any) -> int:
        self.asked.append(tuple(inputs))
        return len(self.asked)

    def answer(self, outcome: FetchOutcome = FetchOutcome.FETCHED) -> list[TaskId]:
        committed = {tp: Committed(7, "") for tp in self.asked[-1]}
        done = FetchDone(len(self.asked), outcome, committed)
        return [active.task for active, _ in self.reclaims.fetched(done)]


def test_all_that_wait_are_asked_for_at_once_and_only_once() -> None:
    desk = Desk()
    desk.reclaims.want(held(0))
    desk.reclaims.want(held(1))
    desk.reclaims.step()
    desk.reclaims.step()
    assert desk.asked == [(IN0, IN1)]
    assert desk.answer() == [TaskId(0, 0), TaskId(0, 1)]
    desk.reclaims.step()
    assert len(desk.asked) == 1


def test_without_a_stable_answer_it_is_asked_again_soon() -> None:
    """Another member's transaction may be open on the positions."""
    desk = Desk()
    desk.reclaims.want(held(0))
    desk.reclaims.step()
    assert desk.answer(FetchOutcome.UNSTABLE) == []
    desk.reclaims.step()
    assert len(desk.asked) == 1
    desk.clock.advance(RETRY_MS)
    desk.reclaims.step()
    assert desk.answer() == [TaskId(0, 0)]


def test_a_task_that_was_given_away_meanwhile_is_not_gone_on_with() -> None:
    desk = Desk()
    desk.reclaims.want(held(0))
    desk.reclaims.step()
    desk.reclaims.forget(TaskId(0, 0))
    assert desk.answer() == []


def test_answers_to_others_questions_say_nothing() -> None:
    """The rules ask for marks by the same kind of request."""
    desk = Desk()
    desk.reclaims.want(held(0))
    assert desk.reclaims.fetched(FetchDone(99, FetchOutcome.FETCHED, {})) == []
