"""The moves between the stages of a task: what is legal, and that every task can come and go."""

from __future__ import annotations

import pytest

from streamlet.tasks.task_stage import MOVES, TaskStage, moved

LIVING = [stage for stage in TaskStage if stage is not TaskStage.CLOSED]


def reached(begin: TaskStage) -> set[TaskStage]:
    """The stages that a task of this stage can come to."""
    found, new = set[TaskStage](), {begin}
    while new:
        found |= new
        new = {after for stage in new for after in MOVES[stage]} - found
    return found


def test_a_task_comes_to_each_stage_from_its_order_on() -> None:
    assert reached(TaskStage.CREATED) == set(TaskStage)


@pytest.mark.parametrize("stage", LIVING)
def test_a_task_of_any_stage_may_be_closed_at_once(stage: TaskStage) -> None:
    assert moved("0_0", stage, TaskStage.CLOSED) is TaskStage.CLOSED


@pytest.mark.parametrize("stage", TaskStage)
def test_what_is_closed_stays_closed(stage: TaskStage) -> None:
    with pytest.raises(AssertionError, match="0_0: closed -> "):
        moved("0_0", TaskStage.CLOSED, stage)


def test_a_task_that_processes_never_restores_again_in_place() -> None:
    """It is closed for that, and comes up as another one: a new epoch, new stores."""
    on_way = set(LIVING) - {TaskStage.READY, TaskStage.RUNNING, TaskStage.STOPPED}
    assert not reached(TaskStage.READY) & on_way


def test_no_task_processes_before_its_state_is_that_of_the_commit() -> None:
    before = {stage for stage in TaskStage if TaskStage.READY in MOVES[stage]}
    assert before == {TaskStage.RESTORING, TaskStage.PROMOTING}
    assert {stage for stage in TaskStage if TaskStage.RUNNING in MOVES[stage]} == {
        TaskStage.READY,
        TaskStage.STOPPED,
    }
