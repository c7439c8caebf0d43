"""A member's task manager, by hand."""

from __future__ import annotations

import pytest

from streamlet.assignor.values import Copy, Leaving, Role
from streamlet.coordinator.commit_metadata import CommitMetadata, Positions
from streamlet.coordinator.events import (
    Assigned,
    CommitDone,
    CommitOutcome,
    JoinBlocked,
    JoinSoon,
    Lost,
    Rejoin,
    UnblockJoin,
)
from streamlet.rebalance.values import Assignment
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.task_events import (
    Action,
    Close,
    CommitLast,
    GiveUp,
    HandoverRules,
    JoinDescribed,
    LeavingSet,
    PositionsRead,
    ResumeTask,
    Stop,
    TaskClaimed,
    TaskEvent,
    TaskFailed,
    TaskRunning,
)
from streamlet.tasks.task_record import Unit
from streamlet.types import TaskId, TopicPartition
from tests.unit.tasks import test_manager_rules as rules

T, U, INPUT = TaskId(0, 0), TaskId(0, 1), TopicPartition("in", 0)


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
    assert isinstance(ask, GiveUp)
    stop, last = after(manager, JoinBlocked(ask.unit.token, True))
    assert stop == Stop((T,))
    assert isinstance(last, CommitLast)
    assert last.unit.marks == {T: "b"}
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


def taken_over(**settings: int) -> TaskManager:
    """A member that took T over and processes it; the claim is on its way."""
    manager = TaskManager(HandoverRules(**settings))
    marked = Positions({INPUT: 5}, (CommitMetadata(1, "a", 2, release_to="b"),))
    order = Assignment(pending={T: "a"})
    after(manager, Assigned(2, "b", order), PositionsRead(T, marked), TaskRunning(T))
    return manager


def test_only_with_standbys_a_hand_over_that_is_over_calls_for_one() -> None:
    standby = Rejoin("a standby is to be placed after a hand-over")
    assert after(taken_over(standbys=1), TaskClaimed(T)) == [standby]
    assert after(taken_over(), TaskClaimed(T)) == []


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


def test_the_same_generation_once_more_changes_nothing() -> None:
    manager = owner()
    assert after(manager, Assigned(1, "a", Assignment())) == []
    assert manager.view({})[T] == Copy(Role.ACTIVE, 1)


def test_a_stopped_task_whose_unit_an_assignment_overtakes_goes_on() -> None:
    manager = stopped()
    assert after(manager, Assigned(3, "a", Assignment(frozenset({T})))) == [ResumeTask(T)]
    assert after(manager, CommitDone(1, CommitOutcome.ACCEPTED)) == [], "of an order that is void"
    assert manager.view({})[T] == Copy(Role.ACTIVE, 3)


def test_a_hold_that_is_refused_after_its_order_was_replaced_is_not_asked_for_again() -> None:
    manager = owner()
    order = Assignment(release={T: "b"})
    after(manager, Assigned(2, "a", order), Assigned(3, "a", Assignment(frozenset({T}))))
    assert after(manager, JoinBlocked(1, False)) == []
    assert manager.due_ms() is None


def test_a_hold_that_is_refused_is_asked_for_again_after_a_pause() -> None:
    manager = owner()
    after(manager, Assigned(2, "a", Assignment(release={T: "b"})), JoinBlocked(1, False))
    assert manager.due_ms() == manager.rules.retry_ms


def test_a_member_that_is_gone_amid_a_last_commit_keeps_nothing_of_its_task() -> None:
    manager = stopped()
    assert Close(T) in after(manager, CommitDone(1, CommitOutcome.LOST))
    assert manager.claims == {}


def test_what_a_worker_says_of_a_task_that_it_has_lost_or_runs_changes_nothing() -> None:
    manager = owner()
    assert after(manager, TaskRunning(T), TaskFailed(T, "too late")) == []
    assert manager.view({})[T] == Copy(Role.ACTIVE, 1)
    after(manager, Lost("gone"))
    assert after(manager, TaskRunning(T), TaskClaimed(T), TaskFailed(T, "too late")) == []
    assert manager.view({}) == {}


