"""Spreading an instance's tasks over its members.

A task moves between the members of one instance without its state being copied: the state folder
is the instance's. So an instance is chosen first, by copies and load, and a member then by load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs

from streamlet.assignor.order import ABSENT, View


@attrs.define
class MemberLoad:
    """The load of every member for one kind of task, tasks on their way to it included."""

    view: View
    load: Counter[int] = attrs.field(factory=Counter)

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
        return min(runners, key=lambda m: (self.load[m], m), default=ABSENT)

    def choose(
        self, task: int, instance: int, holder: int = ABSENT, *, learners: bool = False
    ) -> int:
        """The member that holds the copy, unless that would leave the members uneven."""
        emptiest = self.emptiest(task, instance, learners=learners)
        if ABSENT in (holder, emptiest) or self.load[holder] > self.load[emptiest]:
            return emptiest
        return holder


def uneven(
    member_load: MemberLoad, instance: int, owned: Iterable[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Moves within an instance, (task, new member), until its members are even.

    ``owned`` are (task, member) pairs that may move. Even is: no two members differ by more than
    the heaviest of these tasks, or by more than one task if all weigh 1.
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
        if move is None:
            return moves
        task, target = move
        by_member[fullest].remove(task)
        member_load.remove(task, fullest)
        member_load.add(task, target)
        moves.append(move)


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
