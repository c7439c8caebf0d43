"""The status of an application as a document, made of what its group knows; pure.

The metadata is as old as the last rebalance: a learner's lag is what it was when the learner last
joined, and a hand-over shows as ordered until the next rebalance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamlet.assignor.values import Copy, Role, Violation
from streamlet.group.envelope import STREAM
from streamlet.group.live import LiveGroup, LiveMember, tasks
from streamlet.types import TaskId, TopicPartition

_MOVING = frozenset({"PreparingRebalance", "CompletingRebalance"})


def document(
    group: LiveGroup,
    input_lag: Mapping[TopicPartition, int],
    violations: Sequence[Violation] = (),
) -> dict[str, Any]:
    """The status document, in plain values."""
    lag: dict[str, dict[str, int]] = {}
    for (topic, partition), records in sorted(input_lag.items()):
        lag.setdefault(topic, {})[str(partition)] = records
    return {
        "application": group.described.group,
        "group": _group_part(group),
        "instances": _instances(group),
        "handovers": _handovers(group),
        "input_lag": lag,
        "violations": [
            {
                "rule": violation.rule,
                "tasks": [str(task) for task in violation.tasks],
                "members": list(violation.members),
                "text": violation.text,
            }
            for violation in violations
        ],
    }


def _group_part(group: LiveGroup) -> dict[str, Any]:
    newest = group.newest
    return {
        "state": group.described.state,
        "protocol_type": group.described.protocol_type,
        "mode": mode(group),
        "generation": newest.generation if newest.generation >= 0 else None,
        "leader": _names(group).get(newest.leader),
        "last_rebalance": {"at_ms": newest.made_ms, "reason": newest.reason},
    }


def mode(group: LiveGroup) -> str | None:
    """The rebalancing mode the group acts in; None while nobody can be read."""
    if not group.members:
        return None
    if group.eager:
        return "eager"
    if group.described.protocol_type == STREAM:
        return "incremental"
    return "upgrading" if any(member.subscription for member in group.members) else None


def _names(group: LiveGroup) -> dict[str, str]:
    return {member.described.member_id: member.name for member in group.members}


def _instances(group: LiveGroup) -> list[dict[str, Any]]:
    together: dict[str, list[LiveMember]] = {}
    for member in group.members:
        key = member.said.instance or member.described.member_id
        together.setdefault(key, []).append(member)
    stateful = {info.task for info in tasks(group) if info.stateful}
    learned = {task for m in group.members for task in m.told.learner}
    return [
        {
            "name": members[0].said.name or members[0].described.client_id,
            "process_id": members[0].said.instance,
            "capacity": members[0].said.capacity,
            "tags": dict(sorted(members[0].said.tags.items())),
            "leaving": _leaving(members),
            "members": [_member(group, member, stateful, learned) for member in members],
        }
        for members in together.values()
    ]


def _leaving(members: Sequence[LiveMember]) -> dict[str, int | None] | None:
    marks = [member.said.leaving for member in members if member.said.leaving is not None]
    if not marks:
        return None
    first = min(marks, key=lambda mark: mark.since_ms)
    return {"since_ms": first.since_ms, "deadline_ms": first.deadline_ms}


def _member(
    group: LiveGroup, member: LiveMember, stateful: set[TaskId], learned: set[TaskId]
) -> dict[str, Any]:
    copies = member.said.copies
    return {
        "member": member.name,
        "member_id": member.described.member_id,
        "instance_id": member.described.instance_id,
        "state": member_state(group, member),
        "tasks": [
            _task(task, role, copies.get(task), task in stateful, task in learned)
            for task, role in member.tasks
        ],
    }


def member_state(group: LiveGroup, member: LiveMember) -> str:
    """What a member does, in Kafka Streams' words for a client's state."""
    if group.described.state in _MOVING:
        return "REBALANCING"
    leaving = member.said.leaving is not None or member.told.leave
    return "PENDING_SHUTDOWN" if leaving else "RUNNING"


def _task(
    task: TaskId, role: Role, copy: Copy | None, stateful: bool, learned: bool
) -> dict[str, Any]:
    learner = role is Role.LEARNER
    lag = None if copy is None else copy.lag
    return {
        "task": str(task),
        "role": role.value,
        "isStateful": stateful,
        "isLearner": learner,
        "beingLearned": role is Role.ACTIVE and learned,
        "isReady": (copy is not None and copy.ready) if learner else None,
        "lag": 0 if role is Role.ACTIVE else lag,
    }


def _handovers(group: LiveGroup) -> list[dict[str, Any]]:
    """Every task on its way from one member to another, by task."""
    names = _names(group)
    owners = {
        task: member
        for member in group.members
        for task, role in member.tasks
        if role is Role.ACTIVE
    }
    found: list[dict[str, Any]] = []
    for member in group.members:
        told = member.told
        for task, source in told.pending.items():
            found.append(_handover(task, names.get(source, source), member, "ordered"))
        for task in told.learner:
            copy = member.said.copies.get(task)
            owner = owners.get(task)
            stage = "ready" if copy is not None and copy.ready else "learning"
            found.append(_handover(task, owner.name if owner else None, member, stage))
    return sorted(found, key=lambda one: (TaskId.parse(one["task"]), one["to"]))


def _handover(task: TaskId, source: str | None, target: LiveMember, stage: str) -> dict[str, Any]:
    # How far a copy is, its holder alone knows between two rebalances.
    return {
        "task": str(task),
        "from": source,
        "to": target.name,
        "stage": stage,
        "restored": None,
        "end": None,
        "rate": None,
        "eta_s": None,
    }
