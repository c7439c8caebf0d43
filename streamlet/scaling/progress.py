"""The progress of a scale-down, from the reports of the group and its members: pure.

Members say in the control topic what they do; a member that says nothing yet is taken at what it
was assigned. A task is on its way through these stages: ``queued``, ``learning``, ``ready``,
``ordered`` (its owner is to give it up), ``restoring`` (taken over cold), ``active`` (moved).
"""

from __future__ import annotations

from collections.abc import Set
from typing import TypeAlias

import attrs

from streamlet.admin.snapshot import GroupSnapshot
from streamlet.assignor.values import Role
from streamlet.control.values import TaskProgress
from streamlet.control.view import ControlView
from streamlet.scaling.departures import departed
from streamlet.scaling.plan import ScaleDownPlan, TaskMove
from streamlet.types import TaskId

QUEUED, ACTIVE = "queued", "active"

#: The stage of a task that a stayer has, by the role and the stage that it says; later ones win.
_STAGES = {
    ("learner", "learning"): "learning",
    ("learner", "ready"): "ready",
    ("pending", "waiting"): "ordered",
    ("active", "restoring"): "restoring",
    ("active", "running"): ACTIVE,
}
_ORDER = (QUEUED, *_STAGES.values())


@attrs.frozen
class MoveProgress:
    """One task on its way. ``restored`` and ``end`` are changelog offsets, ``rate`` records/s."""

    task: TaskId
    source: str
    target: str | None
    stage: str
    restored: int | None = None
    end: int | None = None
    rate: float | None = None
    eta_s: float | None = None


@attrs.frozen
class Progress:
    """Every task to be moved, and who has left; ``done`` when all have."""

    steps: tuple[MoveProgress, ...]
    left: tuple[str, ...]
    leaving: tuple[str, ...]

    @property
    def done(self) -> bool:
        """True if no instance is leaving any more."""
        return not self.leaving

    @property
    def moved(self) -> int:
        """Tasks that their new owners run."""
        return sum(step.stage == ACTIVE for step in self.steps)


def progress(plan: ScaleDownPlan, group: GroupSnapshot, view: ControlView) -> Progress:
    """Compute the progress of the plan.

    Args:
        plan: what was planned.
        group: as it was seen last when it was stable, or without members.
        view: the control topic.
    """
    going = {one.key for one in plan.leaving}
    reported, assigned = _reported(view, going), _assigned(group, going)
    steps = []
    for move in plan.moves:
        nothing: _Found = (move.target, QUEUED, None)
        steps.append(_step(move, reported.get(move.task) or assigned.get(move.task) or nothing))
    left = departed(plan.leaving, group, view)
    return Progress(
        tuple(steps),
        tuple(one.name for one in left),
        tuple(one.name for one in plan.leaving if one not in left),
    )


#: Member, stage, and what the member says of the task.
_Found: TypeAlias = tuple[str | None, str, TaskProgress | None]


def _reported(view: ControlView, going: Set[str]) -> dict[TaskId, _Found]:
    """The stayers' reports on tasks; where several have a task, the furthest counts."""
    found = [
        (_ORDER.index(stage), member.member, task)
        for member in view.progress.values()
        if member.instance not in going
        for task in member.tasks
        if (stage := _STAGES.get((task.role, task.stage))) is not None
    ]
    found.sort(key=lambda one: one[:2])
    return {TaskId.parse(task.task): (name, _ORDER[stage], task) for stage, name, task in found}


def _assigned(group: GroupSnapshot, going: Set[str]) -> dict[TaskId, _Found]:
    """The stayers' assignments, likewise."""
    stages = {Role.LEARNER: "learning", Role.PENDING: "ordered", Role.ACTIVE: ACTIVE}
    return {
        task: (member.name, stage, None)
        for role, stage in stages.items()
        for member in group.members
        if member.reported.instance not in going
        for task, found in member.tasks
        if found is role and task not in member.assigned.release
    }


def _step(move: TaskMove, found: _Found) -> MoveProgress:
    member, stage, detail = found
    if detail is None or stage == ACTIVE:
        return MoveProgress(move.task, move.source, member, stage)
    return MoveProgress(
        *(move.task, move.source, member, stage),
        *(detail.restored, detail.end, detail.rate, detail.eta_s),
    )
