"""What the worker and the control thread share: one step each, under one lock."""

from __future__ import annotations

import threading

import pytest

from streamlet.assignor.values import Copy, Leaving, Role
from streamlet.clock import ManualClock
from streamlet.coordinator.events import Assigned, CommitDone, CommitOutcome, Lost, Tick
from streamlet.rebalance.values import Assignment
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.task_events import (
    Close,
    HandoverRules,
    JoinDescribed,
    LeavingSet,
    TaskClaimed,
    TaskEvent,
    TaskRunning,
)
from streamlet.types import TaskId

T0, T1 = TaskId(0, 0), TaskId(0, 1)


def board() -> RebalanceEvents:
    return RebalanceEvents(TaskManager(HandoverRules()), ManualClock())


def assigned(generation: int, *active: TaskId) -> Assigned:
    return Assigned(generation, "m", Assignment(frozenset(active)), True, False)


def apply(rebalance_events: RebalanceEvents) -> None:
    """What the worker does in a round."""
    with rebalance_events.news() as (_, news):
        if news is not None:
            rebalance_events.handle(news)
        rebalance_events.actions()


def test_the_newest_assignment_replaces_the_one_before() -> None:
    shared = board()
    shared.offer(assigned(1, T0))
    shared.offer(assigned(2, T1))
    with shared.news() as (events, news):
        assert (events, news) == ([], assigned(2, T1))
    with shared.news() as (_, again):
        assert again is None


def test_other_events_come_in_order_and_once() -> None:
    shared = board()
    done = [CommitDone(n, CommitOutcome.ACCEPTED) for n in range(3)]
    for event in done:
        shared.offer(event)
    with shared.news() as (events, _):
        assert events == done
    with shared.news() as (events, _):
        assert events == []


def test_an_assignment_that_was_not_applied_is_void_once_a_join_is_described() -> None:
    """The group no longer counts on us to run it."""
    shared = board()
    shared.offer(assigned(1, T0))
    assert shared.describe() == {}
    with shared.news() as (_, news):
        assert news is None


def test_an_assignment_that_was_applied_is_described() -> None:
    shared = board()
    shared.offer(assigned(1, T0))
    apply(shared)
    assert shared.describe() == {T0: Copy(Role.ACTIVE, 1)}


def test_a_loss_voids_the_assignment_before_it_but_not_the_one_after() -> None:
    shared = board()
    shared.offer(assigned(1, T0))
    shared.offer(Lost("gone"))
    with shared.news() as (events, news):
        assert (events, news) == ([Lost("gone")], None)
    shared.offer(Lost("gone"))
    shared.offer(assigned(2, T1))
    with shared.news() as (_, news):
        assert news == assigned(2, T1)


def test_a_join_after_a_loss_claims_nothing_though_the_worker_has_not_learnt_of_it() -> None:
    """It is busy in a user's function, and the control thread joins with a new member id."""
    shared = board()
    shared.offer(assigned(1, T0))
    apply(shared)
    shared.offer(Lost("gone"))
    assert shared.describe() == {}
    with shared.news() as (events, _):
        assert events == [Lost("gone")]
        assert Close(T0) in shared.actions()


def test_state_on_disk_is_described_unless_the_task_is_claimed() -> None:
    shared = board()
    shared.add_dormant({T0: 5, T1: None})
    shared.offer(assigned(1, T0))
    apply(shared)
    assert shared.describe() == {T0: Copy(Role.ACTIVE, 1), T1: Copy(Role.DORMANT, lag=None)}


def test_waiting_ends_with_the_first_event() -> None:
    shared = board()
    ended = threading.Event()

    def wait() -> None:
        shared.wait(60_000)
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    shared.offer(CommitDone(1, CommitOutcome.ACCEPTED))
    assert ended.wait(300)


def test_a_join_is_described_before_or_after_an_assignment_is_applied_never_between() -> None:
    shared = board()
    shared.offer(assigned(1, T0))
    described: list[dict[TaskId, Copy]] = []
    with shared.news() as (_, news):
        control = threading.Thread(target=lambda: described.append(dict(shared.describe())))
        control.start()
        assert news is not None
        shared.handle(news)
        assert described == []
    control.join(300)
    assert described == [{T0: Copy(Role.ACTIVE, 1)}]


def rests(shared: RebalanceEvents, now_ms: int = 0) -> bool:
    """What the worker does at the end of its news, and asks in its next round."""
    with shared.manager() as manager:
        shared.may_rest(manager)
    return shared.rests(now_ms)


def test_the_manager_is_not_asked_again_before_something_is_due() -> None:
    shared = board()
    shared.offer(Assigned(1, "m", Assignment(follow_up_ms=500)))
    assert not rests(shared), "there is news"
    apply(shared)
    assert rests(shared, 499)
    assert not rests(shared, 500)


@pytest.mark.parametrize("event", [JoinDescribed(), Tick()])
def test_what_any_thread_tells_the_manager_has_the_worker_ask_again(event: TaskEvent) -> None:
    shared = board()
    assert rests(shared)
    shared.handle(event)
    assert not shared.rests(0)


def test_news_and_wakes_end_the_rest() -> None:
    shared = board()
    assert rests(shared)
    shared.wake()
    assert not shared.rests(0)
    apply(shared)
    assert rests(shared)
    shared.offer(assigned(1, T0))
    assert not shared.rests(0)


def test_there_is_no_rest_while_others_wait_for_us_or_actions_are_to_be_taken() -> None:
    shared = board()
    shared.handle(assigned(1, T0))
    assert not rests(shared), "to be brought up"
    shared.actions()
    shared.handle(TaskRunning(T0))
    assert not rests(shared), "not claimed yet"
    shared.handle(TaskClaimed(T0), LeavingSet(Leaving(0)))
    assert not rests(shared), "it is to rejoin"
    shared.actions()
    assert rests(shared)
