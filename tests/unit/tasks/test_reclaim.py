"""A task that was held open goes on behind its own last commit, which is looked up first (F4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from streamlet.assignor.values import Copy, Role
from streamlet.clock import ManualClock
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.events import (
    Assigned,
    CommitDone,
    CommitOutcome,
    FetchDone,
    FetchOutcome,
    FetchWanted,
    JoinSoon,
    Lost,
    Rejoin,
    UnblockJoin,
)
from streamlet.coordinator.messages import Committed
from streamlet.processing.edges.agreement import Agreement
from streamlet.rebalance.values import Assignment
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit_loop import Precopy
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.meters import Meters
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.task_actions import TaskActions
from streamlet.tasks.task_events import (
    Action,
    Activate,
    Close,
    GiveUp,
    HandoverRules,
    JoinDescribed,
    PollMarks,
    Reclaim,
    SetCopies,
    TaskClaimed,
    TaskRunning,
)
from streamlet.tasks.task_record import TaskStage, Unit
from streamlet.tasks.task_registry import TaskRegistry
from streamlet.testing.memory_ports import MemoryLog, MemorySource
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.unit.tasks.test_manager_rules import NOTHING, By, T, U, mark, owner
from tests.unit.tasks.test_task_registry import running

IN0, IN1 = TopicPartition("in", 0), TopicPartition("in", 1)
NEW = TopicPartition("new", 0)
RETRY_MS = HandoverRules().idle_poll_ms
FOUND = mark(None, 1)


# -- the task manager ------------------------------------------------------------------------------


def held(*tasks: TaskId, **rules: object) -> By:
    """A member on its way into a group of the other type, with these tasks held open."""
    by = owner(*tasks, **rules)
    migration(by)
    by.committed(-1, CommitOutcome.ACCEPTED)
    assert by.manager.due_ms() is None, "nothing is looked up before there is an assignment"
    return by


def reclaiming(**rules: object) -> By:
    """A member that has T again, and looks its last commit up."""
    by = held(T, **rules)
    assert by.assigned(active=frozenset({T})) == [PollMarks((T,))]
    return by


def migration(by: By) -> list[Action]:
    return by.happened(JoinSoon(-1, by.generation, migration=True))


def test_all_that_wait_are_asked_for_at_once_and_only_once() -> None:
    by = held(T, U)
    assert by.assigned(active=frozenset({T, U})) == [PollMarks((T, U))]
    assert by.later(10_000) == []
    assert by.fetched(FOUND) == [Reclaim(T, FOUND)]
    assert by.fetched(FOUND, U) == [Reclaim(U, FOUND)]
    assert by.later(10_000) == []
    assert by.manager.due_ms() is None


def test_without_a_stable_answer_it_is_asked_again_soon() -> None:
    """Another member's transaction may be open on the positions; no member runs the task."""
    by = reclaiming()
    for waits_ms in (0, 1, 60_000):
        by.now_ms += waits_ms
        assert by.fetched(None) == []
        assert by.manager.due_ms() == by.now_ms + RETRY_MS, "however long it has waited"
        assert by.later(RETRY_MS - 1) == []
        assert by.later(1) == [PollMarks((T,))]
        assert by.manager.due_ms() is None, "it is on its way"
    assert by.fetched(FOUND) == [Reclaim(T, FOUND)]


def test_it_is_opening_until_it_goes_on_and_claims_then() -> None:
    by = reclaiming()
    assert by.says() == Copy(Role.ACTIVE, 2)
    assert (by.manager.busy, by.manager.near(0)) == (True, frozenset({T}))
    by.fetched(FOUND)
    assert by.manager.near(0) == {T}
    assert by.happened(TaskRunning(T)) == []
    assert not by.manager.claims[T].claimed
    assert by.manager.near(0) == NOTHING


