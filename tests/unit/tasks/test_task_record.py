"""The moves between the stages of a task: what is legal, and that every task can come and go."""

from __future__ import annotations

import enum

import pytest

from streamlet.assignor.values import Role
from streamlet.tasks.task_record import (
    CARRIED_OUT,
    MOVES,
    CopyProgress,
    OpeningStage,
    ReadStage,
    TaskRecord,
    TaskStage,
    UnitStage,
    moved,
)

ENDS = {
    TaskStage.CLOSED,
    OpeningStage.READY,
    OpeningStage.CANCELLED,
    ReadStage.PROMOTING,
    ReadStage.RESTORING,
    UnitStage.COMMITTING,
}
LIVING = [stage for stage in TaskStage if stage is not TaskStage.CLOSED]
ON_WAY = [stage for stage in OpeningStage if stage not in ENDS]


def reached(begin: enum.Enum) -> set[enum.Enum]:
    """The stages that a task of this stage can come to."""
    found, new = set[enum.Enum](), {begin}
    while new:
        found |= new
        new = {after for stage in new for after in MOVES[stage]} - found
    return found


def before(stage: enum.Enum) -> set[enum.Enum]:
    """The stages that lead to this one."""
    return {one for one, after in MOVES.items() if stage in after}


@pytest.mark.parametrize(
    "begin", [TaskStage.COPIED, OpeningStage.SETTLING, ReadStage.OPEN, UnitStage.ORDERED]
)
def test_a_task_comes_to_each_stage_from_its_begin_on(begin: enum.Enum) -> None:
    assert reached(begin) == set(type(begin))


def test_the_table_has_each_stage_and_only_the_last_ones_lead_nowhere() -> None:
    assert set(MOVES) == {*TaskStage, *OpeningStage, *ReadStage, *UnitStage}
    assert {stage for stage, after in MOVES.items() if not after} == ENDS


@pytest.mark.parametrize("stage", LIVING)
def test_a_task_of_any_stage_may_be_closed_at_once(stage: TaskStage) -> None:
    assert moved("0_0", stage, TaskStage.CLOSED) is TaskStage.CLOSED


@pytest.mark.parametrize("stage", ON_WAY)
def test_a_task_on_its_way_up_may_be_cancelled_at_once(stage: OpeningStage) -> None:
    assert moved("0_0", stage, OpeningStage.CANCELLED) is OpeningStage.CANCELLED


@pytest.mark.parametrize("stage", TaskStage)
def test_what_is_closed_stays_closed(stage: TaskStage) -> None:
    with pytest.raises(AssertionError, match="0_0: closed -> "):
        moved("0_0", TaskStage.CLOSED, stage)


def test_a_task_that_processes_never_restores_again_in_place() -> None:
    """It is closed for that, and comes up as another one: a new epoch, new stores.

    One that was held goes on as it is, or is closed as well.
    """
    assert before(TaskStage.OPENING) == {TaskStage.COPIED, TaskStage.WAITING, TaskStage.HELD}
    assert reached(OpeningStage.READY) == {OpeningStage.READY}


def test_no_task_processes_before_its_state_is_that_of_the_commit() -> None:
    assert before(OpeningStage.READY) == {OpeningStage.RESTORING, OpeningStage.PROMOTING}
    assert before(TaskStage.RUNNING) == {TaskStage.OPENING, TaskStage.STOPPED}


def test_no_task_is_given_up_that_may_still_process() -> None:
    """It is stopped before, or never ran."""
    assert before(TaskStage.RELEASED) == {TaskStage.OPENING, TaskStage.STOPPED}
    assert before(TaskStage.HELD) == {TaskStage.STOPPED}


def test_what_is_not_ours_to_run_is_not_open() -> None:
    closed = {TaskStage.COPIED, TaskStage.WAITING, TaskStage.RELEASED}
    assert {stage for stage, carried_out in CARRIED_OUT.items() if carried_out == {None}} == closed
    assert set(CARRIED_OUT) == set(LIVING)


def test_nothing_of_a_claim_counts_under_another_one_but_the_copy() -> None:
    copy = CopyProgress(Role.LEARNER, lag=3)
    held = TaskRecord(TaskStage.HELD, 4, copy, claimed=True)
    assert held.anew(TaskStage.OPENING, 5, 0) == TaskRecord(TaskStage.OPENING, 5, copy)
    with pytest.raises(AssertionError, match="held -> waiting"):
        held.anew(TaskStage.WAITING, 5, 0)


@pytest.mark.parametrize(
    "record",
    [
        TaskRecord(),
        TaskRecord(TaskStage.CLOSED, 1),
        TaskRecord(TaskStage.RUNNING),
        TaskRecord(TaskStage.WAITING, 1, claimed=True),
        TaskRecord(TaskStage.RUNNING, 1, next_owner="b"),
        TaskRecord(TaskStage.OPENING, 1, polling=True),
        TaskRecord(TaskStage.RUNNING, 1, reclaims=True),
        TaskRecord(TaskStage.WAITING, 1, reclaims=True),
    ],
    ids=[
        *("no copy", "gone", "of no order", "claimed by whom", "given up", "polled for"),
        *("runs before its look-up", "held and awaited"),
    ],
)
def test_a_record_that_contradicts_itself_is_named(record: TaskRecord) -> None:
    with pytest.raises(AssertionError, match="TaskRecord"):
        record.check_invariants()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TaskRecord(TaskStage.OPENING, 1, reclaims=True, polling=True), TaskStage.RELEASED),
        (TaskRecord(TaskStage.WAITING, 1, polling=True), TaskStage.OPENING),
    ],
    ids=["the last commit", "the mark"],
)
def test_what_is_looked_up_is_looked_up_for_one_stage(before: TaskRecord, after: TaskStage) -> None:
    before.check_invariants()
    before.move_to(after)
    before.check_invariants()
    assert before == TaskRecord(after, 1)
