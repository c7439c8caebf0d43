"""Bringing every instance into its band by as few moves as there must be.

First the instances above their band give, to those below theirs while there are any; then those
still below take from the fullest. Each move must lower the total excess, so it ends.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import attrs

from streamlet.assignor.order import ABSENT
from streamlet.assignor.target import Likes, TargetAssignment

#: What tasks of one instance have in common as far as choosing among them goes:
#: weight, subtopology, owning member.
_Sort = tuple[int, int, int]


@attrs.frozen
class _Move:
    """A task that may go from one instance to another, and by how much that lowers the excess."""

    gain: int
    liked: bool
    task: int
    source: int
    target: int


def balance(assignment: TargetAssignment, movable: Mapping[int, int], likes: Likes) -> list[int]:
    """Move tasks until every instance is in its band or no move helps; tells which moved.

    ``movable`` says which tasks may move and which member owns each; one without an owner yet costs
    nothing and goes before others.
    """
    free = dict(movable)
    moved: dict[int, None] = {}
    while now := _one_pass(assignment, free, likes):
        moved |= dict.fromkeys(now)
        free |= dict.fromkeys(now, ABSENT)  # where it has not gone yet it can still go elsewhere
    return list(moved)


def _one_pass(assignment: TargetAssignment, movable: Mapping[int, int], likes: Likes) -> list[int]:
    """Move each task at most once."""
    market = _Market(assignment, movable, likes)
    moved: list[int] = []
    instances = range(len(assignment.view.instances))
    sources = sorted(instances, key=lambda i: (-assignment.instance_load.relative(i), i))
    takers = _Queue(
        assignment, lambda i: assignment.instance_load.room(i) > 0, market.rank_as_taker
    )
    for source in sources:
        skipped: list[int] = []
        while assignment.instance_load.over(source) and (
            move := market.best_from(source, takers, skipped)
        ):
            moved.append(market.carry_out(move))
            takers.changed(move.target)
        takers.restore(skipped)
    targets = sorted(instances, key=lambda i: (assignment.instance_load.relative(i), i))
    givers = _Queue(assignment, market.may_give, market.rank_as_giver)
    for target in targets:
        skipped = []
        while assignment.instance_load.under(target) and (
            move := market.best_to(target, givers, skipped)
        ):
            moved.append(market.carry_out(move))
            givers.changed(move.source)
        givers.changed(target)
        givers.restore(skipped)
    return moved


class _Queue:
    """Instances in an order that changes as loads change; stale entries are passed over."""

    def __init__(
        self,
        assignment: TargetAssignment,
        fits: Callable[[int], bool],
        rank: Callable[[int], tuple[int, ...]],
    ) -> None:
        self._fits = fits
        self._rank = rank
        self._heap: list[tuple[int, ...]] = []
        for instance, stays in enumerate(assignment.instance_load.stays):
            if stays:
                self.changed(instance)

    def changed(self, instance: int) -> None:
        """The instance's load has changed."""
        if self._fits(instance):
            heapq.heappush(self._heap, self._rank(instance))

    def walk(self, skipped: list[int]) -> Iterable[int]:
        """The instances, best first; those the caller passes over are collected in ``skipped``."""
        while self._heap:
            entry = self._heap[0]
            instance = entry[-1]
            if entry == self._rank(instance) and self._fits(instance):
                yield instance
                # Asked for the next one: this one is of no use to the caller.
                skipped.append(instance)
            heapq.heappop(self._heap)

    def restore(self, skipped: Iterable[int]) -> None:
        """Offer to the next caller what this one passed over."""
        for instance in skipped:
            self.changed(instance)


