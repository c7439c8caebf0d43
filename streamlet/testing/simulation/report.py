"""The report of a simulation: its rounds as data, the end, and both as a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.assignor.validate import MOST_METADATA_BYTES
from streamlet.assignor.values import Plan, Role
from streamlet.rebalance import wire
from streamlet.rebalance.envelope import open_assignment, open_subscription
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.tasks.task_record import OURS
from streamlet.testing.coordinator import Round
from streamlet.testing.simulation.checks import Broken
from streamlet.types import TaskId

if TYPE_CHECKING:
    from streamlet.testing.simulation.world import Planned, World


@attrs.define
class Totals:
    """Counted over all rounds."""

    learners: int = 0
    subscription_max: int = 0
    assignment_max: int = 0
    group_total: int = 0


class Recorder:
    """Turns the coordinator's finished rebalances into records as they come."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen = 0
        self.rounds: list[dict[str, Any]] = []
        self.totals = Totals()
        self.last_plan: Plan | None = None
        #: Tasks that a leader has planned for, or that were there from the start.
        self.known_tasks = set(world.cluster.specs)

    def catch_up(self, step: int) -> int:
        """Record rounds not recorded yet as of this step; tells how many there were."""
        new = self._world.coordinator.rounds[self._seen :]
        self._seen += len(new)
        for finished in new:
            self.rounds.append(self._record(step, finished))
        return len(new)

    def _record(self, step: int, finished: Round) -> dict[str, Any]:
        world = self._world
        planned = world.planned.get((finished.generation, finished.leader))
        kind = finished.protocol_type
        subscriptions = {
            i: wire.decode_subscription(open_subscription(data, kind).data)
            for i, _, data in finished.members
        }
        given = {
            i: wire.decode_assignment(open_assignment(data, kind))
            for i, data in finished.assignments.items()
        }
        self._count(finished, given)
        world.protocol.gathered(subscriptions, given)
        if planned is not None:
            self.last_plan = planned.plan
            self.known_tasks |= {info.task for info in planned.state.tasks}
        return {
            "step": step,
            "generation": finished.generation,
            "reason": "" if planned is None else planned.reason,
            "leader": world.name_of(finished.leader),
            "now_ms": finished.now_ms,
            "joined": {
                world.name_of(i): self._joined(i, one) for i, one in sorted(subscriptions.items())
            },
            "assigned": self._assigned(given),
            "follow_up": _follow_up(planned, finished.now_ms),
            "violations": [] if planned is None else self._violations(planned),
        }

    def _count(self, finished: Round, given: Mapping[str, Assignment]) -> None:
        totals, world = self.totals, self._world
        subscriptions = [len(data) for _, _, data in finished.members]
        assignments = [len(data) for data in finished.assignments.values()]
        total = sum(subscriptions) + sum(assignments)
        totals.subscription_max = max(totals.subscription_max, *subscriptions)
        totals.assignment_max = max(totals.assignment_max, *assignments)
        totals.group_total = max(totals.group_total, total)
        totals.learners = max(totals.learners, sum(len(one.learner) for one in given.values()))
        if total >= MOST_METADATA_BYTES:
            world.checks.note("U12", f"{total} bytes of metadata are too many")

    def _joined(self, member_id: str, subscription: Subscription) -> dict[str, Any]:
        member = self._world.by_id.get(member_id)
        surrendered = frozenset() if member is None else member.surrendered
        roles: dict[Role, set[TaskId]] = {role: set() for role in Role}
        for task, copy in subscription.copies.items():
            roles[copy.role].add(task)
        released = roles[Role.RELEASED]
        learner = roles[Role.LEARNER]
        names = self._world.cluster.labels
        return {
            "active": names(roles[Role.ACTIVE]),
            "surrendered": names(released & surrendered),
            "learner": names(learner),
            "ready": names(task for task in learner if subscription.copies[task].ready),
            "standby": names(roles[Role.STANDBY]),
            "pending": names(roles[Role.PENDING]),
            "released": names(released - surrendered),
            "leaving": subscription.leaving is not None,
        }

    def _assigned(self, given: Mapping[str, Assignment]) -> dict[str, Any]:
        world = self._world
        names = world.cluster.labels
        owner = {
            t: world.name_of(i) for i, one in given.items() for t in (*one.active, *one.revoke)
        }
        owner |= {t: world.name_of(i) for i, one in given.items() for t in one.release}
        return {
            world.name_of(member_id): {
                "active": names({*one.active, *one.release}),
                "being_learned": names(one.being_learned),
                "release": self._orders(one.release),
                "revoke": names(one.revoke),
                "pending": self._orders(one.pending),
                "learner": {world.cluster.label(t): owner.get(t) for t in sorted(one.learner)},
                "standby": names(one.standby),
                "leave": one.leave,
            }
            for member_id, one in sorted(given.items())
        }

    def _orders(self, orders: Mapping[TaskId, str]) -> dict[str, str]:
        world = self._world
        return {world.cluster.label(t): world.name_of(orders[t]) for t in sorted(orders)}

    def _violations(self, planned: Planned) -> list[dict[str, Any]]:
        world = self._world
        return [
            {
                "rule": one.rule,
                "tasks": world.cluster.labels(one.tasks),
                "members": world.names_of(one.members),
                "text": one.text,
            }
            for one in planned.violations
        ]


