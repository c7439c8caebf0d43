"""The loads of instances and of their members: how much each should carry, and how much it does.

All comparisons are made in whole numbers and fractions, so 12 tasks of an expected 10 are inside a
band of 20 %. A task moves between the members of one instance without its state being copied: the
state folder is the instance's. So an instance is chosen first, by copies and load, and a member
then by load.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

import attrs

from streamlet.assignor.order import ABSENT, View, exact


@attrs.frozen
class Band:
    """The loads an instance may have without anything being moved for it, both ends included."""

    low: int
    high: int

    @classmethod
    def around(cls, expected: Fraction, imbalance: Fraction) -> Band:
        """The band about an expected load; it always contains the whole numbers next to it."""
        return cls(
            low=min(math.ceil(expected * (1 - imbalance)), math.floor(expected)),
            high=max(math.floor(expected * (1 + imbalance)), math.ceil(expected)),
        )

    def excess(self, load: int) -> int:
        """By how much a load is outside."""
        return max(load - self.high, self.low - load, 0)


#: The band of an instance that leaves: it should end with nothing and may have nothing.
EMPTY = Band(0, 0)


@attrs.define
class InstanceLoad:
    """The load of every instance for one kind of task, while a plan is being made."""

    bands: list[Band]
    stays: list[bool]
    scale: list[int]  # load * scale is the load relative to capacity, comparable in whole numbers
    load: list[int]

    @classmethod
    def open(cls, view: View, total: int) -> InstanceLoad:
        """An empty ledger for tasks that weigh ``total`` together."""
        stays = [instance.stays for instance in view.instances]
        shares = _shares(view)
        imbalance = exact(view.group.rules.imbalance)
        bands = [
            Band.around(total * share, imbalance) if stay else EMPTY
            for share, stay in zip(shares, stays, strict=True)
        ]
        return cls(bands, stays, _scales(shares), [0] * len(stays))

    def relative(self, instance: int) -> int:
        """The load relative to capacity, in units that are the same for all instances."""
        return self.load[instance] * self.scale[instance]

    def under(self, instance: int) -> int:
        """The load that is missing to the lower end of the band."""
        return max(self.bands[instance].low - self.load[instance], 0)

    def over(self, instance: int) -> int:
        """The load beyond the upper end of the band."""
        return max(self.load[instance] - self.bands[instance].high, 0)

    def room(self, instance: int) -> int:
        """The load that still fits under the upper end of the band."""
        return max(self.bands[instance].high - self.load[instance], 0)

    def change(self, instance: int, weight: int) -> int:
        """By how much an instance's excess grows if its load changes by ``weight``."""
        band, load = self.bands[instance], self.load[instance]
        return band.excess(load + weight) - band.excess(load)

    def gain(self, source: int, target: int, weight: int) -> int:
        """By how much moving ``weight`` from source to target lowers the two instances' excess."""
        return -self.change(source, -weight) - self.change(target, weight)


def _shares(view: View) -> list[Fraction]:
    """Each instance's share of the whole; leaving ones have none."""
    capacities = [i.capacity if i.stays else Fraction(0) for i in view.instances]
    whole = sum(capacities, Fraction(0))
    if whole <= 0:  # capacities of 0 everywhere: then all are alike
        capacities = [Fraction(int(i.stays)) for i in view.instances]
        whole = sum(capacities, Fraction(0))
    return [capacity / whole if whole else capacity for capacity in capacities]


def _scales(shares: list[Fraction]) -> list[int]:
    common = math.lcm(*(share.numerator for share in shares if share))
    multiple = common * math.lcm(*(share.denominator for share in shares))
    # No capacity: as good as full already, so such an instance comes last.
    return [int(multiple / share) if share else multiple * multiple for share in shares]


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
