"""Moving without learning: revoke in one round, assign in the next (design I).

So move stateless tasks always, and stateful ones where no member learns. Only the tasks that move
stop. A task is given to no member in the round in which its owner is asked to give it up; in the
next it is unowned and placed like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from streamlet.assignor.balance import balance
from streamlet.assignor.claims import Ownership, Worth, best_first, worth
from streamlet.assignor.draft import Draft
from streamlet.assignor.loads import MemberLoad, uneven
from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.target import TargetAssignment, place
from streamlet.assignor.waits import Allowance


def move_in_two_rounds(
    draft: Draft,
    claims: Sequence[Ownership],
    tasks: Sequence[int],
    allowance: Allowance,
    *,
    calm: bool,
) -> TargetAssignment:
    """Assign what is free, revoke what must move; with ``calm`` nothing is moved for balance."""
    view = draft.view
    assignment = TargetAssignment.of(view, tasks)
    owners = _Owners.of(view, claims, tasks)
    for task, owner in owners.staying.items():
        assignment.put(task, view.instance_of[owner])
    likes = {task: _likes(view, task) for task in tasks}
    place(assignment, owners.free, likes)
    place(assignment, owners.leaving, likes)
    order: list[int] = []
    if not calm:
        movable = {t: m for t, m in owners.staying.items() if not claims[t].outright}
        movable |= {
            t: ABSENT for t in owners.free + owners.leaving if t in assignment.target_instance
        }
        order = balance(assignment, movable, likes)
    member_load = MemberLoad(view, beside=draft.counts())
    # In the order in which they help: when not all may begin, the first ones must do good alone.
    first = dict.fromkeys([*owners.leaving, *order, *tasks])
    owned = [task for task in first if claims[task].owner != ABSENT]
    _keep_or_revoke(draft, claims, member_load, assignment, owned, allowance)
    _give(draft, member_load, assignment, [task for task in tasks if claims[task].owner == ABSENT])
    if not calm:
        _even_out(draft, claims, member_load, tasks, allowance)
    return assignment


@attrs.define
class _Owners:
    """The tasks by what is known of their owners.

    ``staying``: with a member that runs them and stays, or where all stop for a rebalance,
    did so until now. ``free``: with no member. ``leaving``: with a member that leaves or cannot run
    them any more.
    """

    staying: dict[int, int] = attrs.field(factory=dict)
    free: list[int] = attrs.field(factory=list)
    leaving: list[int] = attrs.field(factory=list)

    @classmethod
    def of(cls, view: View, claims: Sequence[Ownership], tasks: Sequence[int]) -> _Owners:
        owners = cls()
        for task in tasks:
            owner = claims[task].owner
            if owner == ABSENT and view.group.rules.mode == "eager":
                owner = _previous_owner(view, task)
            if owner == ABSENT:
                owners.free.append(task)
            elif view.instances[view.instance_of[owner]].stays and view.member_can_run(owner, task):
                owners.staying[task] = owner
            elif claims[task].owner == ABSENT:
                owners.free.append(task)
            else:
                owners.leaving.append(task)
        return owners


def _previous_owner(view: View, task: int) -> int:
    """The member that stopped the task to join, or absent."""
    released = [m for m, c in best_first(view, task) if worth(c) is Worth.PREVIOUS_OWNER]
    return released[0] if released else ABSENT


def _likes(view: View, task: int) -> list[int]:
    """Instances with a copy that may gain the task, the best copy first."""
    instances = dict.fromkeys(view.instance_of[member] for member, _ in best_first(view, task))
    return [instance for instance in instances if view.instances[instance].stays]


def _keep_or_revoke(
    draft: Draft,
    claims: Sequence[Ownership],
    member_load: MemberLoad,
    assignment: TargetAssignment,
    owned: Sequence[int],
    allowance: Allowance,
) -> None:
    view = draft.view
    for task in owned:
        owner = claims[task].owner
        home = assignment.target_instance.get(task, ABSENT)
        stays = home in (ABSENT, view.instance_of[owner])
        if not view.member_can_run(owner, task):
            draft.members[owner].revoke.add(task)  # its topology has no such task any more
        elif stays or not allowance.take():
            draft.members[owner].active.add(task)
            member_load.add(task, owner)
        else:
            draft.members[owner].revoke.add(task)


def _give(
    draft: Draft, member_load: MemberLoad, assignment: TargetAssignment, free: Sequence[int]
) -> None:
    view = draft.view
    for task in free:
        home = assignment.target_instance.get(task, ABSENT)
        if home == ABSENT:
            draft.unassigned.add(task)
            continue
        holders = [m for m, _ in best_first(view, task) if view.instance_of[m] == home]
        member = member_load.choose(task, home, holders[0] if holders else ABSENT)
        draft.members[member].active.add(task)
        member_load.add(task, member)


def _even_out(
    draft: Draft,
    claims: Sequence[Ownership],
    member_load: MemberLoad,
    tasks: Sequence[int],
    allowance: Allowance,
) -> None:
    """Revoke what makes the members of one instance uneven; the next round spreads it."""
    view = draft.view
    kind = set(tasks)
    for number, instance in enumerate(view.instances):
        if len(instance.members) == 1 or not instance.stays:
            continue
        owned = [
            (task, member)
            for member in instance.members
            for task in draft.members[member].active
            if task in kind and claims[task].owner == member and not claims[task].outright
        ]
        for task, _ in uneven(member_load, number, owned):
            owner = claims[task].owner
            if allowance.take():
                draft.members[owner].active.discard(task)
                draft.members[owner].revoke.add(task)
