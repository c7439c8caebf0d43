"""How long a leader thinks: plans for groups of up to thousands of tasks and members.

Each case is one stateful group that has been running quietly. It is planned again as it is, after
a tenth more instances came, after a tenth died, with a tenth leaving, with half of the learners
ready, and from nothing. ``seconds`` is the slowest of these rounds, each the best of three. No
broker takes part.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import attrs

from streamlet.assignor.assign import assign
from streamlet.assignor.validate import validate
from streamlet.assignor.values import (
    Copy,
    GroupState,
    Leaving,
    MemberState,
    Plan,
    Role,
    Rules,
    TaskInfo,
)
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.rebalance.wire import encode_assignment, encode_subscription
from streamlet.types import TaskId

_CASES = ((1_000, 100), (3_000, 300), (10_000, 1_000))
_STANDBYS = 1
_ATTEMPTS = 3
_GENERATION = 7
_NOW_MS = 1_800_000_000_000
_PARTITIONS = 250  # of each subtopology
_METADATA_MEMBERS = 1_000
_METADATA_TASKS_EACH = 10


def run() -> dict[str, Any]:
    """The slowest round of each case, and the bytes a large group stores on the broker."""
    cases = [
        {
            "tasks": tasks,
            "instances": instances,
            "standbys": _STANDBYS,
            "seconds": round(max(_seconds(group) for group in _rounds(tasks, instances)), 3),
        }
        for tasks, instances in _CASES
    ]
    return {"cases": cases, "metadata_bytes": _metadata_bytes()}


def _seconds(group: GroupState) -> float:
    """The best of some attempts: what the machine does besides is not the question."""
    attempts = []
    for _ in range(_ATTEMPTS):
        started = time.perf_counter()
        assign(group)
        attempts.append(time.perf_counter() - started)
    return min(attempts)


def _rounds(tasks: int, instances: int) -> Iterator[GroupState]:
    quiet = _quiet(tasks, instances)
    tenth = instances // 10
    yield quiet
    newcomers = tuple(_member(number) for number in range(instances, instances + tenth))
    yield attrs.evolve(quiet, members=quiet.members + newcomers)
    yield attrs.evolve(quiet, members=quiet.members[tenth:])
    marked = [attrs.evolve(m, leaving=Leaving(_NOW_MS)) for m in quiet.members[:tenth]]
    leaving = attrs.evolve(quiet, members=(*marked, *quiet.members[tenth:]))
    yield leaving
    yield _after(leaving, assign(leaving), every=2)
    yield attrs.evolve(quiet, members=tuple(_member(number) for number in range(instances)))


def _quiet(tasks: int, instances: int) -> GroupState:
    """A group in which every task runs and has its standby, so that nothing needs to move."""
    infos = tuple(
        TaskInfo(TaskId(number // _PARTITIONS, number % _PARTITIONS), True)
        for number in range(tasks)
    )
    members = tuple(_member(number) for number in range(instances))
    empty = GroupState(infos, members, _GENERATION, _NOW_MS, Rules(standbys=_STANDBYS))
    group = _after(empty, assign(empty))
    violations = validate(group, assign(group))
    if violations:
        raise AssertionError(violations[0])
    return group


def _member(number: int) -> MemberState:
    member_id = f"streamlet-{uuid.UUID(int=number * 0x9E3779B97F4A7C15 % 2**128)}"
    return MemberState(member_id, str(uuid.UUID(int=number + 1)), 0)


def _after(group: GroupState, plan: Plan, every: int = 1) -> GroupState:
    """What the members say once they have done as told; every so many learners are ready."""
    members = []
    for member in group.members:
        part = plan.members[member.member_id]
        copies = {task: Copy(Role.ACTIVE, group.generation, ready=True) for task in part.active}
        for number, task in enumerate(sorted(part.learner)):
            copies[task] = Copy(Role.LEARNER, ready=number % every == 0, lag=40_000)
        for task in part.standby:
            copies[task] = Copy(Role.STANDBY, ready=True, lag=12)
        generation = group.generation
        members.append(attrs.evolve(member, copies=copies, joined_generation=generation))
    return attrs.evolve(group, members=tuple(members), generation=group.generation + 1)


def _metadata_bytes() -> int:
    """All subscriptions and all assignments of one large group, as they travel."""
    group = _quiet(_METADATA_MEMBERS * _METADATA_TASKS_EACH, _METADATA_MEMBERS)
    plan = assign(group)
    subscriptions = sum(len(encode_subscription(_subscription(m, group))) for m in group.members)
    assignments = sum(len(encode_assignment(_assignment(m, plan))) for m in group.members)
    return subscriptions + assignments


def _subscription(member: MemberState, group: GroupState) -> Subscription:
    subtopologies = sorted({info.task.subtopology for info in group.tasks})
    return Subscription(
        instance=member.instance,
        name=f"host-{member.instance[:8]}",
        member=0,
        capacity=1.0,
        instance_members=1,
        subtopologies=tuple(number.to_bytes(8, "big") for number in subtopologies),
        copies=member.copies,
        joined_generation=member.joined_generation,
    )


def _assignment(member: MemberState, plan: Plan) -> Assignment:
    part = plan.members[member.member_id]
    return Assignment(
        active=part.active,
        learner=part.learner,
        standby=part.standby,
        leader=member.member_id,
        generation=_GENERATION,
        made_ms=_NOW_MS,
    )
