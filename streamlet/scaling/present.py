"""A live group as a leader would find it if all members joined again now; pure.

The members' descriptions are as old as the last rebalance: here they have carried out since what
they were assigned then. A plan for what comes next starts from it.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from streamlet.assignor.values import Copy, GroupState, Leaving, MemberState, Role, Rules
from streamlet.group.snapshot import GroupSnapshot, MemberSnapshot, member_states, tasks
from streamlet.types import TaskId


@attrs.frozen
class InstanceInfo:
    """One ``streamlet run`` of the group. ``key`` is its process id, ``name`` what people say."""

    key: str
    name: str
    members: tuple[str, ...]  # names, h1-0
    member_ids: tuple[str, ...]


def instances(group: GroupSnapshot) -> tuple[InstanceInfo, ...]:
    """The instances of a stable group, by name."""
    together: dict[str, list[MemberSnapshot]] = {}
    for member in group.members:
        key = member.reported.instance or member.described.member_id
        together.setdefault(key, []).append(member)
    return tuple(
        InstanceInfo(
            key,
            members[0].reported.name or members[0].described.client_id,
            tuple(member.name for member in members),
            tuple(member.described.member_id for member in members),
        )
        for key, members in together.items()
    )


def present(
    group: GroupSnapshot, rules: Rules, now_ms: int, leaving: Mapping[str, Leaving]
) -> GroupState:
    """The group as it is by now, with exactly these instances on their way out.

    A standing copy counts as caught up, unless it said that it is behind.

    Args:
        group: a stable group.
        rules: the application's settings.
        now_ms: wall-clock time.
        leaving: marks by process id.
    """
    generation = group.newest.generation
    members = (
        attrs.evolve(
            state,
            copies=_copies(member, state, generation),
            leaving=leaving.get(state.instance),
            joined_generation=max(state.joined_generation, 0),
            deferral_deadline_ms=None,
        )
        for member, state in zip(group.members, member_states(group), strict=True)
    )
    return GroupState(tasks(group), tuple(members), generation + 1, now_ms, rules)


def _copies(member: MemberSnapshot, state: MemberState, generation: int) -> dict[TaskId, Copy]:
    """The copies of the member as it would describe them now."""
    assigned = member.assigned
    given_up = assigned.release.keys() | assigned.revoke
    copies = {
        task: attrs.evolve(copy, role=Role.DORMANT, generation=-1, ready=False)
        for task, copy in state.copies.items()
        if copy.role not in (Role.ACTIVE, Role.PENDING) or task in given_up
    }
    for task in assigned.standby:
        before = state.copies.get(task)
        behind = before is not None and before.role is Role.STANDBY and not before.ready
        copies[task] = Copy(Role.STANDBY, ready=not behind, lag=before.lag if before else 0)
    for task in assigned.learner:
        before = state.copies.get(task)
        ready = before is not None and before.role is Role.LEARNER and before.ready
        copies[task] = Copy(Role.LEARNER, ready=ready, lag=before.lag if before else None)
    for task in assigned.active | assigned.pending.keys():
        copies[task] = Copy(Role.ACTIVE, generation)
    return copies


def owners(state: GroupState) -> dict[TaskId, MemberState]:
    """The member that runs each task."""
    return {
        task: member
        for member in state.members
        for task, copy in member.copies.items()
        if copy.role is Role.ACTIVE
    }