def test_a_late_answer_says_nothing_of_a_task_that_goes_on() -> None:
    by = reclaiming()
    by.fetched(FOUND)
    assert by.fetched(FOUND) == by.fetched(None) == []
    by.runs(T)
    assert by.fetched(FOUND) == by.fetched(None) == []
    assert by.manager.due_ms() is None


def test_a_loss_amid_the_look_up_takes_the_task_whatever_is_found() -> None:
    by = reclaiming()
    assert by.happened(Lost("gone")) == [Close(T)]
    assert by.fetched(FOUND) == []
    assert by.assigned(active=frozenset({T})) == [Activate(T)], "its positions are read anew"
    assert by.fetched(FOUND) == []
    assert by.manager.due_ms() is None


def test_a_task_that_is_held_once_more_is_looked_up_once_more() -> None:
    by = reclaiming()
    by.fetched(FOUND)
    by.runs(T)
    migration(by)
    by.committed(-1, CommitOutcome.ACCEPTED)
    assert by.fetched(FOUND) == []
    assert by.assigned(active=frozenset({T})) == [PollMarks((T,))]


def test_a_look_up_under_way_counts_under_the_next_assignment_too() -> None:
    by = reclaiming()
    assert by.happened(JoinDescribed()) == []
    assert by.assigned(active=frozenset({T})) == []
    assert by.says() == Copy(Role.ACTIVE, 3)
    assert by.fetched(FOUND) == [Reclaim(T, FOUND)]


def test_a_task_that_was_given_away_meanwhile_is_not_gone_on_with() -> None:
    by = reclaiming()
    assert by.assigned() == [Close(T)]
    assert by.fetched(FOUND) == []
    assert by.says() is None


def test_a_task_to_release_goes_on_and_claims_first() -> None:
    """Else its mark would be a commit of the epoch that ended with the other group (M4)."""
    by = held(T)
    assert by.assigned(release={T: "b"}) == [PollMarks((T,))]
    assert by.fetched(FOUND) == [Reclaim(T, FOUND)]
    assert by.happened(TaskRunning(T)) == []
    assert by.happened(TaskClaimed(T)) == [GiveUp(Unit(1, 2, (T,), {T: "b"}))]


@pytest.mark.parametrize("looked_up", [False, True])
def test_a_task_to_revoke_has_nothing_to_commit(looked_up: bool) -> None:
    by = reclaiming() if looked_up else held(T)
    done = by.assigned(revoke=frozenset({T}))
    assert done == [Close(T), Rejoin("gave up the tasks it was asked to")]
    assert by.says() == Copy(Role.RELEASED, ready=True, lag=0)
    assert by.fetched(FOUND) == []


def test_a_join_that_stops_everything_does_not_wait_for_the_look_up() -> None:
    by = reclaiming(stops_at_joins=True)
    assert by.joins() == [Close(T), UnblockJoin(-1)]
    assert by.says() == Copy(Role.RELEASED, ready=True, lag=0)
    assert by.fetched(FOUND) == []


def test_a_way_back_into_the_first_group_does_not_wait_for_the_look_up() -> None:
    """Nothing was committed since the task was held: without a claim nobody keeps it."""
    by = reclaiming()
    assert migration(by) == [Close(T), UnblockJoin(-1)]
    assert by.fetched(FOUND) == []
    assert by.says() is None


def test_marks_and_last_commits_are_looked_up_together() -> None:
    by = held(T)
    begun = by.assigned(active=frozenset({T}), pending={U: "a"})
    assert begun == [SetCopies(frozenset({U}), NOTHING), PollMarks((T, U))]
    assert by.fetched(None, U) == by.fetched(None) == []
    assert by.later(RETRY_MS) == [PollMarks((T, U))]
    ours = mark("me", by.generation)
    assert by.fetched(ours) == [Reclaim(T, ours)], "a mark is none of a task that is held"
    assert by.fetched(ours, U)[-1] == Activate(U, ours)


