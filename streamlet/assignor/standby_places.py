"""The standbys of one task while they are planned, and the load of every instance with them.

``standbys`` chooses, ``standby_moves`` moves; both work on these.
"""

from __future__ import annotations

import enum
import heapq
from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

from streamlet.assignor.claims import Worth, known_lag, worth
from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.target import TargetAssignment
from streamlet.assignor.values import Copy, Role

#: The values of the rack tags of an instance, None where it lacks one.
Tags = tuple[str | None, ...]


class Warmth(enum.IntEnum):
    """The distance of a copy from being a standby that has caught up; lower is better."""

    CAUGHT_UP = 0
    PREVIOUS_OWNER = 1
    CATCHING_UP = 2
    ON_DISK = 3
    NOTHING = 4


#: How two copies of a task compare: warmth, lag, instance.
Rank = tuple[int, int, int]


@attrs.define
class TaskStandbys:
    """One task's standbys in this round.

    ``busy``: instances that may not hold one more copy of the task. ``releaser``: the member that
    hands the task over in this round; ``next_standby``: the instance whose active copy becomes a
    standby once the task has been handed over. ``waits``: the task has no owner for now.
    ``held``: copies outside of ``busy`` by instance, with the member that holds each.
    ``chosen``: instances that keep the standbys. ``begins``: of those where a successor of another
    standby begins, the member. ``moves``: one of the standbys is on its way to another instance;
    ``would_move``: it could be, were all of them caught up.
    """

    task: int
    busy: set[int] = attrs.field(factory=set)
    releaser: int = ABSENT
    next_standby: int = ABSENT
    waits: bool = False
    held: dict[int, tuple[int, Copy]] = attrs.field(factory=dict)
    chosen: list[int] = attrs.field(factory=list)
    begins: dict[int, int] = attrs.field(factory=dict)
    moves: bool = False
    would_move: bool = False

    def rank(self, instance: int) -> Rank:
        """The warmth of an instance's copy; the lags of copies that are ready do not differ."""
        if instance not in self.held:
            return (Warmth.NOTHING, 0, instance)
        copy = self.held[instance][1]
        return (_warmth(copy), 0 if copy.ready else known_lag(copy), instance)

    def stands(self, instance: int) -> bool:
        """True if the instance holds a copy that is a standby or as good as one."""
        return self.rank(instance)[0] < Warmth.ON_DISK

    def is_ready(self, instance: int) -> bool:
        """True if the copy of an instance has caught up."""
        return instance in self.held and self.held[instance][1].ready

    def takes(self, instance: int) -> bool:
        """True if the instance could keep one more standby of the task."""
        return instance not in self.busy and instance not in self.chosen

    def is_new(self) -> bool:
        """True if one of the standbys begins in this round."""
        return not all(map(self.stands, self.chosen))

    def coming(self) -> list[int]:
        """Instances whose standby has not caught up yet."""
        return [instance for instance in self.chosen if not self.is_ready(instance)]

    def meanwhile(self) -> list[int]:
        """Instances whose standby is not wanted any more, but is ahead of one that is to come."""
        coming = self.coming()
        if not coming:
            return []
        last = max(self.rank(instance)[:2] for instance in coming)
        ahead = [
            instance
            for instance in self.held
            if instance not in self.chosen
            and self.stands(instance)
            and self.rank(instance)[:2] < last
        ]
        return sorted(ahead, key=self.rank)[: len(coming)]


@attrs.define
class InstanceLoads:
    """The load of every instance, active tasks and standbys, and which is the emptiest.

    ``tags`` are those of each instance that standbys should be spread over; ``members`` counts the
    tasks of each member.
    """

    view: View
    scale: list[int]
    load: list[int]
    tags: list[Tags]
    members: Counter[int]
    heaps: dict[Tags, list[tuple[int, int]]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, view: View, assignment: TargetAssignment, members: Counter[int]) -> InstanceLoads:
        """Loads without any standby: the active tasks where they will be."""
        tags = [view.rack(instance) for instance in range(len(view.instances))]
        return cls(
            view, assignment.instance_load.scale, list(assignment.instance_load.load), tags, members
        )

    def open(self) -> None:
        """Order the instances by load; to be called before the emptiest is asked for."""
        self.heaps = {}
        for number, instance in enumerate(self.view.instances):
            if instance.stays:
                self.heaps.setdefault(self.tags[number], []).append(self._entry(number))
        for heap in self.heaps.values():
            heapq.heapify(heap)

    def add(self, instance: int, task: int) -> None:
        """Count a standby for an instance."""
        self.load[instance] += self.view.tasks[task].weight

    def remove(self, instance: int, task: int) -> None:
        """Take a standby out of its instance's load."""
        self.load[instance] -= self.view.tasks[task].weight
        heapq.heappush(self.heaps[self.tags[instance]], self._entry(instance))

    def seat(self, standbys: TaskStandbys, instance: int) -> int:
        """The member that keeps a standby: the one that has the copy, or has the fewest tasks."""
        member, copy = standbys.held.get(instance, (standbys.begins.get(instance, ABSENT), None))
        if member == ABSENT:
            runners = self.view.runners(instance, standbys.task)
            member = min(runners, key=lambda m: (self.members[m], m))
        if instance not in standbys.begins and (copy is None or copy.role is not Role.STANDBY):
            self.members[member] += 1
        return member

    def relative(self, instance: int) -> int:
        """The load relative to capacity, in units that are the same for all instances."""
        return self.load[instance] * self.scale[instance]

    def emptiest(self, standbys: TaskStandbys) -> Iterable[int]:
        """The emptiest instance of each set of tags that can keep one more standby."""
        found = (self._emptiest(heap, standbys) for heap in self.heaps.values())
        return [instance for instance in found if instance != ABSENT]

    def _emptiest(self, heap: list[tuple[int, int]], standbys: TaskStandbys) -> int:
        aside: list[tuple[int, int]] = []
        found = ABSENT
        while heap and found == ABSENT:
            entry = heapq.heappop(heap)
            now = self._entry(entry[1])
            if entry != now:
                heapq.heappush(heap, now)  # its load has changed since
                continue
            aside.append(entry)
            if standbys.takes(entry[1]) and self.view.instance_can_run(entry[1], standbys.task):
                found = entry[1]
        for entry in aside:
            heapq.heappush(heap, entry)
        return found

    def _entry(self, instance: int) -> tuple[int, int]:
        return (self.relative(instance), instance)

    def clashes(self, standbys: TaskStandbys, chosen: Sequence[int]) -> tuple[int, ...]:
        """Per tag, how many standbys share its value with the active task, and with each other.

        To differ from the active task counts more than to differ from each other, and the first
        tag counts more than the next.
        """
        numbers: list[int] = []
        for tag in range(len(self.view.group.rules.rack_tags)):
            values = [self.tags[i][tag] for i in chosen if self.tags[i][tag] is not None]
            active = [self.tags[i][tag] for i in standbys.busy]
            numbers.append(sum(active.count(value) for value in values))
            numbers.append(sum(values[:n].count(value) for n, value in enumerate(values)))
        return tuple(numbers)


def _warmth(copy: Copy) -> Warmth:
    if copy.role is Role.STANDBY:
        return Warmth.CAUGHT_UP if copy.ready else Warmth.CATCHING_UP
    if copy.role is Role.RELEASED and worth(copy) is Worth.PREVIOUS_OWNER:
        return Warmth.PREVIOUS_OWNER
    return Warmth.ON_DISK
