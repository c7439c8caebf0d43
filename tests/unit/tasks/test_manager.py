"""A member's task manager, by hand."""

from __future__ import annotations

from streamlet.assignor.values import Copy, Leaving, Role
from streamlet.coordinator.commit_metadata import CommitMetadata, Positions
from streamlet.coordinator.events import (
    Assigned,
    BlockJoin,
    CommitDone,
    CommitOutcome,
    JoinBlocked,
    Rejoin,
)
from streamlet.rebalance.values import Assignment
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.task_events import (
    Action,
    Close,
    CommitLast,
    HandoverRules,
    JoinDescribed,
    LeavingSet,
    PositionsRead,
    Stop,
    TaskClaimed,
    TaskEvent,
    TaskRunning,
)
from streamlet.types import TaskId, TopicPartition

T, INPUT = TaskId(0, 0), TopicPartition("in", 0)


def after(manager: TaskManager, *events: TaskEvent) -> list[Action]:
    """The actions that follow from these events."""
    return [action for event in events for action in manager.handle(event, 0)]


def owner() -> TaskManager:
    """A member that runs T by a claim of its own."""
    manager = TaskManager(HandoverRules())
    order = Assignment(active=frozenset({T}))
    after(manager, Assigned(1, "a", order), TaskRunning(T), TaskClaimed(T))
    return manager


def stopped() -> TaskManager:
    """An owner that was told to release T, holds joins, and is about to commit its mark."""
    manager = owner()
    (ask,) = after(manager, Assigned(2, "a", Assignment(release={T: "b"})))
    assert isinstance(ask, BlockJoin)
    stop, last = after(manager, JoinBlocked(ask.token, True))
    assert stop == Stop((T,))
    assert isinstance(last, CommitLast)
    assert last.marks == {T: "b"}
    return manager


def test_an_accepted_mark_releases_the_task() -> None:
    manager = stopped()
    assert Close(T) in after(manager, CommitDone(1, CommitOutcome.ACCEPTED))
    assert manager.view({})[T].role is Role.RELEASED


def test_a_stopped_task_is_not_said_to_be_active_once_its_hold_has_run_out() -> None:
    """Its mark may have been seen: said to be active it might run in two places."""
    manager = stopped()
    assert after(manager, JoinDescribed()) == [Close(T)]
    assert manager.view({})[T] == Copy(Role.RELEASED)
    after(manager, CommitDone(1, CommitOutcome.ACCEPTED), Assigned(3, "a", Assignment()))
    assert T not in manager.claims
    manager.check_invariants()


def test_who_took_a_task_over_asks_for_its_standby_once_all_have_come() -> None:
    manager = TaskManager(HandoverRules(standbys=1))
    other = TaskId(0, 1)
    done = after(manager, Assigned(2, "b", Assignment(active=frozenset({T, other}))))
    for task in (T, other):
        done += after(manager, TaskRunning(task), TaskClaimed(task))
    assert not [d for d in done if isinstance(d, Rejoin)], "nothing was handed over"


def test_a_static_member_has_its_finished_hand_overs_forgotten_in_one_rebalance() -> None:
    """A restart is handed the last assignment: orders carried out long ago are not to be in it."""
    manager = TaskManager(HandoverRules(static=True))
    other = TaskId(0, 1)
    done = after(manager, Assigned(2, "b", Assignment(pending={T: "a", other: "a"})))
    for task in (T, other):
        marked = Positions({INPUT: 5}, (CommitMetadata(1, "a", 2, release_to="b"),))
        done += after(manager, PositionsRead(task, marked), TaskRunning(task))
    done += after(manager, TaskClaimed(T))
    assert not [d for d in done if isinstance(d, Rejoin)], "one is still open"
    assert [d for d in after(manager, TaskClaimed(other)) if isinstance(d, Rejoin)]
    assert not after(manager, TaskClaimed(other))


def test_a_wish_to_rejoin_says_whether_it_is_older_than_a_description() -> None:
    """Whoever follows the control topic marks us; the worker's loop comes to it later."""
    manager = TaskManager(HandoverRules())
    after(manager, JoinDescribed(), Assigned(2, "b", Assignment(active=frozenset({T}))))
    done = after(manager, LeavingSet(Leaving(0)), JoinDescribed(), LeavingSet(None))
    wishes = [d for d in done if isinstance(d, Rejoin)]
    assert [(wish.reason, wish.descriptions) for wish in wishes] == [("leaving", 1), ("stays", 2)]


def test_a_mark_is_on_all_inputs_but_those_that_its_owner_did_not_know() -> None:
    mark = CommitMetadata(1, "a", 2, release_to="b")
    other = CommitMetadata(1, "a", 1)
    new = TopicPartition("new", 0)
    assert Positions({INPUT: 5, new: 3}, (mark, mark)).mark_for("b", 2)
    assert Positions({INPUT: 5, new: -1}, (mark, None)).mark_for("b", 2)
    assert not Positions({INPUT: 5, new: 3}, (mark, other)).mark_for("b", 2)
    assert not Positions({INPUT: 5, new: 3}, (mark, None)).mark_for("b", 2), "another tool's"
    assert not Positions({INPUT: -1, new: -1}, (None, None)).mark_for("b", 2)
