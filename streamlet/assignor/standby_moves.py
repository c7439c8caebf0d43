"""Moves standbys to other instances: for their tags, and to even out the load.

A standby moves warm: its successor begins beside it, and it goes when the successor has caught up.
Until then each round finds the same move again, because the standby counts where it was. Inside the
band nothing moves; outside, each move lowers the excess. A standby that begins only in this round
goes elsewhere at no cost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from streamlet.assignor.learners import Budget
from streamlet.assignor.loads import InstanceLoad
from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.standby_places import InstanceLoads, TaskStandbys

#: Instances that one of the task's standbys might move to.
_Targets = Callable[[TaskStandbys], Iterable[int]]


def move_standbys(
    loads: InstanceLoads, placed: Sequence[TaskStandbys], budget: Budget, *, begin: bool
) -> None:
    """Go on with the moves under way that are of use, and begin others if ``begin`` says so.

    Changes what is chosen. The budgets for learners bound how many moves are under way.
    """
    instance_load = attrs.evolve(InstanceLoad.open(loads.view, sum(loads.load)), load=loads.load)
    _Moves(loads.view, loads, instance_load, budget, begin).plan(placed)


@attrs.define
class _Moves:
    """Moves of one round. ``begin``: new ones may begin."""

    view: View
    loads: InstanceLoads
    instance_load: InstanceLoad
    budget: Budget
    begin: bool

    def plan(self, placed: Sequence[TaskStandbys]) -> None:
        """Go on with what is under way, then begin: for the tags, then for the load."""
        uneven = self._is_uneven()
        if uneven:
            surplus = [s for s in placed if len(s.held) > len(s.chosen)]
            self._even_out(surplus, self._standing)
        for standbys in placed:
            self._count(standbys)
        if self.view.group.rules.rack_tags:
            for standbys in placed:
                self._spread(standbys)
        if uneven:
            movable = [standbys for standbys in placed if self.begin or standbys.is_new()]
            self._even_out([s for s in movable if len(s.held) > len(s.chosen)], self._on_disk)
            self._even_out(movable, self._without)

    def _is_uneven(self) -> bool:
        """True if the load of an instance that stays is outside its band."""
        bands, load = self.instance_load.bands, self.instance_load.load
        return any(
            stays and bands[i].excess(load[i]) > 0
            for i, stays in enumerate(self.instance_load.stays)
        )

    def _count(self, standbys: TaskStandbys) -> None:
        """Count a move that is under way."""
        standbys.moves = any(self.view.instances[i].stays for i in standbys.meanwhile())
        for instance in standbys.coming() if standbys.moves else ():
            if standbys.stands(instance):
                self.budget.spend(standbys.held[instance][0])

    def _move(self, standbys: TaskStandbys, source: int, target: int) -> bool:
        """Let a standby go from one instance to another; False if that may not begin now."""
        if standbys.stands(source) and not standbys.stands(target):
            member = self._learner(standbys, target)
            standbys.would_move |= member != ABSENT and bool(standbys.coming())
            if member == ABSENT or standbys.would_move:
                return False
            standbys.moves = True
            standbys.begins[target] = member
            self.loads.members[member] += 1
            self.budget.spend(member)
        standbys.chosen[standbys.chosen.index(source)] = target
        self.loads.remove(source, standbys.task)
        self.loads.add(target, standbys.task)
        return True

    def _learner(self, standbys: TaskStandbys, instance: int) -> int:
        """The member that may begin a successor there and report that it is ready, or absent."""
        if not self.begin or standbys.waits:
            return ABSENT
        members = self.view.runners(instance, standbys.task)
        if instance in standbys.held:
            members = [standbys.held[instance][0]]
        able = (
            (self.loads.members[m], m) for m in members if self._learns(m) and self.budget.allows(m)
        )
        return min(able, default=(0, ABSENT))[1]

    # -- targets -------------------------------------------------------------------------------

    def _standing(self, standbys: TaskStandbys) -> list[int]:
        """The standbys whose readiness the group will hear of, or has heard of."""
        return [
            instance
            for instance in self._holders(standbys)
            if standbys.stands(instance)
            and (standbys.is_ready(instance) or self._learns(standbys.held[instance][0]))
        ]

    def _learns(self, member: int) -> bool:
        return self.view.members[member].learners

    def _on_disk(self, standbys: TaskStandbys) -> list[int]:
        return [i for i in self._holders(standbys) if not standbys.stands(i)]

    def _without(self, standbys: TaskStandbys) -> list[int]:
        """The emptiest instances that are not catching up with the task already."""
        return [i for i in self.loads.emptiest(standbys) if not standbys.stands(i)]

    def _holders(self, standbys: TaskStandbys) -> list[int]:
        held = sorted(standbys.held)
        return [i for i in held if standbys.takes(i) and self.view.instances[i].stays]

    # -- tags ----------------------------------------------------------------------------------

    def _spread(self, standbys: TaskStandbys) -> None:
        """Move standbys of a task to where their tags clash less."""
        while not standbys.moves:
            now = self.loads.clashes(standbys, standbys.chosen)
            if not any(now):
                return
            targets = [*self._on_disk(standbys), *self._without(standbys)]
            ranked = sorted(
                (clashes, t not in standbys.held, self.loads.relative(t), t, source)
                for source in standbys.chosen
                for t in targets
                if (clashes := self._clashes_after(standbys, source, t)) < now
            )
            if not any(self._move(standbys, rank[-1], rank[-2]) for rank in ranked):
                return

    def _clashes_after(self, standbys: TaskStandbys, source: int, target: int) -> tuple[int, ...]:
        others = [instance for instance in standbys.chosen if instance != source]
        return self.loads.clashes(standbys, [*others, target])

    # -- load ----------------------------------------------------------------------------------

    def _even_out(self, placed: Iterable[TaskStandbys], targets: _Targets) -> None:
        """Move standbys off the fullest instances as long as that lowers the excess."""
        placed = list(placed)
        while self._round(placed, targets):
            pass

    def _round(self, placed: Sequence[TaskStandbys], targets: _Targets) -> bool:
        """Try every standby once, those of the fullest instance first; True if any moved."""
        of_instance: dict[int, list[TaskStandbys]] = {}
        for standbys in placed:
            for instance in standbys.chosen:
                of_instance.setdefault(instance, []).append(standbys)
        untried: dict[int, Iterator[TaskStandbys]] = {
            instance: iter(listed) for instance, listed in of_instance.items()
        }
        fullest = [(-self.loads.relative(instance), instance) for instance in untried]
        heapq.heapify(fullest)
        moved = False
        while fullest:
            source = heapq.heappop(fullest)[1]
            if self._relieve(source, untried[source], targets):
                heapq.heappush(fullest, (-self.loads.relative(source), source))
                moved = True
        return moved

    def _relieve(self, source: int, untried: Iterator[TaskStandbys], targets: _Targets) -> bool:
        """Move one standby off an instance; False once none can."""
        for standbys in untried:
            if self.loads.load[source] <= self.instance_load.bands[source].low:
                return False
            if source not in standbys.chosen or standbys.moves:
                continue
            weight = self.view.tasks[standbys.task].weight
            ranked = sorted(
                (-gain, self.loads.relative(target), target)
                for target in targets(standbys)
                if (gain := self.instance_load.gain(source, target, weight)) > 0
                and self._may_stand(standbys, source, target)
            )
            if any(self._move(standbys, source, rank[-1]) for rank in ranked):
                return True
        return False

    def _may_stand(self, standbys: TaskStandbys, source: int, target: int) -> bool:
        """True if the tags clash no more with the standby there."""
        now = self.loads.clashes(standbys, standbys.chosen)
        return self._clashes_after(standbys, source, target) <= now
