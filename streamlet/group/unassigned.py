"""Tasks that no member of a live group was given, and what they wait for; pure."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from streamlet.assignor.values import MemberState, Violation
from streamlet.group.snapshot import (
    GroupSnapshot,
    deferral_deadline_ms,
    given,
    member_states,
    tasks,
)
from streamlet.types import TaskId


@attrs.frozen
class Unassigned:
    """A task without a member.

    ``until_ms`` is the wall-clock time until which it waits for a member to return or to join
    (``scheduled.rebalance.max.delay.ms``, ``initial.assignment.delay.ms``). None: it waits for
    nothing that comes by itself.
    """

    task: TaskId
    until_ms: int | None

    def as_dict(self) -> dict[str, object]:
        """In plain values, for the status document."""
        return {"task": str(self.task), "until_ms": self.until_ms}


def unassigned(group: GroupSnapshot) -> list[Unassigned]:
    """The tasks that no member was given in the last rebalance, in order."""
    if not group.stable or not group.members:
        return []
    taken = given(group)
    able = [state for state in member_states(group) if state.leaving is None]
    until_ms = deferral_deadline_ms(group)
    return [
        Unassigned(info.task, until_ms if any(_runs(state, info.task) for state in able) else None)
        for info in tasks(group)
        if info.task not in taken
    ]


def unassigned_for_good(group: GroupSnapshot, found: Sequence[Violation]) -> list[Violation]:
    """U1: the tasks without a member that no deadline ends, unless ``found`` names them.

    A plan may leave out what no member can run; for a running application it is a fault.
    """
    named = {task for violation in found if violation.rule == "U1" for task in violation.tasks}
    left = [one.task for one in unassigned(group) if one.until_ms is None]
    return [
        Violation("U1", f"no member that stays can run {task}", (task,))
        for task in left
        if task not in named
    ]


def _runs(state: MemberState, task: TaskId) -> bool:
    return state.runs is None or task.subtopology in state.runs
