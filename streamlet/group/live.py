"""A live group put together again from its members' own bytes; pure.

A stable group's coordinator hands out every member's subscription and assignment. That is all that
the leader of the last rebalance knew and answered, so its own checks can be run from outside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Set
from typing import TypeVar

import attrs

from streamlet.assignor.values import (
    GroupState,
    MemberPlan,
    MemberState,
    Plan,
    Role,
    Rules,
    TaskInfo,
)
from streamlet.group.describe import GroupDescription, MemberDescription
from streamlet.group.envelope import open_assignment, open_subscription
from streamlet.group.values import (
    Assignment,
    Subscription,
    leaving_now,
    newest_imbalance,
    staying,
)
from streamlet.group.wire import WireError, decode_assignment, decode_subscription
from streamlet.types import TaskId

T = TypeVar("T")


@attrs.frozen
class LiveMember:
    """A member as described; what it said and was told is None where it cannot be read."""

    described: MemberDescription
    subscription: Subscription | None
    assignment: Assignment | None
    eager: bool = False  # stops everything at each join

    @property
    def said(self) -> Subscription:
        """Its subscription, an empty one if there is none to read."""
        return self.subscription or Subscription("", "", 0, 1.0, 1, ())

    @property
    def told(self) -> Assignment:
        """Its assignment, an empty one if there is none to read."""
        return self.assignment or Assignment()

    @property
    def tasks(self) -> list[tuple[TaskId, Role]]:
        """Its tasks and what they are to it, as of its assignment."""
        roles = {
            **dict.fromkeys(self.told.standby, Role.STANDBY),
            **dict.fromkeys(self.told.learner, Role.LEARNER),
            **dict.fromkeys(self.told.pending, Role.PENDING),
            **dict.fromkeys(self.told.revoke, Role.RELEASED),
            **dict.fromkeys(self.told.release, Role.ACTIVE),
            **dict.fromkeys(self.told.active, Role.ACTIVE),
        }
        return sorted(roles.items())

    @property
    def name(self) -> str:
        """What people call it, ``h1-0``; its member id if it does not say."""
        said = self.subscription
        return self.described.member_id if said is None else f"{said.name}-{said.member}"


@attrs.frozen
class LiveGroup:
    """A group and its members, sorted by name."""

    described: GroupDescription
    members: tuple[LiveMember, ...]

    @property
    def ours(self) -> bool:
        """Whether a member speaks our protocol; True while there is nothing to read."""
        silent = not self.stable or not self.members
        return silent or any(member.subscription is not None for member in self.members)

    @property
    def stable(self) -> bool:
        """Whether the last rebalance is over, so that there is something to read."""
        return self.described.state == "Stable"

    @property
    def eager(self) -> bool:
        """Whether somebody stops everything at each join, so that nothing is handed over warm."""
        return any(member.eager for member in self.members)

    @property
    def metadata_bytes(self) -> int:
        """Size of all subscriptions and assignments, which the broker keeps in one record."""
        members = self.described.members
        return sum(len(member.metadata) + len(member.assignment) for member in members)

    @property
    def leader(self) -> LiveMember | None:
        """Who leads: the one that was told of the last rebalance what only the leader is told.

        Not whoever has the member id named there: a static leader that restarted has another.
        """
        newest = self.newest
        telling = (member for member in self.members if member.told == newest)
        return next(telling, None) if newest.leader else None

    @property
    def newest(self) -> Assignment:
        """The assignment that tells of the last rebalance: the leader's own."""
        told = [member.told for member in self.members]
        return max(told, key=lambda assignment: assignment.generation, default=Assignment())


def read(described: GroupDescription) -> LiveGroup:
    """Read every member's bytes; what is not ours, or too new for us, is left out."""
    members = [_member(member, described.protocol_type) for member in described.members]
    return LiveGroup(described, tuple(sorted(members, key=by_name)))


def _member(described: MemberDescription, protocol_type: str) -> LiveMember:
    try:
        opened = open_subscription(described.metadata, protocol_type)
        told = open_assignment(described.assignment, protocol_type)
    except WireError:
        return LiveMember(described, None, None)
    said = _read(decode_subscription, opened.data)
    eager = opened.eager or (said is not None and said.mode == "eager")
    return LiveMember(described, said, _read(decode_assignment, told), eager)


def by_name(member: LiveMember) -> tuple[str, int, str]:
    """Sort key: members of one instance stand together, by their numbers."""
    said = member.subscription
    number = -1 if said is None else said.member
    return ("" if said is None else said.name, number, member.described.member_id)


