"""A member's hand-over rules, by hand."""

from __future__ import annotations

from streamlet.assignor.values import Copy, Leaving, Role
from streamlet.coordinator.commit_metadata import CommitMetadata, Positions
from streamlet.coordinator.events import BlockJoin, CommitOutcome, Rejoin
from streamlet.rebalance.values import Assignment
from streamlet.tasks.handover import Handover
from streamlet.tasks.handover_values import Close, CommitLast, HandoverRules, Stop
from streamlet.types import TaskId, TopicPartition

T, INPUT = TaskId(0, 0), TopicPartition("in", 0)


def owner() -> Handover:
    """A member that runs T by a claim of its own."""
    rules = Handover(HandoverRules())
    rules.assigned(1, "a", Assignment(active=frozenset({T})), 0)
    rules.running(T, 0)
    rules.claimed(T, 0)
    rules.take()
    return rules


def stopped() -> Handover:
    """An owner that was told to release T, holds joins, and is about to commit its mark."""
    rules = owner()
    rules.assigned(2, "a", Assignment(release={T: "b"}), 10)
    (ask,) = rules.take()
    assert isinstance(ask, BlockJoin)
    rules.hold(ask.token, True, 20)
    stop, last = rules.take()
    assert stop == Stop((T,))
    assert isinstance(last, CommitLast)
    assert last.marks == {T: "b"}
    return rules


def test_an_accepted_mark_releases_the_task() -> None:
    rules = stopped()
    rules.committed(1, CommitOutcome.ACCEPTED, 30)
    assert Close(T) in rules.take()
    assert rules.view({})[T].role is Role.RELEASED


def test_a_stopped_task_is_not_said_to_be_active_once_its_hold_has_run_out() -> None:
    """Its mark may have been seen: said to be active it might run in two places."""
    rules = stopped()
    assert rules.describe({})[T] == Copy(Role.RELEASED)
    assert rules.take() == [Close(T)]
    rules.committed(1, CommitOutcome.ACCEPTED, 30)
    rules.assigned(3, "a", Assignment(), 40)
    assert T not in rules.claims
    rules.check_invariants()


def test_who_took_a_task_over_asks_for_its_standby_once_all_have_come() -> None:
    rules = Handover(HandoverRules(standbys=1))
    other = TaskId(0, 1)
    rules.assigned(2, "b", Assignment(active=frozenset({T, other})), 0)
    for task in (T, other):
        rules.running(task, 0)
        rules.claimed(task, 0)
    assert not [d for d in rules.take() if isinstance(d, Rejoin)], "nothing was handed over"


def test_a_static_member_has_its_finished_hand_overs_forgotten_in_one_rebalance() -> None:
    """A restart is handed the last assignment: orders carried out long ago are not to be in it."""
    rules = Handover(HandoverRules(static=True))
    other = TaskId(0, 1)
    rules.assigned(2, "b", Assignment(pending={T: "a", other: "a"}), 0)
    rules.take()
    for task in (T, other):
        marked = Positions({INPUT: 5}, (CommitMetadata(1, "a", 2, release_to="b"),))
        rules.fetched(task, marked, 0)
        rules.running(task, 0)
    rules.claimed(T, 0)
    assert not [d for d in rules.take() if isinstance(d, Rejoin)], "one is still open"
    rules.claimed(other, 0)
    assert [d for d in rules.take() if isinstance(d, Rejoin)]
    rules.claimed(other, 0)
    assert not rules.take()


def test_a_wish_to_rejoin_says_whether_it_is_older_than_a_description() -> None:
    """Whoever follows the control topic marks us; the worker's loop comes to it later."""
    rules = Handover(HandoverRules())
    rules.describe({})
    rules.assigned(2, "b", Assignment(active=frozenset({T})), 0)
    rules.take()
    rules.set_leaving(Leaving(0))
    rules.describe({})
    rules.set_leaving(None)
    wishes = [d for d in rules.take() if isinstance(d, Rejoin)]
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
