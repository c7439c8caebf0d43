"""The status of an application as a document, made of what its group knows; pure.

The group's metadata is as old as the last rebalance; what became of it since, members say in the
control topic. Without their word a learner's lag is what it was when it last joined, and a
hand-over shows as ordered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streamlet.admin.current import CurrentGroup, OpenHandover, instance_name, named
from streamlet.admin.snapshot import (
    GroupSnapshot,
    InstanceSnapshot,
    MemberSnapshot,
    tasks,
    unassigned,
)
from streamlet.admin.unread import by_topic
from streamlet.assignor.values import Copy, Role, Violation
from streamlet.control.values import ALL, MemberProgress, PauseMark, TaskProgress
from streamlet.control.view import ControlView
from streamlet.rebalance.envelope import STREAM
from streamlet.rebalance.values import staying
from streamlet.types import TaskId, TopicPartition

_MOVING = frozenset({"PreparingRebalance", "CompletingRebalance"})


def document(
    group: GroupSnapshot,
    input_lag: Mapping[TopicPartition, int],
    violations: Sequence[Violation] = (),
    control: ControlView | None = None,
    unread: Mapping[TopicPartition, int] | None = None,
) -> dict[str, Any]:
    """The status document, in plain values.

    ``control`` is what the members have said since the last rebalance; None: nothing is known.
    ``unread`` are the input partitions that no task reads, with the records in them: they are lag.
    """
    view = control or ControlView()
    present = CurrentGroup(named(group, view), view)
    return {
        "application": group.described.group,
        "group": _group_part(group),
        "instances": _instances(present),
        "handovers": [_handover(one) for one in present.handovers()],
        "unassigned": [one.as_dict() for one in unassigned(group)],
        "input_lag": _by_topic({**input_lag, **(unread or {})}),
        "unread": _by_topic(unread or {}),
        "repartitions": _repartitions(present),
        "shutdown": _shutdown(view),
        "paused": pauses_shown(view.pauses.values()),
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


def _by_topic(records: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    topics = by_topic(records)
    return {topic: {str(p): n for p, n in parts.items()} for topic, parts in topics.items()}


def _repartitions(present: CurrentGroup) -> list[dict[str, Any]]:
    """The repartition topics; one is exact if no member knows a reason why it is not."""
    reasons: dict[str, str] = {}
    for member in present.group.members:
        report = present.report(member)
        for topic, reason in (report.repartitions or ()) if report is not None else ():
            reasons[topic] = reasons.get(topic) or reason
    return [
        {"topic": topic, "exact": not reason, "reason": reason or None}
        for topic, reason in sorted(reasons.items())
    ]


def pauses_shown(pauses: Iterable[PauseMark]) -> list[dict[str, Any]]:
    """The pauses in a document; the subtopology is None for all of the application."""
    return [
        {
            "subtopology": None if one.what == ALL else int(one.what),
            "since_ms": one.since_ms,
            "by": one.by,
        }
        for one in pauses
    ]


def _shutdown(control: ControlView) -> dict[str, Any] | None:
    """The last time that an instance had the whole application end; None: none ever did.

    Instances that started afterwards run all the same.
    """
    found = control.shutdown
    if found is None:
        return None
    return {
        "by": found.name,
        "process_id": found.instance,
        "at_ms": found.at_ms,
        "reason": found.reason,
    }


def _group_part(group: GroupSnapshot) -> dict[str, Any]:
    newest, leader = group.newest, group.leader
    return {
        "state": group.described.state,
        "protocol_type": group.described.protocol_type,
        "mode": mode(group),
        "generation": newest.generation if newest.generation >= 0 else None,
        "leader": None if leader is None else leader.name,
        "last_rebalance": {"at_ms": newest.made_ms, "reason": newest.reason},
    }


def mode(group: GroupSnapshot) -> str | None:
    """The rebalancing mode the group acts in; None while no member can be read."""
    if not group.members:
        return None
    if group.eager:
        return "eager"
    if group.described.protocol_type == STREAM:
        return "incremental"
    return "upgrading" if any(member.subscription for member in group.members) else None


def _instances(present: CurrentGroup) -> list[dict[str, Any]]:
    group = present.group
    stateful = {info.task for info in tasks(group) if info.stateful}
    learned = {task for m in group.members for task in m.assigned.learner}
    return [
        {
            "name": one.name,
            "process_id": one.reported.instance,
            "capacity": one.reported.capacity,
            "tags": dict(sorted(one.reported.tags.items())),
            "leaving": _leaving(present, one),
            "members": [_member(present, member, stateful, learned) for member in one.members],
        }
        for one in present.instances
    ]


def _leaving(present: CurrentGroup, instance: InstanceSnapshot) -> dict[str, Any] | None:
    """Since when and until when; a mark is seen before its members have rejoined with it.

    ``waits_for``: the instances that replace it and are not there, by name, or by process id if
    they reported nothing lately.
    """
    control = present.control
    asked = [one.reported.leaving for one in instance.members if one.reported.leaving is not None]
    mark = control.marks.get(instance.key)
    first = min(asked, key=lambda one: one.since_ms) if asked else mark
    if first is None:
        return None
    there = staying(member.reported for member in present.group.members)
    missing = [one for one in first.successors if one not in there]
    return {
        "since_ms": first.since_ms,
        "deadline_ms": first.deadline_ms,
        "waits_for": [instance_name(control, one) for one in missing],
    }


def _member(
    present: CurrentGroup, member: MemberSnapshot, stateful: set[TaskId], learned: set[TaskId]
) -> dict[str, Any]:
    copies, report = member.reported.copies, present.report(member)
    state = member_state(present.group, member)
    return {
        "member": member.name,
        "member_id": member.described.member_id,
        "instance_id": member.described.instance_id,
        "disk_fails": member.reported.disk_fails,
        "state": report.state
        if report is not None and report.state and state == "RUNNING"
        else state,
        "tasks": [
            _task(task, role, copies.get(task), present, member, stateful, learned)
            for task, role in present.roles(member)
        ],
        "global_tables": _global_tables(report),
        "memory": _memory(report),
        "latency_ms": None if report is None else _latency_ms(report),
    }


def _latency_ms(report: MemberProgress) -> dict[str, int] | None:
    """The longest times of late from a record to its output, by topic; None if not reported."""
    return None if report.latencies is None else dict(report.latencies)


def _memory(report: MemberProgress | None) -> dict[str, dict[str, int]] | None:
    """The parts of a member's memory: bytes used, and at most; None if not reported."""
    if report is None or report.memory is None:
        return None
    return {part: {"bytes": used, "most": most} for part, used, most in report.memory}