def _read(decode: Callable[[bytes], T], data: bytes) -> T | None:
    if not data:
        return None
    try:
        return decode(data)
    except WireError:
        return None


#: Roles that only tasks with state have; what was released may be without.
_COPIES = frozenset({Role.LEARNER, Role.STANDBY, Role.DORMANT})


def tasks(group: LiveGroup) -> tuple[TaskInfo, ...]:
    """The tasks there must be: all that anybody holds, those missing between them, unassigned ones.

    How many there are beyond the last one known only the topology knows.
    """
    held: set[TaskId] = {*group.newest.unassigned}
    stateful: set[int] = set()
    for member in group.members:
        for task, copy in member.said.copies.items():
            held.add(task)
            if copy.role in _COPIES:
                stateful.add(task.subtopology)
        stateful |= member.said.stateful
        for task, _ in member.tasks:
            held.add(task)
    last: dict[int, int] = defaultdict(int)
    for task in held:
        last[task.subtopology] = max(last[task.subtopology], task.partition)
    return tuple(
        TaskInfo(TaskId(subtopology, partition), subtopology in stateful)
        for subtopology in sorted(last)
        for partition in range(last[subtopology] + 1)
    )


def given(group: LiveGroup) -> set[TaskId]:
    """The tasks that a member was given, or is to give up, in the last rebalance."""
    return {task for member in group.members for task, role in member.tasks if role in _GIVEN}


def deferral_deadline_ms(group: LiveGroup) -> int | None:
    """Until when tasks wait for a member, wall-clock ms; None where nothing is put off."""
    deadlines = (member.told.deferral_deadline_ms for member in group.members)
    return next((at for at in deadlines if at is not None), None)


def last_round(group: LiveGroup, rules: Rules, now_ms: int) -> tuple[GroupState, Plan]:
    """What the leader of the last rebalance was given and what it answered.

    ``now_ms`` stands in where the leader did not say when that was. Of the settings members tell
    only the band: ``rules`` are the application's as far as the caller knows them.
    """
    newest = group.newest
    everything = tasks(group)
    state = GroupState(
        tasks=everything,
        members=member_states(group),
        generation=newest.generation,
        now_ms=now_ms if newest.made_ms is None else newest.made_ms,
        rules=_rules(group, rules),
    )
    plan = Plan(
        {m.described.member_id: _member_plan(m.told) for m in group.members},
        deferral_deadline_ms=deferral_deadline_ms(group),
        unassigned=frozenset(info.task for info in everything) - given(group),
    )
    return state, plan


def _rules(group: LiveGroup, rules: Rules) -> Rules:
    imbalance = newest_imbalance(m.said for m in group.members)
    return attrs.evolve(
        rules,
        learners=any(m.said.learners for m in group.members),
        mode="eager" if group.eager else "incremental",
        imbalance=rules.imbalance if imbalance is None else imbalance,
    )


#: Roles by which a task is with somebody, as of an assignment (``RELEASED``: in its first round).
_GIVEN = frozenset({Role.ACTIVE, Role.PENDING, Role.RELEASED})


def member_states(group: LiveGroup) -> tuple[MemberState, ...]:
    """What each member said when it last joined, as a leader reads it."""
    leaders, stay = _leaders_hashes(group), staying(member.said for member in group.members)
    return tuple(_member_state(member, leaders, stay) for member in group.members)


def _leaders_hashes(group: LiveGroup) -> tuple[bytes, ...]:
    leader = group.leader
    return () if leader is None else leader.said.subtopologies


def _member_state(member: LiveMember, leaders: tuple[bytes, ...], stay: Set[str]) -> MemberState:
    said = member.said
    pairs = enumerate(zip(said.subtopologies, leaders, strict=False))
    same = frozenset(number for number, (own, theirs) in pairs if own == theirs)
    return MemberState(
        member_id=member.described.member_id,
        instance=said.instance or member.described.member_id,
        number=said.member,
        capacity=said.capacity,
        instance_id=member.described.instance_id,
        runs=None if len(same) == len(leaders) else same,
        copies=said.copies,
        tags=said.tags,
        leaving=leaving_now(said, stay),
        learners=said.learners,
        joined_generation=said.joined_generation,
        deferral_deadline_ms=said.deferral_deadline_ms,
    )


def _member_plan(told: Assignment) -> MemberPlan:
    return MemberPlan(
        active=told.active,
        learner=told.learner,
        standby=told.standby,
        release=told.release,
        pending=told.pending,
        revoke=told.revoke,
        leave=told.leave,
        awaited=told.awaited,
    )
