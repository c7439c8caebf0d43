"""Unassigned tasks: gives those without an owner to members at once.

State that is warm somewhere goes before balance: the best copy takes the task, whatever its holder
has to do already, and learners put the loads right afterwards. Without any copy the emptiest takes
it; what is being learned does not count there, only what is run.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamlet.assignor.claims import Ownership, Worth, best_first, known_lag, worth
from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.target import TargetAssignment, place
from streamlet.assignor.values import Copy


def adopt(
    assignment: TargetAssignment, claims: Sequence[Ownership], tasks: Sequence[int]
) -> dict[int, int]:
    """Find an instance for every task without an owner; tells which copy decided, by member.

    Tasks that no member can run stay unassigned.
    """
    unassigned = [task for task in tasks if claims[task].owner == ABSENT]
    chosen: dict[int, int] = {}
    for task in unassigned:
        holder = best_copy(assignment, task)
        if holder != ABSENT:
            chosen[task] = holder
            assignment.put(task, assignment.view.instance_of[holder])
    place(assignment, [task for task in unassigned if task not in chosen], {})
    return chosen


def best_copy(assignment: TargetAssignment, task: int, *, staying: bool = False) -> int:
    """The member whose copy is worth most and that may gain the task, or absent.

    ``staying`` looks only among those that stay.
    """
    view = assignment.view
    candidates = [
        (member, copy)
        for member, copy in best_first(view, task)
        if may_gain(view, member, copy)
        and (not staying or view.instances[view.instance_of[member]].stays)
    ]
    ranked = min(
        candidates, key=lambda held: _rank(assignment, task, *held), default=(ABSENT, None)
    )
    return ranked[0]


def may_gain(view: View, member: int, copy: Copy) -> bool:
    """True if the member may be given the task.

    One that leaves gains nothing; but what it has just stopped it may go on with until a member
    else is ready, as long as its time is not up.
    """
    instance = view.instances[view.instance_of[member]]
    if instance.leaving is None:
        return True
    deadline = instance.leaving.deadline_ms
    in_time = deadline is None or view.group.now_ms < deadline
    return worth(copy) is Worth.PREVIOUS_OWNER and in_time


def _rank(assignment: TargetAssignment, task: int, member: int, copy: Copy) -> tuple[int, ...]:
    """Copies that are ready differ little, so room decides among them; others differ by lag."""
    instance = assignment.view.instance_of[member]
    full = int(assignment.view.tasks[task].weight > assignment.instance_load.room(instance))
    load = assignment.instance_load.relative(instance)
    lag = known_lag(copy)
    if copy.ready:
        return (worth(copy), full, load, lag, member)
    return (worth(copy), lag, full, load, member)
