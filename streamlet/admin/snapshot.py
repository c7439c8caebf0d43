"""A live group put together again from its members' own bytes; pure.

A stable group's coordinator hands out every member's subscription and assignment. That is all that
the leader of the last rebalance knew and answered, so its own checks can be run from outside.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from streamlet.assignor.values import (
    CLAIMS,
    GroupState,
    MemberState,
    Plan,
    Role,
    Rules,
    TaskInfo,
    Violation,
)
from streamlet.coordinator.messages import GroupDescription, MemberDescription
from streamlet.rebalance import values
from streamlet.rebalance.envelope import open_assignment, open_subscription
from streamlet.rebalance.values import Assignment, Subscription, newest_imbalance
from streamlet.rebalance.wire import WireError, decode_assignment, decode_subscription
from streamlet.types import TaskId

T = TypeVar("T")


@attrs.frozen
class MemberSnapshot:
    """A member as described; subscription and assignment are None where they cannot be read."""

    described: MemberDescription
    subscription: Subscription | None
    assignment: Assignment | None
    eager: bool = False  # stops everything at each join

    @property
    def reported(self) -> Subscription:
        """Its subscription, an empty one if there is none to read."""
        return self.subscription or Subscription("", "", instance_id=self.described.instance_id)

    @property
    def assigned(self) -> Assignment:
        """Its assignment, an empty one if there is none to read."""
        return self.assignment or Assignment()

    @property
    def tasks(self) -> list[tuple[TaskId, Role]]:
        """Its tasks and what they are to it, as of its assignment."""
        roles = {
            **dict.fromkeys(self.assigned.standby, Role.STANDBY),
            **dict.fromkeys(self.assigned.learner, Role.LEARNER),
            **dict.fromkeys(self.assigned.pending, Role.PENDING),
            **dict.fromkeys(self.assigned.revoke, Role.RELEASED),
            **dict.fromkeys(self.assigned.release, Role.ACTIVE),
            **dict.fromkeys(self.assigned.active, Role.ACTIVE),
        }
        return sorted(roles.items())

    @property
    def name(self) -> str:
        """Its name for people, ``h1-0``; its member id if it is not known."""
        one = self.subscription
        return self.described.member_id if one is None else f"{one.name}-{one.member}"


@attrs.frozen
class InstanceSnapshot:
    """One ``streamlet run`` of a group.

    ``key`` is its process id, or the member id of a member that cannot be read.
    """

    key: str
    name: str
    members: tuple[MemberSnapshot, ...] = attrs.field(eq=False)

    @property
    def reported(self) -> Subscription:
        """The first member's subscription, which stands for all where it describes the instance."""
        return self.members[0].reported

    @property
    def leaving(self) -> bool:
        """True if a member rejoined as one that is to leave."""
        return any(member.reported.leaving is not None for member in self.members)


#: Characters of a process id that tell instances of one name apart.
SHORT_ID = 8


def told_apart(ids: Sequence[str], names: Sequence[str]) -> list[str]:
    """The names of instances, with the beginning of the process id where two are alike."""
    often = Counter(names)
    return [
        name if often[name] == 1 else f"{name} ({one[:SHORT_ID]})"
        for one, name in zip(ids, names, strict=True)
    ]


def called(instances: Sequence[InstanceSnapshot]) -> dict[str, str]:
    """The names that people see for these instances, by key."""
    keys = [one.key for one in instances]
    return dict(zip(keys, told_apart(keys, [one.name for one in instances]), strict=True))


@attrs.frozen
class GroupSnapshot:
    """A group and its members, sorted by name."""

    described: GroupDescription
    members: tuple[MemberSnapshot, ...]

    @property
    def instances(self) -> tuple[InstanceSnapshot, ...]:
        """The instances that the members belong to, by name."""
        together: dict[str, list[MemberSnapshot]] = {}
        for member in self.members:
            key = member.reported.instance or member.described.member_id
            together.setdefault(key, []).append(member)
        return tuple(
            InstanceSnapshot(
                key, members[0].reported.name or members[0].described.client_id, tuple(members)
            )
            for key, members in together.items()
        )

    @property
    def ours(self) -> bool:
        """True if a member speaks our protocol; True while there is nothing to read."""
        silent = not self.stable or not self.members
        return silent or any(member.subscription is not None for member in self.members)

    @property
    def stable(self) -> bool:
        """True if the last rebalance is over, so that members' descriptions can be read."""
        return self.described.state == "Stable"

    @property
    def eager(self) -> bool:
        """True if a member stops everything at each join, so that nothing is handed over warm."""
        return any(member.eager for member in self.members)

    @property
    def metadata_bytes(self) -> int:
        """Size of all subscriptions and assignments, which the broker keeps in one record."""
        members = self.described.members
        return sum(len(member.metadata) + len(member.assignment) for member in members)

    @property
    def leader(self) -> MemberSnapshot | None:
        """The member whose assignment carries the leader-only fields.

        The member id named there is not used: a static leader that restarted has another.
        """
        newest = self.newest
        telling = (member for member in self.members if member.assigned == newest)
        return next(telling, None) if newest.leader else None

    @property
    def newest(self) -> Assignment:
        """The assignment of the last rebalance: the leader's own."""
        assigned = [member.assigned for member in self.members]
        return max(assigned, key=lambda assignment: assignment.generation, default=Assignment())


