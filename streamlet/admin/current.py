"""A live group as it is right now: its assignments, and its members' reports since; pure.

The coordinator knows what the last rebalance decided. Between two rebalances the members carry that
out and report it in the control topic, each for itself and a moment later. A report from before a
member applied the last assignment does not count, so reports are compared by generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from streamlet.admin.advice import InstanceSample
from streamlet.admin.snapshot import GroupSnapshot, InstanceSnapshot, MemberSnapshot, by_name
from streamlet.assignor.values import Role, Violation
from streamlet.control.values import Mark, MemberProgress, TaskProgress
from streamlet.control.view import ControlView
from streamlet.rebalance.values import Subscription
from streamlet.types import TaskId

#: What a member is whose task is a copy that it reads.
_COPIES = frozenset({"learner", "standby", "pending"})


def named(group: GroupSnapshot, control: ControlView) -> GroupSnapshot:
    """The group with the names that its members reported, where a rebalance hides their own."""
    members = (_named(member, control) for member in group.members)
    return attrs.evolve(group, members=tuple(sorted(members, key=by_name)))


def _named(member: MemberSnapshot, control: ControlView) -> MemberSnapshot:
    report = control.progress_of(member.described.member_id)
    if member.subscription is not None or report is None:
        return member
    name = instance_name(control, report.instance)
    return attrs.evolve(member, subscription=Subscription(report.instance, name, report.number))


def instance_name(control: ControlView, process_id: str) -> str:
    """The name of an instance as its members reported it, its process id if they did not."""
    names = (
        member.member.removesuffix(f"-{member.number}")
        for member in control.progress.values()
        if member.instance == process_id
    )
    return next(names, process_id)


@attrs.frozen
class OpenHandover:
    """A task that is moving. Stages: learning, ready, ordered, released, active."""

    task: TaskId
    source: str | None
    target: MemberSnapshot
    stage: str
    progress: TaskProgress | None


@attrs.frozen
class CurrentGroup:
    """A group with its control topic beside it; without one it is as of the last rebalance."""

    group: GroupSnapshot
    control: ControlView = attrs.field(factory=ControlView)

    @property
    def instances(self) -> tuple[InstanceSnapshot, ...]:
        """The instances that the members belong to, by name."""
        return self.group.instances

    @property
    def marks(self) -> dict[str, Mark]:
        """The marks of instances that are there, by process id."""
        there = {one.key for one in self.instances}
        return {key: mark for key, mark in self.control.marks.items() if key in there}

    def report(self, member: MemberSnapshot) -> MemberProgress | None:
        """The report of a member on its present assignment; None if there is none yet."""
        report = self.control.progress_of(member.described.member_id)
        fresh = report is not None and report.generation >= self.group.newest.generation
        return report if fresh else None

    def task(self, member: MemberSnapshot, task: TaskId) -> TaskProgress | None:
        """The report on one task of that assignment."""
        report = self.report(member)
        return None if report is None else report.task(str(task))

    def copy(self, member: MemberSnapshot, task: TaskId) -> TaskProgress | None:
        """The progress of its copy of a task, by its last report in whatever generation."""
        report = self.control.progress_of(member.described.member_id)
        found = None if report is None else report.task(str(task))
        return found if found is not None and found.role in _COPIES else None

    def waits(self, report: TaskProgress | None) -> dict[str, Any] | None:
        """The task whose commit a task waits for, the instance that has it, and since when."""
        if report is None or report.waits_for is None:
            return None
        owner = self._owner(TaskId.parse(report.waits_for))
        instances = (one.name for one in self.instances if owner in one.members)
        return {
            "task": report.waits_for,
            "instance": next(instances, None),
            "since_s": report.waits_s or 0,
        }

    def problem(self, report: TaskProgress | None) -> str | None:
        """The reason why a task stands still; None if it does not."""
        waits = self.waits(report)
        if report is None or report.problem is not None or waits is None:
            return None if report is None else report.problem
        owner = f"of {waits['instance']}" if waits["instance"] else "that no instance has"
        return f"waits for {waits['task']} {owner} since {waits['since_s']} s"

    def roles(self, member: MemberSnapshot) -> list[tuple[TaskId, Role]]:
        """The tasks of its assignment, with what they are to it by now."""
        return [(task, self._role(member, task, role)) for task, role in member.tasks]

    def _role(self, member: MemberSnapshot, task: TaskId, assigned: Role) -> Role:
        report = self.task(member, task)
        if report is None or report.role not in _ROLES:
            return assigned
        return _ROLES[report.role]

    def handovers(self) -> list[OpenHandover]:
        """Every task on its way from one member to another, by task; none that has arrived."""
        found = [one for member in self.group.members for one in self._to(member)]
        return sorted(found, key=lambda one: (one.task, one.target.name))

    def _to(self, member: MemberSnapshot) -> Iterator[OpenHandover]:
        by_id = {one.described.member_id: one for one in self.group.members}
        for task, source_id in member.assigned.pending.items():
            stage = self._stage(task, by_id.get(source_id), member)
            if stage is not None:
                source = by_id[source_id].name if source_id in by_id else self._name(source_id)
                report = self.task(member, task) or self.copy(member, task)
                yield OpenHandover(task, source, member, stage, report)
        for task in member.assigned.learner:
            report = self.copy(member, task)
            before = member.reported.copies.get(task)
            ready = report.stage == "ready" if report else before is not None and before.ready
            owner = self._owner(task)
            stage = "ready" if ready else "learning"
            yield OpenHandover(task, owner.name if owner else None, member, stage, report)

    def _name(self, member_id: str) -> str:
        """The name of a member that is gone, its id if it is not known."""
        report = self.control.progress_of(member_id)
        return member_id if report is None else report.member

    def _stage(
        self, task: TaskId, source: MemberSnapshot | None, target: MemberSnapshot
    ) -> str | None:
        """The stage of an ordered hand-over; None once the task runs at its target."""
        there = self.task(target, task)
        if there is not None and there.role == "active":
            return None if there.stage == "running" else "active"
        here = None if source is None else self.task(source, task)
        if source is None or (here is not None and here.role == "released"):
            return "released"
        return "ordered"

    def _owner(self, task: TaskId) -> MemberSnapshot | None:
        return next(
            (
                m
                for m in self.group.members
                if task in m.assigned.active or task in m.assigned.release
            ),
            None,
        )

    def violations(self) -> list[Violation]:
        """The violations that members' reports show.

        Words are a moment old and of different moments: only what stays counts.
        """
        return [
            *self._twice_active(),
            *self._strange_copies(),
            *self._standing_still(),
            *self._misplaced(),
        ]

    def _standing_still(self) -> Iterator[Violation]:
        """Check T1: tasks that process nothing until an operator acts."""
        for member in self.group.members:
            report = self.report(member)
            for one in () if report is None else report.tasks:
                problem = self.problem(one)
                if problem is not None:
                    task, member_id = TaskId.parse(one.task), member.described.member_id
                    yield Violation("T1", f"stands still: {problem}", (task,), (member_id,))

    def _misplaced(self) -> Iterator[Violation]:
        """Check T2: topics with keys outside the partitions that their partitioners choose."""
        by_topic: dict[str, Violation] = {}
        for member in self.group.members:
            report, member_id = self.report(member), member.described.member_id
            for one in () if report is None else report.tasks:
                if one.misplaced is None:
                    continue
                topic = one.misplaced.partition(": ")[0]  # members may have seen other shares of it
                found = by_topic.get(topic, Violation("T2", one.misplaced))
                tasks = (*found.tasks, TaskId.parse(one.task))
                members = tuple(dict.fromkeys((*found.members, member_id)))
                by_topic[topic] = attrs.evolve(found, tasks=tasks, members=members)
        yield from by_topic.values()

    def _twice_active(self) -> Iterator[Violation]:
        """U1: two members that run one task."""
        running: dict[str, list[str]] = {}
        for member in self.group.members:
            report = self.report(member)
            for one in () if report is None else report.tasks:
                if one.role == "active" and one.stage == "running":
                    running.setdefault(one.task, []).append(member.described.member_id)
        for task, members in sorted(running.items()):
            if len(members) > 1:
                text = f"{len(members)} members say that they run {task}"
                yield Violation("U1", text, (TaskId.parse(task),), tuple(members))

    def _strange_copies(self) -> Iterator[Violation]:
        """U13: copies that a member keeps reading although it was not given them."""
        for member in self.group.members:
            report, assigned = self.report(member), {task for task, _ in member.tasks}
            reads = [] if report is None else [t for t in report.tasks if t.role in _COPIES]
            extra = sorted(TaskId.parse(one.task) for one in reads)
            extra = [task for task in extra if task not in assigned]
            if extra:
                text = f"{member.name} still follows copies that it was not given"
                yield Violation("U13", text, tuple(extra), (member.described.member_id,))


def loads(present: CurrentGroup) -> list[InstanceSample]:
    """The instances as advice needs them."""
    return [
        InstanceSample(
            one.name,
            one.reported.capacity,
            len(one.members),
            _busy(present.control.progress_of(m.described.member_id) for m in one.members),
            leaving=one.key in present.control.marks or one.leaving,
        )
        for one in present.instances
    ]


def _busy(reports: Iterable[MemberProgress | None]) -> float | None:
    """The members' mean share of busy time; None unless all of them report it."""
    shares = [None if report is None else report.busy for report in reports]
    known = [busy for busy in shares if busy is not None]
    return sum(known) / len(known) if known and len(known) == len(shares) else None


_ROLES = {role.value: role for role in Role if role is not Role.DORMANT}