def test_a_task_that_is_waited_for_is_not_held_when_the_group_changes_its_type() -> None:
    """Its order ends with the group; the owner holds it."""
    other = TaskId(0, 1)
    by = rules.owner(T)
    by.assigned(active=frozenset({T}), pending={other: "b"})
    unit = Unit(-1, 2, (T,), for_migration=True)
    assert by.happened(JoinSoon(-1, 2, migration=True)) == [Stop((T,)), CommitLast(unit)]
    assert by.says(other) == Copy(Role.LEARNER)


def test_a_static_member_asks_for_no_confirmation_while_a_join_is_under_way() -> None:
    by = rules.owner(T, static=True)
    by.assigned(release={T: "b"})
    by.hold(1)
    by.committed(1, CommitOutcome.ACCEPTED)
    assert (by.manager.confirming, by.manager.due_ms()) == (True, by.manager.rules.confirm_delay_ms)
    by.happened(JoinDescribed())
    assert by.manager.due_ms() is None
    assert by.later(by.manager.rules.confirm_delay_ms) == []


def test_a_member_that_leaves_and_gave_up_what_was_revoked_waits_for_the_next_plan() -> None:
    by = rules.leaving(T)
    by.assigned(revoke=frozenset({T}))
    by.hold(1)
    assert Rejoin("gave up the tasks it was asked to", 1) in by.committed(1, CommitOutcome.ACCEPTED)
    assert by.later(10_000) == []


def test_a_mark_that_is_seen_twice_is_told_once() -> None:
    by = rules.leaving(T)
    assert by.happened(LeavingSet(Leaving(0))) == []


# -- joins and losses amid a unit ------------------------------------------------------------------


@pytest.mark.parametrize("granted", [True, False])
def test_a_loss_that_the_worker_finds_out_keeps_no_join_waiting(granted: bool) -> None:
    """The membership, which knows of no loss, would hold the next join back until it times out."""
    if granted:
        manager, token = stopped(), 1
    else:
        manager, token = owner(), -1
        after(manager, Assigned(2, "a", Assignment(release={T: "b"})), JoinBlocked(1, True))
        assert after(manager, JoinSoon(-1, 2)) == [], "it waits for the unit"
    assert UnblockJoin(token) in after(manager, Lost("a store fails"))


def test_an_announced_join_does_not_wait_for_a_unit_that_was_only_asked_for() -> None:
    """A commit on its way goes before the asking, and is gated until the join is over."""
    by = rules.owner(T, U, gives_up_at_joins=True)
    learned, revoked = frozenset({T}), frozenset({U})
    (ask,) = by.assigned(active=learned, being_learned=learned, revoke=revoked)
    assert isinstance(ask, GiveUp)
    assert by.joins() == [Stop((T,)), CommitLast(Unit(-1, 2, (T,), for_join=True))]
    assert by.hold(ask.unit.token, granted=False) == []
    assert by.committed(-1, CommitOutcome.ACCEPTED) == [Close(T), UnblockJoin(-1)]


def test_nothing_is_given_up_for_a_join_that_did_not_wait_for_it() -> None:
    """The group counts on us to run what it gave us then, and would not hear that we do not."""
    by = rules.owner(T, U, stops_at_joins=True)
    (ask,) = by.assigned(release={T: "b"}, active=frozenset({U}))
    assert isinstance(ask, GiveUp)
    by.hold(ask.unit.token)
    assert by.joins() == [], "it waits for the unit"
    by.happened(JoinDescribed())  # the time of both is up
    by.assigned(active=frozenset({T, U}))
    assert [by.says(task) for task in (T, U)] == [Copy(Role.ACTIVE, 3)] * 2


def test_news_of_a_join_that_was_described_since_has_nothing_given_up() -> None:
    by = rules.owner(T, stops_at_joins=True)
    by.assigned(active=frozenset({T, U}))
    by.happened(JoinDescribed())
    assert by.joins() == [UnblockJoin(-1)]
    assert by.says(U) == Copy(Role.ACTIVE, 2)
