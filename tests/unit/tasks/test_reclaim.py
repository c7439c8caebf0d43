"""Looking up whose the last commit of a held task was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from streamlet.clock import ManualClock
from streamlet.coordinator.commit_metadata import Positions
from streamlet.coordinator.events import FetchDone, FetchOutcome, FetchWanted
from streamlet.coordinator.messages import Committed
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit_loop import Precopy
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.meters import Meters
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.task_actions import RETRY_MS, TaskActions
from streamlet.tasks.task_events import HandoverRules, Reclaim
from streamlet.types import TaskId, TopicPartition

IN0, IN1 = TopicPartition("in", 0), TopicPartition("in", 1)


def held(partition: int) -> Any:
    inputs = (TopicPartition("in", partition),)
    return SimpleNamespace(task=TaskId(0, partition), inputs=inputs)


class Found(TaskActions):
    """Task actions that note with which held tasks they would go on."""

    def _go_on_with(self, active: ActiveTask, positions: Positions) -> None:
        assert positions.offsets == dict.fromkeys(active.inputs, 7)
        found.append(active.task)


found: list[TaskId] = []


class Desk:
    """Task actions whose questions are noted and answered by hand."""

    def __init__(self) -> None:
        self.asked: list[FetchWanted] = []
        self.clock = ManualClock()
        nothing = SimpleNamespace(
            ahead=SimpleNamespace(only=lambda tasks: None),
            tasks={TaskId(0, partition): held(partition) for partition in (0, 1)},
            sent=True,
            prefer=lambda tasks: None,
            take=list,
            want=self.asked.append,
        )
        self.board = RebalanceEvents(TaskManager(HandoverRules()), self.clock)
        parts = cast(Any, [nothing] * 5)
        self.orders = Found(
            *(self.board, *parts, self.clock),
            settled=lambda settled: None,
            meters=Meters(self.clock),
            precopy=Precopy(10_000),
        )
        found.clear()

    @property
    def inputs(self) -> list[tuple[TopicPartition, ...]]:
        return [one.partitions for one in self.asked]

    def want(self, partition: int) -> None:
        self.orders._perform([Reclaim(TaskId(0, partition))])

    def answer(self, outcome: FetchOutcome = FetchOutcome.FETCHED) -> list[TaskId]:
        committed = {tp: Committed(7, "") for tp in self.asked[-1].partitions}
        self.board.offer(FetchDone(self.asked[-1].token, outcome, committed))
        found.clear()
        self.orders.take()
        return list(found)


def test_all_that_wait_are_asked_for_at_once_and_only_once() -> None:
    desk = Desk()
    desk.want(0)
    desk.want(1)
    desk.orders.take()
    desk.orders.take()
    assert desk.inputs == [(IN0, IN1)]
    assert desk.answer() == [TaskId(0, 0), TaskId(0, 1)]
    desk.orders.take()
    assert len(desk.asked) == 1


def test_without_a_stable_answer_it_is_asked_again_soon() -> None:
    """Another member's transaction may be open on the positions."""
    desk = Desk()
    desk.want(0)
    desk.orders.take()
    assert desk.answer(FetchOutcome.UNSTABLE) == []
    desk.orders.take()
    assert len(desk.asked) == 1
    desk.clock.advance(RETRY_MS)
    desk.orders.take()
    assert desk.answer() == [TaskId(0, 0)]


def test_a_task_that_was_given_away_meanwhile_is_not_gone_on_with() -> None:
    desk = Desk()
    desk.want(0)
    desk.orders.take()
    desk.orders._held.pop(TaskId(0, 0))
    assert desk.answer() == []


def test_answers_to_others_questions_say_nothing() -> None:
    """The rules ask for marks by the same kind of request."""
    desk = Desk()
    desk.want(0)
    desk.board.offer(FetchDone(99, FetchOutcome.FETCHED, {}))
    desk.orders.take()
    assert found == []
