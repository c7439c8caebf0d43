"""A live group as a leader would find it if all members joined again now; pure.

The members' descriptions are as old as the last rebalance: here they have carried out since what
they were assigned then. A plan for what comes next starts from it.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from streamlet.admin.snapshot import (
    GroupSnapshot,
    MemberSnapshot,
    member_states,
    rules_in,
    tasks,
)
from streamlet.assignor.values import Copy, GroupState, Leaving, MemberState, Role, Rules
from streamlet.control.values import MemberKey, MemberProgress, TaskProgress
from streamlet.types import TaskId


def present(
    group: GroupSnapshot,
    rules: Rules,
    now_ms: int,
    leaving: Mapping[str, Leaving],
    progress: Mapping[MemberKey, MemberProgress] | None = None,
) -> GroupState:
    """The group as it is by now, with exactly these instances on their way out.

    A standing copy counts as caught up, unless its member reports that it is behind.

    Args:
        group: a stable group.
        rules: the settings that its leader plans by.
        now_ms: wall-clock time.
        leaving: marks by process id.
        progress: the members' reports in the control topic.
    """
    generation = group.newest.generation
    members = (
        attrs.evolve(
            state,
            copies=_copies(member, state, generation, _reported(member, progress or {})),
            leaving=leaving.get(state.instance),
            joined_generation=max(state.joined_generation, 0),
            deferral_deadline_ms=None,
        )
        for member, state in zip(group.members, member_states(group), strict=True)
    )
    current = attrs.evolve(rules_in(group, rules), learners=rules.learners)
    return GroupState(tasks(group), tuple(members), generation + 1, now_ms, current)


def _reported(
    member: MemberSnapshot, progress: Mapping[MemberKey, MemberProgress]
) -> dict[tuple[TaskId, Role], TaskProgress]:
    """The copies that the member reads, as it reported them last."""
    found = progress.get(MemberKey(member.reported.instance, member.reported.member))
    roles = {role.value: role for role in (Role.LEARNER, Role.STANDBY)}
    return {
        (TaskId.parse(one.task), roles[one.role]): one
        for one in (found.tasks if found is not None else ())
        if one.role in roles
    }


def _copies(
    member: MemberSnapshot,
    state: MemberState,
    generation: int,
    reported: Mapping[tuple[TaskId, Role], TaskProgress],
) -> dict[TaskId, Copy]:
    """The copies of the member as it would describe them now.

    A copy of a task that it gave up in the last rebalance is the most recent state on any disk.
    """
    assigned = member.assigned
    given_up = assigned.release.keys() | assigned.revoke
    copies = {
        task: attrs.evolve(copy, role=Role.DORMANT, generation=-1, ready=False)
        for task, copy in state.copies.items()
        if copy.role not in (Role.ACTIVE, Role.PENDING)
    }
    copies |= dict.fromkeys(given_up, Copy(Role.RELEASED))
    for role, tasks_of_role in ((Role.STANDBY, assigned.standby), (Role.LEARNER, assigned.learner)):
        for task in tasks_of_role:
            copies[task] = _read(role, state.copies.get(task), reported.get((task, role)))
    for task in assigned.active | assigned.pending.keys():
        copies[task] = Copy(Role.ACTIVE, generation)
    return copies


def _read(role: Role, before: Copy | None, reported: TaskProgress | None) -> Copy:
    """A copy that is read: as reported last, else as its member said when it joined."""
    if reported is not None:
        return Copy(role, ready=reported.stage == "ready", lag=reported.lag)
    if before is not None and before.role is role:
        return Copy(role, ready=before.ready, lag=before.lag)
    caught_up = role is Role.STANDBY
    lag = before.lag if before is not None else 0 if caught_up else None
    return Copy(role, ready=caught_up, lag=lag)


def owners(state: GroupState) -> dict[TaskId, MemberState]:
    """The member that runs each task."""
    return {
        task: member
        for member in state.members
        for task, copy in member.copies.items()
        if copy.role is Role.ACTIVE
    }