def read(described: GroupDescription) -> GroupSnapshot:
    """Read every member's bytes; what is not ours, or too new for us, is left out."""
    members = [_member(member, described.protocol_type) for member in described.members]
    return GroupSnapshot(described, tuple(sorted(members, key=by_name)))


def _member(described: MemberDescription, protocol_type: str) -> MemberSnapshot:
    try:
        opened = open_subscription(described.metadata, protocol_type)
        packed = open_assignment(described.assignment, protocol_type)
    except WireError:
        return MemberSnapshot(described, None, None)
    subscription = _read(decode_subscription, opened.data)
    eager = opened.eager or (subscription is not None and subscription.mode == "eager")
    return MemberSnapshot(described, subscription, _read(decode_assignment, packed), eager)


def by_name(member: MemberSnapshot) -> tuple[str, int, str]:
    """Sort key: members of one instance stand together, by their numbers."""
    subscription = member.subscription
    number = -1 if subscription is None else subscription.member
    return ("" if subscription is None else subscription.name, number, member.described.member_id)


def _read(decode: Callable[[bytes], T], data: bytes) -> T | None:
    if not data:
        return None
    try:
        return decode(data)
    except WireError:
        return None


#: Roles that only tasks with state have; what was released may be without.
_COPIES = frozenset({Role.LEARNER, Role.STANDBY, Role.DORMANT})


def tasks(group: GroupSnapshot) -> tuple[TaskInfo, ...]:
    """The tasks there must be: all of the leader's plan, and those missing between them.

    How many there are beyond the last one known only the topology knows. Without a plan the
    members' claims count; beside one they do not, for a member may claim a task that is none.
    """
    held: set[TaskId] = {*group.newest.unassigned}
    claimed: set[TaskId] = set()
    stateful: set[int] = set()
    for member in group.members:
        for task, copy in member.reported.copies.items():
            claimed.add(task)
            if copy.role in _COPIES:
                stateful.add(task.subtopology)
        stateful |= member.reported.stateful
        held.update(task for task, _ in member.tasks)
    held = held or claimed
    last: dict[int, int] = defaultdict(int)
    for task in held:
        last[task.subtopology] = max(last[task.subtopology], task.partition)
    return tuple(
        TaskInfo(TaskId(subtopology, partition), subtopology in stateful)
        for subtopology in sorted(last)
        for partition in range(last[subtopology] + 1)
    )


def given(group: GroupSnapshot) -> set[TaskId]:
    """The tasks that a member was given, or is to give up, in the last rebalance."""
    return {task for member in group.members for task, role in member.tasks if role in CLAIMS}


def deferral_deadline_ms(group: GroupSnapshot) -> int | None:
    """Until when tasks wait for a member, wall-clock ms; None where nothing is put off."""
    deadlines = (member.assigned.deferral_deadline_ms for member in group.members)
    return next((at for at in deadlines if at is not None), None)


def last_round(group: GroupSnapshot, rules: Rules, now_ms: int) -> tuple[GroupState, Plan]:
    """The input and the answer of the leader of the last rebalance.

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
        rules=rules_in(group, rules),
    )
    plan = Plan(
        {m.described.member_id: m.assigned for m in group.members},
        deferral_deadline_ms=deferral_deadline_ms(group),
        unassigned=frozenset(info.task for info in everything) - given(group),
    )
    return state, plan


def rules_in(group: GroupSnapshot, rules: Rules) -> Rules:
    """Rules with the values that a leader takes from the subscriptions of the members."""
    imbalance = newest_imbalance(m.reported for m in group.members)
    return attrs.evolve(
        rules,
        learners=any(m.reported.learners for m in group.members),
        mode="eager" if group.eager else "incremental",
        imbalance=rules.imbalance if imbalance is None else imbalance,
    )


def member_states(group: GroupSnapshot) -> tuple[MemberState, ...]:
    """The state of each member when it last joined, as a leader reads it."""
    leaders = () if group.leader is None else group.leader.reported.subtopologies
    return values.member_states({m.described.member_id: m.reported for m in group.members}, leaders)


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
