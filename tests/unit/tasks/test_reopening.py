"""A running task that is closed and brought up again here, as the task manager sees it."""

from __future__ import annotations

from streamlet.coordinator.events import UnblockJoin
from streamlet.tasks.task_events import GiveUp, TaskClaimed, TaskReopening, TaskRunning
from streamlet.tasks.task_record import TaskStage
from tests.unit.tasks.test_manager_rules import NOTHING, T, U, member, owner


def test_it_claims_again_before_it_can_be_given_up() -> None:
    by = owner(T, U)
    by.happened(TaskReopening(T))
    by.assigned(active=frozenset({U}), release={T: "other"})
    assert by.manager.claims[T].stage is TaskStage.OPENING
    done = by.happened(TaskRunning(T))
    assert not any(isinstance(one, GiveUp) for one in done), "not before its claim (M4)"
    done = by.happened(TaskClaimed(T))
    assert [one.unit.tasks for one in done if isinstance(one, GiveUp)] == [(T,)]


def test_a_hold_that_was_asked_for_is_ended_unused() -> None:
    by = owner(T, U)
    (asked,) = (
        one
        for one in by.assigned(active=frozenset({U}), release={T: "other"})
        if isinstance(one, GiveUp)
    )
    assert by.happened(TaskReopening(T)) == []
    assert by.hold(asked.unit.token) == [UnblockJoin(asked.unit.token)]


def test_a_task_that_does_not_run_here_is_none_of_its_business() -> None:
    by = member()
    by.assigned(active=frozenset({T}))
    by.happened(TaskReopening(T))
    by.happened(TaskReopening(U))
    assert by.manager.claims[T].stage is TaskStage.OPENING
    assert by.assigned(active=NOTHING) != [], "it is closed as ever"
