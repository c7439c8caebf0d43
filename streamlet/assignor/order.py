"""The group in sorted order and by number, so that nothing later depends on the order of the input.

Every later phase works on small whole numbers: the n-th task, member or instance of this view.
Members are sorted by their static id where they have one, else by member id; an instance comes
where its first member comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import attrs

from streamlet.assignor.values import Copy, GroupState, Leaving, MemberState, TaskInfo
from streamlet.types import TaskId

#: Stands for "no member" or "no instance" wherever a number is asked for.
ABSENT = -1


@attrs.frozen
class Instance:
    """One process with its members; ``runs`` is what at least one of them can run (None: all)."""

    name: str
    members: tuple[int, ...]
    capacity: Fraction
    runs: frozenset[int] | None
    leaving: Leaving | None
    newcomer: bool
    tags: dict[str, str]

    @property
    def stays(self) -> bool:
        """True if it may gain anything."""
        return self.leaving is None


@attrs.frozen(eq=False)
class View:
    """The group by number.

    ``holders`` lists, per task, the members that hold a copy, in member order.
    """

    group: GroupState
    tasks: tuple[TaskInfo, ...]
    members: tuple[MemberState, ...]
    instances: tuple[Instance, ...]
    instance_of: tuple[int, ...]
    holders: tuple[tuple[tuple[int, Copy], ...], ...]

    @classmethod
    def of(cls, group: GroupState) -> View:
        """Sort and number everything; copies of tasks there are not are left out."""
        tasks = tuple(sorted(group.tasks, key=_by_id))
        members = tuple(sorted(group.members, key=lambda m: (m.sort_key, m.member_id)))
        instances = _instances(members)
        instance_of = [ABSENT] * len(members)
        for number, instance in enumerate(instances):
            for member in instance.members:
                instance_of[member] = number
        return cls(group, tasks, members, instances, tuple(instance_of), _holders(tasks, members))

    def member_can_run(self, member: int, task: int) -> bool:
        """True if the member's own topology has this task."""
        runs = self.members[member].runs
        return runs is None or self.tasks[task].task.subtopology in runs

    def instance_can_run(self, instance: int, task: int) -> bool:
        """True if any member of the instance can run the task."""
        runs = self.instances[instance].runs
        return runs is None or self.tasks[task].task.subtopology in runs

    def instance_can_learn(self, instance: int, task: int) -> bool:
        """True if any member of the instance can run the task and learn."""
        return any(self.members[m].learners for m in self.runners(instance, task))

    def runners(self, instance: int, task: int) -> list[int]:
        """The members of the instance that can run the task, in order."""
        return [m for m in self.instances[instance].members if self.member_can_run(m, task)]

    def rack(self, instance: int) -> tuple[str | None, ...]:
        """The values of the rack tags of an instance, None where it lacks one."""
        tags = self.instances[instance].tags
        return tuple(tags.get(tag) for tag in self.group.rules.rack_tags)

    def member_id(self, member: int) -> str:
        """The member's id as the coordinator knows it."""
        return self.members[member].member_id


@lru_cache(maxsize=256)  # members repeat a few capacities, and reading one takes 3 µs
def exact(number: float) -> Fraction:
    """The decimal text of a float as an exact number: 0.2 is one fifth."""
    return Fraction(str(number))


def _by_id(info: TaskInfo) -> tuple[int, int]:
    return (info.task.subtopology, info.task.partition)


def _instances(members: tuple[MemberState, ...]) -> tuple[Instance, ...]:
    by_name: dict[str, list[int]] = {}
    for number, member in enumerate(members):
        by_name.setdefault(member.instance, []).append(number)
    return tuple(_instance(name, numbers, members) for name, numbers in by_name.items())


def _instance(name: str, numbers: list[int], members: tuple[MemberState, ...]) -> Instance:
    own = [members[number] for number in numbers]
    return Instance(
        name=name,
        members=tuple(numbers),
        capacity=max(exact(member.capacity) for member in own),
        runs=_united(member.runs for member in own),
        leaving=_soonest([member.leaving for member in own if member.leaving is not None]),
        newcomer=all(member.joined_generation < 0 for member in own),
        tags=own[0].tags,
    )


def _united(runs: Iterable[frozenset[int] | None]) -> frozenset[int] | None:
    united: frozenset[int] = frozenset()
    for some in runs:
        if some is None:
            return None
        united |= some
    return united


def _soonest(marks: list[Leaving]) -> Leaving | None:
    """The mark of an instance, whose members may have read the control topic to different ends."""
    if not marks:
        return None
    deadlines = [mark.deadline_ms for mark in marks if mark.deadline_ms is not None]
    return Leaving(min(mark.since_ms for mark in marks), min(deadlines, default=None))


def _holders(
    tasks: tuple[TaskInfo, ...], members: tuple[MemberState, ...]
) -> tuple[tuple[tuple[int, Copy], ...], ...]:
    number_of: dict[TaskId, int] = {info.task: number for number, info in enumerate(tasks)}
    holders: list[list[tuple[int, Copy]]] = [[] for _ in tasks]
    for member, state in enumerate(members):
        for task, copy in state.copies.items():
            number = number_of.get(task)
            if number is not None:
                holders[number].append((member, copy))
    return tuple(map(tuple, holders))