def _global_tables(report: MemberProgress | None) -> dict[str, int] | None:
    """Records that a member's global tables lag behind, by topic; None if not reported."""
    return None if report is None or report.global_tables is None else dict(report.global_tables)


def member_state(group: GroupSnapshot, member: MemberSnapshot) -> str:
    """The state of a member, in Kafka Streams' words for a client's state."""
    if group.described.state in _MOVING:
        return "REBALANCING"
    leaving = member.reported.leaving is not None or member.assigned.leave
    return "PENDING_SHUTDOWN" if leaving else "RUNNING"


def _task(
    task: TaskId,
    role: Role,
    copy: Copy | None,
    present: CurrentGroup,
    member: MemberSnapshot,
    stateful: set[TaskId],
    learned: set[TaskId],
) -> dict[str, Any]:
    """A task's row: ``copy`` as of the last rebalance, the rest from later reports."""
    report = present.task(member, task)
    learner = role is Role.LEARNER
    lag = None if copy is None else copy.lag
    ready = copy is not None and copy.ready
    if report is not None:
        lag = lag if report.lag is None else report.lag
        ready = report.stage == "ready"
    return {
        "task": str(task),
        "role": role.value,
        "isStateful": task in stateful,
        "isLearner": learner,
        "beingLearned": role is Role.ACTIVE and task in learned,
        "isReady": ready if learner else None,
        "lag": _to_restore(report) if role is Role.ACTIVE else lag,
        "problem": present.problem(report),
        "waits_for": present.waits(report),
        "misplaced": None if report is None else report.misplaced,
        "paused": report is not None and report.paused,
        "late": None if report is None or role is not Role.ACTIVE else report.late or 0,
        "dropped": None if report is None or role is not Role.ACTIVE else report.dropped or 0,
    }


def _to_restore(report: TaskProgress | None) -> int:
    """Changelog records that an active task still has to read before it runs."""
    restoring = report is not None and report.stage == "restoring"
    if not restoring or report is None or report.end is None or report.restored is None:
        return 0
    return max(0, report.end - report.restored)


def _handover(one: OpenHandover) -> dict[str, Any]:
    report = one.progress
    return {
        "task": str(one.task),
        "from": one.source,
        "to": one.target.name,
        "stage": one.stage,
        "restored": None if report is None else report.restored,
        "end": None if report is None else report.end,
        "rate": None if report is None else report.rate,
        "eta_s": None if report is None else report.eta_s,
    }