# -- the stream thread -----------------------------------------------------------------------------


@attrs.define
class Wanted:
    """Tasks to bring up, and what each reads."""

    inputs: dict[TaskId, tuple[TopicPartition, ...]]
    tasks: frozenset[TaskId] = frozenset()

    @property
    def targets(self) -> object:
        return SimpleNamespace(inputs=lambda task: self.inputs[task])

    edges = SimpleNamespace(agreement=Agreement())

    def want(self, task: TaskId) -> None:
        self.tasks |= {task}


class Desk:
    """Task actions whose questions are noted and answered by hand; both tasks are held open."""

    def __init__(self) -> None:
        self.asked: list[FetchWanted] = []
        #: What the control thread does while the stream thread asks.
        self.meanwhile: Callable[[], None] = lambda: None
        self.clock = ManualClock()
        log = MemoryLog()
        log.create("in", 2)
        self.source = MemorySource(log)
        self.registry = TaskRegistry(
            *(self.source, 1, 1),
            forget=lambda active: None,
            close=lambda opened: None,
        )
        self.tasks = [running(partition) for partition in (0, 1)]
        ids = frozenset(active.task for active in self.tasks)
        self.wanted = Wanted({active.task: active.inputs for active in self.tasks})
        self.events = RebalanceEvents(TaskManager(HandoverRules()), self.clock)
        self.orders = TaskActions(
            self.events,
            group=cast(Any, SimpleNamespace(want=self._want)),
            registry=self.registry,
            activation=cast(Any, self.wanted),
            updater=cast(Any, SimpleNamespace(wanted=NOTHING, set=_no, prefer=_no, take=list)),
            commit=cast(Any, SimpleNamespace(sent=True, texts=SimpleNamespace())),
            clock=self.clock,
            settled=lambda settled: None,
            meters=Meters(self.clock),
            precopy=Precopy(10_000),
        )
        self.events.handle(Assigned(1, "me", Assignment(active=ids)))
        for active in self.tasks:
            self._hold(active)
        committed = CommitDone(-1, CommitOutcome.ACCEPTED)
        self.events.handle(JoinSoon(-1, 1, migration=True), committed)
        self.events.actions()
        assert self.orders.to_commit() == [], "in no group"
        self.assign(2, *ids)

    def _hold(self, active: ActiveTask) -> None:
        active.processor.close = lambda: None
        active.committed, active.by = dict.fromkeys(active.inputs, 7), "me"
        self.registry.add(active)
        self.registry.resume([active])
        self.registry.stop([active])
        self.events.handle(TaskRunning(active.task), TaskClaimed(active.task))

    def _want(self, question: FetchWanted) -> None:
        self.asked.append(question)
        self.meanwhile()

    def assign(self, generation: int, *tasks: TaskId) -> None:
        self.events.offer(Assigned(generation, "me again", Assignment(active=frozenset(tasks))))
        self.orders.take()

    @property
    def inputs(self) -> list[tuple[TopicPartition, ...]]:
        return [one.partitions for one in self.asked]

    @property
    def stages(self) -> list[tuple[TaskStage, int]]:
        """The stage and the epoch of each task."""
        return [(active.stage, active.epoch) for active in self.tasks]

    def answer(
        self,
        outcome: FetchOutcome = FetchOutcome.FETCHED,
        others: Mapping[TopicPartition, Committed] | None = None,
    ) -> None:
        """Answer what was asked last: with our last commits, but for those of ``others``."""
        asked = self.asked[-1]
        found = {**dict.fromkeys(asked.partitions, commit("me", 4)), **(others or {})}
        self.events.offer(FetchDone(asked.token, outcome, found))
        self.orders.take()


def commit(by: str, epoch: int) -> Committed:
    return Committed(7, CommitMetadata(epoch, by, 1, {}, StateNumber(epoch, 1)).to_text())


def _no(tasks: object) -> None:
    """There are no copies."""


