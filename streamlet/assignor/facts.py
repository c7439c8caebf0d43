"""A group and a plan for it, turned round so that questions about one task have quick answers.

For ``validate`` only; it works on ids and shares nothing with the assignor's own view.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from streamlet.assignor.values import GroupState, MemberPlan, MemberState, Plan, Role, TaskInfo
from streamlet.types import TaskId

_ByTask = dict[TaskId, list[str]]


@attrs.frozen(eq=False)
class Facts:
    """The orders for each task and the claims on it, by member."""

    group: GroupState
    plan: Plan
    infos: dict[TaskId, TaskInfo]
    tasks: list[TaskId]  # in order
    states: dict[str, MemberState]
    active: _ByTask
    releasing: _ByTask
    pending: _ByTask
    revoking: _ByTask
    learning: _ByTask
    keeping: _ByTask
    claims: dict[TaskId, list[tuple[int, str, Role]]]
    leaving: dict[str, int | None]  # instances on their way out, with their deadlines

    @classmethod
    def of(cls, group: GroupState, plan: Plan) -> Facts:
        """Index both by task."""
        infos = {info.task: info for info in group.tasks}
        active, releasing, pending, revoking, learning, keeping = lists = [
            {task: list[str]() for task in infos} for _ in range(6)
        ]
        for member, part in sorted(plan.members.items()):
            roles = (
                part.active,
                part.release,
                part.pending,
                part.revoke,
                part.learner,
                part.standby,
            )
            for by_task, tasks in zip(lists, roles, strict=True):
                for task in tasks:
                    by_task[task].append(member)
        claims: dict[TaskId, list[tuple[int, str, Role]]] = {task: [] for task in infos}
        for member_state in group.members:
            for task, copy in member_state.copies.items():
                if task in infos and copy.role in (Role.ACTIVE, Role.PENDING):
                    claims[task].append((-copy.generation, member_state.member_id, copy.role))
        states = {member_state.member_id: member_state for member_state in group.members}
        for claim in claims.values():
            claim.sort()
        return cls(
            group,
            plan,
            infos,
            sorted(infos, key=lambda task: (task.subtopology, task.partition)),
            states,
            active,
            releasing,
            pending,
            revoking,
            learning,
            keeping,
            claims,
            _leaving(group),
        )

    @property
    def members(self) -> list[str]:
        """All members, in order."""
        return sorted(self.states)

    def state(self, member: str) -> MemberState:
        """The state of a member, as it reported it."""
        return self.states[member]

    def part(self, member: str) -> MemberPlan:
        """The part of the plan for a member."""
        return self.plan.members[member]

    def parts(self) -> Iterator[tuple[str, MemberPlan]]:
        """The part of the plan for each member, in order."""
        for member in self.members:
            yield member, self.plan.members[member]

    def role(self, member: str, task: TaskId) -> Role | None:
        """The role of a member's copy, as it reported it; None without one."""
        copy = self.states[member].copies.get(task)
        return None if copy is None else copy.role

    def owner(self, task: TaskId) -> str | None:
        """The member whose claim to run the task counts."""
        return next((m for _, m, role in self.claims[task] if role is Role.ACTIVE), None)

    def bound(self, task: TaskId) -> str | None:
        """The member that may have activated the task by an order, if none claims to run it."""
        if self.owner(task) is not None:
            return None
        return next((m for _, m, _ in self.claims[task]), None)

    def stateful(self, task: TaskId) -> bool:
        """True if the task has state."""
        return self.infos[task].stateful

    def can_run(self, member: str, task: TaskId) -> bool:
        """True if the member's topology has the task."""
        runs = self.states[member].runs
        return runs is None or task.subtopology in runs

    def holding(self, task: TaskId) -> list[str]:
        """Members that have a copy of the task while the plan is carried out, in order."""
        lists = (self.active, self.releasing, self.pending, self.revoking)
        more = (self.learning, self.keeping)
        return sorted({member for by_task in (*lists, *more) for member in by_task[task]})

    def is_leaving(self, member: str) -> bool:
        """True if the member's instance is on its way out."""
        return self.states[member].instance in self.leaving

    def is_late(self, member: str) -> bool:
        """True if its instance's time to leave is up."""
        deadline = self.leaving.get(self.states[member].instance)
        return deadline is not None and deadline <= self.group.now_ms

    def nobody_stays(self) -> bool:
        """True if all members leave."""
        return all(self.is_leaving(member) for member in self.states)

    def may_wait(self, task: TaskId) -> bool:
        """True if the task may stay unassigned: for a while, or because no member can have it."""
        if task not in self.plan.unassigned:
            return False
        able = [m for m in self.states if self.can_run(m, task) and not self.is_leaving(m)]
        return not able or self.plan.deferral_deadline_ms is not None


def _leaving(group: GroupState) -> dict[str, int | None]:
    leaving: dict[str, int | None] = {}
    for member in group.members:
        if member.leaving is not None:
            known = [member.leaving.deadline_ms, leaving.get(member.instance)]
            leaving[member.instance] = min((d for d in known if d is not None), default=None)
    return leaving