def _follow_up(planned: Planned | None, now_ms: int) -> str | int | None:
    due = None if planned is None else planned.plan.follow_up_ms
    if due is None:
        return None
    return "immediate" if due <= now_ms else due


def final_of(world: World) -> dict[str, Any]:
    """The final tasks of each member; crashed ones are left out."""
    names = world.cluster.labels
    found: dict[str, Any] = {}
    for instance in world.cluster.instances.values():
        live = {member.name: member for member in world.of(instance.spec.name)}
        for name in instance.spec.member_names:
            if name in live:
                member = live[name]
                claims = member.manager.claims
                copies = [i for i in member.manager.followed.copies.items() if i[0] not in claims]
                found[name] = {
                    "active": names(member.tasks(*OURS)),
                    "learner": names(t for t, c in copies if c.role is Role.LEARNER),
                    "standby": names(t for t, c in copies if c.role is Role.STANDBY),
                    "exited": False,
                }
            elif instance.exited or name in world.left:
                found[name] = {"active": [], "learner": [], "standby": [], "exited": True}
    return found


def as_dict(broken: Broken) -> dict[str, Any]:
    """A broken rule as data."""
    return {
        "rule": broken.rule,
        "tasks": list(broken.tasks),
        "members": list(broken.members),
        "text": broken.text,
    }


def table(result: Mapping[str, Any]) -> str:
    """The rounds as lines a person can follow, then the end and what was wrong."""
    lines = [result["name"], ""]
    for number, one in enumerate(result["rounds"], 1):
        head = f"round {number}  step {one['step']}  generation {one['generation']}"
        lines.append(f"{head}  at {one['now_ms']} ms  {one['reason']}")
        width = max(len(name) for name in one["assigned"])
        for name, part in one["assigned"].items():
            mark = "*" if name == one["leader"] else " "
            lines.append(f"  {mark}{name:<{width}}  {_part(part, one['joined'][name])}")
        if one["follow_up"] is not None:
            lines.append(f"   follow-up: {one['follow_up']}")
        lines += [f"   broken {bad['rule']}: {bad['text']}" for bad in one["violations"]]
    totals = result["totals"]
    lines += ["", "at the end"]
    for name, part in result["final"].items():
        what = "left" if part["exited"] else _words(part)
        lines.append(f"   {name}  {what}")
    lines.append("   " + ", ".join(f"{k} {v}" for k, v in totals.items()))
    lines += [f"broken {bad['rule']}: {bad['text']}" for bad in result["violations"]]
    return "\n".join(lines)


def _part(part: Mapping[str, Any], joined: Mapping[str, Any]) -> str:
    ready, learned = set(joined["ready"]), set(part["being_learned"])
    words = [f"{task}~" if task in learned else task for task in part["active"]]
    words = [word for word in words if word not in part["release"]]
    words += [f"{task}→{next_owner}" for task, next_owner in part["release"].items()]
    words += [f"{task}←{owner}" for task, owner in part["pending"].items()]
    words += [f"-{task}" for task in part["revoke"]]
    words += [f"({task}{'!' if task in ready else ''})" for task in part["learner"]]
    words += [f"[{task}]" for task in part["standby"]]
    ends = [
        word for word, holds in (("leave", part["leave"]), ("leaving", joined["leaving"])) if holds
    ]
    return " ".join([*words, *ends]) or "-"


def _words(part: Mapping[str, Iterable[str]]) -> str:
    words = [*part["active"]]
    words += [f"({task})" for task in part["learner"]]
    words += [f"[{task}]" for task in part["standby"]]
    return " ".join(words) or "-"
