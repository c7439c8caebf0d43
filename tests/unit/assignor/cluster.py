"""A tiny model of members that carry out plans and rejoin, for the tests of the assignor.

It knows neither network nor log: a round is one call of ``assign``, its plan is validated and
carried out at once or in part, and what the members then say of themselves is the next input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from streamlet.assignor.assign import assign
from streamlet.assignor.validate import validate
from streamlet.assignor.values import (
    Copy,
    GroupState,
    Leaving,
    MemberPlan,
    MemberState,
    Plan,
    Role,
    Rules,
    TaskInfo,
    Violation,
)
from streamlet.types import TaskId

FAR = 1_000_000  # the lag of a copy that has just been begun


class Broken(AssertionError):
    """A plan broke a rule."""


@attrs.define
class Model:
    """One member. ``copies`` is what it will say at its next join, ``surrender`` what it stops."""

    member_id: str
    instance: str
    number: int = 0
    capacity: float = 1.0
    tags: dict[str, str] = attrs.field(factory=dict)
    learners: bool = True
    runs: frozenset[int] | None = None
    leaving: Leaving | None = None
    joined_generation: int = -1
    deadline_ms: int | None = None
    copies: dict[TaskId, Copy] = attrs.field(factory=dict)
    being_learned: frozenset[TaskId] = frozenset()
    awaited: frozenset[TaskId] = frozenset()
    took_over: bool = False
    revoking: bool = False

    def state(self) -> MemberState:
        return MemberState(
            self.member_id,
            self.instance,
            self.number,
            capacity=self.capacity,
            copies=dict(self.copies),
            tags=self.tags,
            leaving=self.leaving,
            learners=self.learners,
            runs=self.runs,
            joined_generation=self.joined_generation,
            deferral_deadline_ms=self.deadline_ms,
        )

    def holds(self, *roles: Role) -> set[TaskId]:
        return {task for task, copy in self.copies.items() if copy.role in roles}


@attrs.define
class Cluster:
    """The group, its clock and what has happened to its tasks."""

    tasks: dict[TaskId, TaskInfo]
    rules: Rules = attrs.field(factory=Rules)
    members: dict[str, Model] = attrs.field(factory=dict)
    generation: int = 1
    now_ms: int = 0
    rounds: int = 0
    #: Tasks that changed their instance, each as often as it did so while its owner lived.
    moved: list[TaskId] = attrs.field(factory=list)
    history: list[str | Plan] = attrs.field(factory=list)
    exited: list[str] = attrs.field(factory=list)
    last: Plan | None = None
    assign: Callable[[GroupState], Plan] = assign

    # --- events --------------------------------------------------------------------------------

    def join(self, instance: str, members: int = 1, **traits: object) -> None:
        """An instance arrives."""
        taken = len(self.history)
        for number in range(members):
            name = f"{instance}-{number}#{taken}"
            model = Model(name, instance, number, capacity=float(members))
            self.members[name] = attrs.evolve(model, **traits)  # type: ignore[arg-type]
        self.history.append(f"join {instance} x{members} {traits or ''}")

    def crash(self, instance: str) -> None:
        """An instance dies with all its members."""
        self.history.append(f"crash {instance}")
        for name in [m.member_id for m in self.of(instance)]:
            del self.members[name]

    def restart(self, instance: str) -> None:
        """An instance dies and comes back with new member ids and its disk."""
        self.history.append(f"restart {instance}")
        for old in self.of(instance):
            del self.members[old.member_id]
            name = f"{instance}-{old.number}#{len(self.history)}"
            copies = {
                task: Copy(Role.DORMANT, lag=copy.lag or 0)
                for task, copy in old.copies.items()
                if self.tasks[task].stateful
            }
            fresh = attrs.evolve(
                old, member_id=name, copies=copies, joined_generation=-1, being_learned=frozenset()
            )
            self.members[name] = attrs.evolve(fresh, deadline_ms=None, awaited=frozenset())

    def drain(self, instance: str, timeout_ms: int | None = None) -> None:
        """An instance is marked as leaving."""
        self.history.append(f"drain {instance} {timeout_ms}")
        deadline = None if timeout_ms is None else self.now_ms + timeout_ms
        for model in self.of(instance):
            model.leaving = Leaving(self.now_ms, deadline)

    def cancel_drain(self, instance: str) -> None:
        """The mark is taken away."""
        self.history.append(f"cancel {instance}")
        for model in self.of(instance):
            model.leaving = None

    def ready(self, tasks: Iterable[TaskId] | None = None) -> bool:
        """Learners and standbys catch up; tells whether the group hears of one."""
        wanted = None if tasks is None else set(tasks)
        news = False
        for model in self.members.values():
            for task, copy in model.copies.items():
                behind = copy.role in (Role.LEARNER, Role.STANDBY) and not copy.ready
                if behind and (wanted is None or task in wanted):
                    model.copies[task] = attrs.evolve(copy, ready=True, lag=0)
                    news |= copy.role is Role.LEARNER or task in model.awaited
        return news

    def of(self, instance: str) -> list[Model]:
        return [model for model in self.members.values() if model.instance == instance]

    # --- a round -------------------------------------------------------------------------------

    def state(self) -> GroupState:
        members = tuple(model.state() for model in self.members.values())
        return GroupState(
            tuple(self.tasks.values()), members, self.generation, self.now_ms, self.rules
        )

    def round(self, *, stage: int = 2) -> Plan:
        """All join, the plan is made, checked and carried out.

        ``stage`` says how far hand-overs get before the next round: 0 not begun, 1 released,
        2 taken over.
        """
        self._begin()
        state = self.state()
        plan = self.assign(state)
        self.rounds += 1
        self.history.append(plan)
        if violations := validate(state, plan, custom=self.assign is not assign):
            raise Broken(self.story(violations))
        owners = self.owners()
        for name, part in plan.members.items():
            self._carry_out(self.members[name], part, stage)
        for task, instance in self.owners().items():
            if owners.get(task, instance) != instance:
                self.moved.append(task)
        self.last = plan
        for model in self.members.values():
            model.deadline_ms = plan.deferral_deadline_ms
            if model.joined_generation < 0:
                model.joined_generation = self.generation
        return plan

    def _begin(self) -> None:
        self.generation += 1
        for model in self.members.values():
            stopped = set(model.being_learned) if self.rules.handover == "surrender" else set()
            if self.rules.mode == "eager":
                stopped = model.holds(Role.ACTIVE)
            for task in stopped & model.holds(Role.ACTIVE):
                model.copies[task] = Copy(Role.RELEASED, ready=True, lag=0)

    def _carry_out(self, model: Model, part: MemberPlan, stage: int) -> None:
        before = model.copies
        after: dict[TaskId, Copy] = {}
        for task in part.active:
            after[task] = Copy(Role.ACTIVE, self.generation, ready=True, lag=0)
        for task in part.pending:
            role = Role.ACTIVE if stage == 2 else Role.PENDING
            after[task] = Copy(role, self.generation, ready=True, lag=0)
        for task in part.release:
            released = Copy(Role.RELEASED, ready=True, lag=0)
            after[task] = released if stage else before[task]
            if stage and task in part.standby:
                after[task] = Copy(Role.STANDBY, ready=True, lag=0)
        for task in part.revoke:
            after[task] = Copy(Role.RELEASED, ready=True, lag=0)
        for role, tasks in ((Role.LEARNER, part.learner), (Role.STANDBY, part.standby)):
            for task in tasks - part.release.keys():
                old = before.get(task, Copy(role, lag=FAR))
                after[task] = Copy(role, ready=old.ready, lag=old.lag)
        for task, old in before.items():
            if task not in after and self.tasks[task].stateful:
                after[task] = Copy(Role.DORMANT, lag=old.lag)
        model.copies = after
        model.being_learned, model.awaited = part.being_learned, part.awaited
        model.took_over = bool(part.pending) and stage == 2
        model.revoking = bool(part.revoke)

    def owners(self) -> dict[TaskId, str]:
        """The instance that runs each task, or ran it last, of those that live."""
        owners: dict[TaskId, str] = {}
        for role in (Role.RELEASED, Role.ACTIVE):
            for model in self.members.values():
                owners.update({task: model.instance for task in model.holds(role)})
        return owners

    # --- until it is quiet -----------------------------------------------------------------------

    def settle(self, most: int = 1000, *, stage: int = 2) -> int:
        """Force a round, then go on until nothing asks for another; tells how many there were."""
        before = self.rounds
        plan = self.round(stage=stage)
        while self._wants_more(plan):
            if self.rounds - before >= most:
                raise Broken(self.story(f"not quiet after {most} rounds"))
            plan = self.round()
        return self.rounds - before

    def _wants_more(self, plan: Plan) -> bool:
        left = self._leave()
        ready = self.ready()
        open_order = any(model.holds(Role.PENDING) for model in self.members.values())
        # With standbys a member that took tasks over has the group plan again.
        over = self.rules.standbys > 0 and any(m.took_over for m in self.members.values())
        if plan.follow_up_ms is not None and not (ready or left or plan.follow_up_ms == 0):
            self.now_ms = max(self.now_ms, plan.follow_up_ms)
        return left or ready or open_order or over or plan.follow_up_ms is not None

    def _leave(self) -> bool:
        """Members on their way out that own nothing any more go."""
        going = [
            model.member_id
            for model in self.members.values()
            if model.leaving is not None
            and not model.revoking
            and not model.holds(Role.ACTIVE, Role.PENDING)
            and not self._shares_work(model)
        ]
        for name in going:
            self.exited.append(self.members.pop(name).instance)
        return bool(going)

    def _shares_work(self, model: Model) -> bool:
        return any(other.holds(Role.ACTIVE, Role.PENDING) for other in self.of(model.instance))

    def story(self, why: object) -> str:
        listed = why if isinstance(why, str) else "\n".join(map(str, _iterated(why)))
        events = [e if isinstance(e, str) else f"round {shown(e)}" for e in self.history[-40:]]
        return "\n".join([*events, str(self.rules), listed])

    def loads(self) -> list[int]:
        """How many tasks each instance runs, sorted."""
        names = {model.instance for model in self.members.values()}
        owners = list(self.owners().values())
        return sorted(owners.count(name) for name in names)


def _iterated(why: object) -> list[object]:
    return list(why) if isinstance(why, (list, tuple)) else [why]


def shown(plan: Plan) -> str:
    """A plan on one line."""
    words: list[str] = []
    for name, part in sorted(plan.members.items()):
        mine: list[str] = []
        for sign, tasks in (
            ("", part.active),
            ("l", part.learner),
            ("s", part.standby),
            ("-", part.revoke),
        ):
            mine += [f"{sign}{task}" for task in sorted(tasks)]
        mine += [f"{task}->{next_owner}" for task, next_owner in sorted(part.release.items())]
        mine += [f"{task}<-" for task in sorted(part.pending)]
        words.append(f"{name}({' '.join(mine)}{' leave' if part.leave else ''})")
    ends = f" follow {plan.follow_up_ms}" if plan.follow_up_ms is not None else ""
    waits = f" waiting {sorted(map(str, plan.unassigned))}" if plan.unassigned else ""
    return " ".join(words) + ends + waits


def stateful(count: int, *, weight: int = 1, subtopologies: int = 1) -> dict[TaskId, TaskInfo]:
    """So many tasks with state."""
    ids = [TaskId(number % subtopologies, number // subtopologies) for number in range(count)]
    return {task: TaskInfo(task, True, weight) for task in ids}


def stateless(count: int, subtopology: int = 9) -> dict[TaskId, TaskInfo]:
    """So many tasks without state."""
    ids = [TaskId(subtopology, number) for number in range(count)]
    return {task: TaskInfo(task, False) for task in ids}


__all__ = ["FAR", "Broken", "Cluster", "Model", "Violation", "shown", "stateful", "stateless"]