HELD, ON = (TaskStage.STOPPED, 4), (TaskStage.RUNNING, 5)
CLOSED = (TaskStage.CLOSED, 4)


def test_held_tasks_go_on_in_a_new_epoch_once_their_last_commits_are_known() -> None:
    desk = Desk()
    desk.orders.take()
    assert (desk.inputs, desk.stages) == ([(IN0, IN1)], [HELD, HELD])
    desk.answer()
    assert desk.stages == [ON, ON]
    assert not any(active.claimed for active in desk.tasks)
    with desk.events.manager() as manager:
        assert {one.stage for one in manager.claims.values()} == {TaskStage.RUNNING}
    desk.orders.take()
    assert len(desk.asked) == 1


def test_no_commit_covers_a_held_task_before_its_last_one_is_known() -> None:
    """It might be another's by now, and ours would set its positions back."""
    desk = Desk()
    assert desk.orders.to_commit() == []
    desk.answer(others={IN0: commit("D", 5)})
    assert desk.orders.to_commit() == [desk.tasks[1]]


def test_held_tasks_stand_still_until_there_is_a_stable_answer() -> None:
    desk = Desk()
    desk.answer(FetchOutcome.UNSTABLE)
    desk.orders.take()
    assert (len(desk.asked), desk.stages) == (1, [HELD, HELD])
    desk.clock.advance(RETRY_MS)
    desk.orders.take()
    assert (desk.inputs, desk.stages) == ([(IN0, IN1)] * 2, [HELD, HELD])
    desk.answer()
    assert desk.stages == [ON, ON]


@pytest.mark.parametrize("other", [("D", 5), ("D", 4), ("me", 5)])
def test_what_others_committed_meanwhile_is_opened_again(other: tuple[str, int]) -> None:
    """Nor is it read ahead: from where it begins is not known before it is opened."""
    desk = Desk()
    desk.answer(others={IN0: commit(*other)})
    assert desk.stages == [CLOSED, ON]
    assert (desk.wanted.tasks, desk.registry.tasks.keys()) == ({T}, {U})
    with pytest.raises(KeyError):
        desk.source.positions([IN0])


def test_a_task_that_has_more_inputs_by_now_is_opened_again() -> None:
    desk = Desk()
    desk.answer(FetchOutcome.UNSTABLE)
    desk.wanted.inputs[T] = (IN0, NEW)
    desk.clock.advance(RETRY_MS)
    desk.orders.take()
    assert desk.inputs[-1] == (IN0, NEW, IN1)
    desk.answer(others={NEW: Committed(-1, "")})
    assert desk.stages == [CLOSED, ON]
    assert desk.wanted.tasks == {T}


def test_inputs_that_come_amid_the_look_up_are_no_part_of_its_answer() -> None:
    desk = Desk()
    desk.wanted.inputs[T] = (IN0, NEW)
    desk.answer()
    assert desk.stages == [ON, ON]


def test_a_held_task_that_is_given_away_amid_the_look_up_is_closed() -> None:
    desk = Desk()
    desk.assign(3, U)
    desk.answer()
    assert desk.stages == [CLOSED, ON]
    assert (desk.wanted.tasks, desk.registry.tasks.keys()) == (NOTHING, {U})


def test_a_loss_amid_a_round_is_carried_out_in_it() -> None:
    desk = Desk()
    desk.answer(FetchOutcome.UNSTABLE)
    desk.clock.advance(RETRY_MS)
    desk.meanwhile = lambda: desk.events.offer(Lost("expired"))
    desk.orders.take()
    assert (len(desk.asked), desk.stages) == (2, [CLOSED, CLOSED])


def test_answers_to_others_questions_say_nothing() -> None:
    desk = Desk()
    desk.events.offer(FetchDone(99, FetchOutcome.FETCHED, {}))
    desk.orders.take()
    assert desk.stages == [HELD, HELD]