class _Market:
    """The possible moves between instances, and which of them is the best."""

    def __init__(
        self, assignment: TargetAssignment, movable: Mapping[int, int], likes: Likes
    ) -> None:
        self._assignment = assignment
        self._owner = movable
        self._pools: list[dict[_Sort, list[int]]] = [{} for _ in assignment.view.instances]
        self._member_load: Counter[int] = Counter()
        self._liked: list[dict[int, dict[_Sort, list[int]]]] = [
            {} for _ in assignment.view.instances
        ]
        self._sources: list[set[int]] = [set() for _ in assignment.view.instances]
        for task in sorted(movable, reverse=True):  # the lowest is popped first
            source = assignment.target_instance[task]
            self._pools[source].setdefault(self._sort(task), []).append(task)
            self._member_load[movable[task]] += assignment.view.tasks[task].weight
            for target in likes.get(task, ()):
                if target != source:
                    liked = self._liked[source].setdefault(target, {})
                    liked.setdefault(self._sort(task), []).append(task)
                    self._sources[target].add(source)

    def rank_as_taker(self, instance: int) -> tuple[int, ...]:
        """Sort key: instances below their band first, then newcomers, then the emptiest."""
        instance_load = self._assignment.instance_load
        return (
            int(instance_load.under(instance) == 0),
            int(not self._assignment.view.instances[instance].newcomer),
            instance_load.relative(instance),
            instance,
        )

    def rank_as_giver(self, instance: int) -> tuple[int, ...]:
        """The fullest first."""
        return (-self._assignment.instance_load.relative(instance), instance)

    def may_give(self, instance: int) -> bool:
        """True if the instance can give without falling below its band."""
        instance_load = self._assignment.instance_load
        return instance_load.load[instance] > instance_load.bands[instance].low

    def best_from(self, source: int, takers: _Queue, skipped: list[int]) -> _Move | None:
        """The best move out of an instance."""
        moves = [self._best(source, target, liked=True) for target in self._liked[source]]
        moves.append(
            next(filter(None, (self._best(source, t) for t in takers.walk(skipped))), None)
        )
        helpful = [move for move in moves if move is not None]
        return min(
            helpful,
            key=lambda m: (-m.gain, not m.liked, self.rank_as_taker(m.target)),
            default=None,
        )

    def best_to(self, target: int, givers: _Queue, skipped: list[int]) -> _Move | None:
        """The best move into an instance."""
        moves = [self._best(source, target, liked=True) for source in sorted(self._sources[target])]
        moves.append(
            next(filter(None, (self._best(s, target) for s in givers.walk(skipped))), None)
        )
        helpful = [move for move in moves if move is not None]
        return min(
            helpful,
            key=lambda m: (-m.gain, not m.liked, self.rank_as_giver(m.source)),
            default=None,
        )

    def carry_out(self, move: _Move) -> int:
        """Move the task; it does not move again in this plan."""
        task = move.task
        self._member_load[self._owner[task]] -= self._assignment.view.tasks[task].weight
        self._assignment.put(task, move.target)
        return task

    def _best(self, source: int, target: int, *, liked: bool = False) -> _Move | None:
        """The task to move from here to there, None if none lowers the excess."""
        if source == target or not self._assignment.instance_load.stays[target]:
            return None
        pools = self._liked[source].get(target, {}) if liked else self._pools[source]
        best: tuple[int, ...] | None = None
        for task in self._one_of_each(pools, source, target):
            weight, subtopology, member = self._sort(task)
            gain = self._assignment.instance_load.gain(source, target, weight)
            spread = self._assignment.spread
            rank = (
                gain,
                int(member == ABSENT),
                self._member_load[member],
                spread[source][subtopology] - spread[target][subtopology],
                -task,
            )
            if gain > 0 and (best is None or rank > best):
                best = rank
        return None if best is None else _Move(best[0], liked, -best[-1], source, target)

    def _one_of_each(
        self, pools: dict[_Sort, list[int]], source: int, target: int
    ) -> Iterable[int]:
        """The first task of each sort that the target can run; all of a sort are alike."""
        for pool in pools.values():
            while pool and self._assignment.target_instance[pool[-1]] != source:
                pool.pop()  # it has moved since
            if pool and self._assignment.able(target, pool[-1]):
                yield pool[-1]

    def _sort(self, task: int) -> _Sort:
        info = self._assignment.view.tasks[task]
        return (info.weight, info.task.subtopology, self._owner[task])
