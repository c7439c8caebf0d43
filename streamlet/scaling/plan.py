"""Plans a scale-down before any instance is marked: pure.

The moves come from the assignor itself, asked what it would do with these instances marked and
every budget wide open: the budgets decide when a task moves, hardly ever where to. What happens
meanwhile (a member joins, a task is late) may still change a destination.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from streamlet.admin.snapshot import InstanceSnapshot
from streamlet.assignor.assign import assign
from streamlet.assignor.values import GroupState, MemberPlan, MemberState, Role, Rules
from streamlet.rebalance.leader import Assignor
from streamlet.scaling.leavers import Burden
from streamlet.scaling.present import owners
from streamlet.types import TaskId

#: What a worker with nothing else to do restores, bytes of changelog per second:
#: ``python -m bench restore`` gave 186,000 keys of 110 bytes on one of two cores.
RESTORE_BYTES_PER_S = 20_000_000
#: What it takes besides: until copying begins and all have left, and for each hand-over.
AROUND_S = 2.0
HANDOVER_S = 0.25

_UNBOUNDED = 1 << 30


def as_json(result: Any) -> dict[str, Any]:
    """A result of a command as JSON has it, by its fields; tuples are lists."""

    def plain(_: object, __: object, value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value

    return attrs.asdict(result, value_serializer=plain)


@attrs.frozen
class TaskMove:
    """A stateful task that changes its instance; ``source`` and ``target`` are members' names.

    ``bytes``: changelog to be read, 0 where the target keeps a warm copy. ``target`` is None where
    the plan does not say: in a group that moves tasks in two rounds, or if all leave.
    """

    task: TaskId
    source: str
    target: str | None
    bytes: int

    def as_dict(self) -> dict[str, Any]:
        """In plain values, as commands print it."""
        return {
            "task": str(self.task),
            "from": self.source,
            "to": self.target,
            "bytes": self.bytes,
        }


@attrs.frozen
class ScaleDownPlan:
    """The instances that leave and stay, and the moves; ``stateless``: moves without state."""

    leaving: tuple[InstanceSnapshot, ...]
    staying: tuple[InstanceSnapshot, ...]
    moves: tuple[TaskMove, ...]
    stateless: int
    estimate_s: float

    @property
    def bytes(self) -> int:
        """State to be copied, in bytes of changelog."""
        return sum(move.bytes for move in self.moves)


def burdens(state: GroupState, sizes: Mapping[TaskId, int]) -> dict[str, Burden]:
    """Per instance (process id), what others would need if it left."""
    stateful = {info.task for info in state.tasks if info.stateful}
    found: dict[str, tuple[dict[TaskId, int], dict[TaskId, int]]] = {}
    for member in state.members:
        runs, keeps = found.setdefault(member.instance, ({}, {}))
        for task, copy in member.copies.items():
            if task in stateful and copy.role is Role.ACTIVE:
                runs[task] = sizes.get(task, 0)
            elif task in stateful and copy.role is Role.STANDBY and copy.ready:
                keeps[task] = sizes.get(task, 0)
    return {instance: Burden(runs, keeps) for instance, (runs, keeps) in found.items()}


def make_plan(
    state: GroupState,
    all_instances: Sequence[InstanceSnapshot],
    sizes: Mapping[TaskId, int],
    *,
    share: float = 1.0,
    assignor: Assignor = assign,
) -> ScaleDownPlan:
    """Plan for a group some of whose instances bear a mark.

    Args:
        state: the group as it is, marks included.
        all_instances: its instances.
        sizes: bytes of each stateful task's changelogs.
        share: of its time a worker that runs tasks may spend on copies (``restore.max.share``).
        assignor: the application's own, if it has one.
    """
    leaving = {member.instance for member in state.members if member.leaving is not None}
    names = _names(all_instances)
    running = {task: owner for task, owner in owners(state).items() if owner.instance in leaving}
    stateful = {info.task for info in state.tasks if info.stateful}
    targets = _targets(assignor(attrs.evolve(state, rules=_unbounded(state.rules))).members)
    moves = [
        _move(task, running[task], targets.get(task), state, sizes, names)
        for task in sorted(running.keys() & stateful)
    ]
    return ScaleDownPlan(
        tuple(one for one in all_instances if one.key in leaving),
        tuple(one for one in all_instances if one.key not in leaving),
        tuple(moves),
        len(running.keys() - stateful),
        estimate_s(moves, share),
    )


def estimate_s(moves: Sequence[TaskMove], share: float) -> float:
    """The estimated duration of the moves: members copy in parallel, each one task after another.

    The rates are those of a test machine: the estimate is no promise.
    """
    if not moves:
        return 0.0
    copied: Counter[str | None] = Counter()
    handed: Counter[str | None] = Counter()
    for move in moves:
        copied[move.target] += move.bytes
        handed[move.target] += 1
    rate = RESTORE_BYTES_PER_S * share
    return AROUND_S + max(copied[to] / rate + handed[to] * HANDOVER_S for to in handed)


def _names(all_instances: Sequence[InstanceSnapshot]) -> dict[str, str]:
    members = (member for instance in all_instances for member in instance.members)
    return {member.described.member_id: member.name for member in members}


def _unbounded(rules: Rules) -> Rules:
    return attrs.evolve(
        rules,
        max_learners_member=_UNBOUNDED,
        max_learners_source=_UNBOUNDED,
        max_learners_group=_UNBOUNDED,
        max_moves=0,
        deferral_ms=0,
        initial_delay_ms=0,
    )


def _targets(parts: Mapping[str, MemberPlan]) -> dict[TaskId, str]:
    """Member ids that take tasks over: who learns it, or gets it at once."""
    found: dict[TaskId, str] = {}
    for member, part in sorted(parts.items()):
        found |= dict.fromkeys(part.learner, member)
    for member, part in sorted(parts.items()):
        found |= dict.fromkeys(part.pending, member)
    return found


def _move(
    task: TaskId,
    source: MemberState,
    target: str | None,
    state: GroupState,
    sizes: Mapping[TaskId, int],
    names: Mapping[str, str],
) -> TaskMove:
    warm = target is not None and _keeps_warm(state, target, task)
    return TaskMove(
        task,
        names[source.member_id],
        None if target is None else names[target],
        0 if warm else sizes.get(task, 0),
    )


def _keeps_warm(state: GroupState, member_id: str, task: TaskId) -> bool:
    for member in state.members:
        if member.member_id == member_id:
            copy = member.copies.get(task)
            return copy is not None and copy.ready
    return False
