"""Spreading an instance's tasks over its members.

A task moves between the members of one instance without its state being copied: the state folder
is the instance's. So an instance is chosen first, by copies and load, and a member then by load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from streamlet.assignor.order import ABSENT, View


@attrs.define
class MemberLoad:
    """The load of every member for one kind of task, tasks on their way to it included.

    ``beside`` is that of the other kind, as far as it is known: of members that are equal a task
    gets to the one with less of it, so that few tasks of both kinds are not all on one.
    """

    view: View
    load: Counter[int] = attrs.field(factory=Counter)
    beside: Mapping[int, int] = attrs.field(factory=Counter)

    def add(self, task: int, member: int) -> None:
        """Count a task for a member."""
        self.load[member] += self.view.tasks[task].weight

    def remove(self, task: int, member: int) -> None:
        """No longer count a task for a member."""
        self.load[member] -= self.view.tasks[task].weight

    def emptiest(self, task: int, instance: int, *, learners: bool = False) -> int:
        """The member of the instance that can run (or learn) the task and has least to do."""
        runners = self.view.runners(instance, task)
        if learners:
            runners = [member for member in runners if self.view.members[member].learners]
        return min(runners, key=lambda m: (*self._has(m), m), default=ABSENT)

    def choose(
        self, task: int, instance: int, holder: int = ABSENT, *, learners: bool = False
    ) -> int:
        """The member that holds the copy, unless that would leave the members uneven."""
        emptiest = self.emptiest(task, instance, learners=learners)
        if ABSENT in (holder, emptiest) or self._has(holder) > self._has(emptiest):
            return emptiest
        return holder

    def _has(self, member: int) -> tuple[int, int]:
        return self.load[member], self.beside[member]


def uneven(
    member_load: MemberLoad, instance: int, owned: Iterable[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Moves within an instance, (task, new member), until its members are even.

    ``owned`` are (task, member) pairs that may move. Even is: no two members differ by more than
    the heaviest of these tasks, or by more than one task if all weigh 1; nor do they with all that
    lies beside, as far as these tasks stay even among themselves.
    """
    view = member_load.view
    members = view.instances[instance].members
    by_member: dict[int, list[int]] = {member: [] for member in members}
    for task, member in sorted(owned):
        by_member[member].append(task)
    heaviest = max(
        (view.tasks[task].weight for tasks in by_member.values() for task in tasks), default=0
    )
    moves: list[tuple[int, int]] = []
    while True:
        fullest = max(members, key=lambda m: (member_load.load[m], -m))
        move = None
        if member_load.load[fullest] - min(member_load.load[m] for m in members) > heaviest:
            move = _helpful(member_load, by_member[fullest], instance, fullest)
        elif not moves:
            beside = member_load.beside
            fullest = max(members, key=lambda m: (member_load.load[m] + beside[m], -m))
            move = _helpful_beside(member_load, by_member[fullest], instance, fullest, heaviest)
            return [] if move is None else [move]
        if move is None:
            return moves
        task, target = move
        by_member[fullest].remove(task)
        member_load.remove(task, fullest)
        member_load.add(task, target)
        moves.append(move)


def _helpful_beside(
    member_load: MemberLoad, tasks: list[int], instance: int, fullest: int, heaviest: int
) -> tuple[int, int] | None:
    """The first task whose move brings two members closer with all that they have to do.

    Their tasks of this kind still differ by no more than the heaviest of them. The member is the
    one that the task is given to when it is free.
    """
    load, beside = member_load.load, member_load.beside
    for task in tasks:
        weight = member_load.view.tasks[task].weight
        member_load.remove(task, fullest)
        target = member_load.choose(task, instance, fullest)
        rest = load[fullest]
        member_load.add(task, fullest)
        if target in (ABSENT, fullest):
            continue
        gap = rest + weight + beside[fullest] - load[target] - beside[target]
        if gap > heaviest and load[target] + weight - rest <= heaviest:
            return task, target
    return None


def _helpful(
    member_load: MemberLoad, tasks: list[int], instance: int, fullest: int
) -> tuple[int, int] | None:
    """The first task whose move leaves the two members closer than they were."""
    for task in tasks:
        target = member_load.emptiest(task, instance)
        weight = member_load.view.tasks[task].weight
        if target != ABSENT and member_load.load[target] + weight < member_load.load[fullest]:
            return task, target
    return None
