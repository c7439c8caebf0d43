"""The target assignment of one kind of task: sticky, weighted, inside the band.

The assignment starts from where the tasks are (or are already on their way to). Tasks without an
instance are placed where they are needed most; then, while an instance is outside its band, the
task goes over that lowers the excess most. With unit weights each such step lowers it as far as one
task can, so the number of moves is the smallest there is; inside the band nothing moves.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from streamlet.assignor.loads import InstanceLoad
from streamlet.assignor.order import ABSENT, View

#: Instances that hold a copy of a task, the best copy first.
Likes = Mapping[int, Sequence[int]]


@attrs.define
class TargetAssignment:
    """The instance of each task of one kind, while the target is being found.

    ``spread`` counts, per instance, the tasks of each subtopology. ``able`` tells whether an
    instance may be given a task; it changes from "can run it" to "can learn it" on the way.
    """

    view: View
    instance_load: InstanceLoad
    target_instance: dict[int, int]
    spread: list[Counter[int]]
    able: Callable[[int, int], bool]

    @classmethod
    def of(cls, view: View, tasks: Iterable[int]) -> TargetAssignment:
        """An empty assignment whose bands are those of the given tasks."""
        total = sum(view.tasks[task].weight for task in tasks)
        spread: list[Counter[int]] = [Counter() for _ in view.instances]
        return cls(view, InstanceLoad.open(view, total), {}, spread, view.instance_can_run)

    def copy(self) -> TargetAssignment:
        """Another one to try things on."""
        instance_load = attrs.evolve(self.instance_load, load=list(self.instance_load.load))
        spread = [Counter(of_instance) for of_instance in self.spread]
        return attrs.evolve(
            self,
            instance_load=instance_load,
            target_instance=dict(self.target_instance),
            spread=spread,
        )

    def put(self, task: int, instance: int) -> None:
        """Put a task on this instance, and nowhere else."""
        info = self.view.tasks[task]
        before = self.target_instance.pop(task, ABSENT)
        if before != ABSENT:
            self.instance_load.load[before] -= info.weight
            self.spread[before][info.task.subtopology] -= 1
        if instance != ABSENT:
            self.target_instance[task] = instance
            self.instance_load.load[instance] += info.weight
            self.spread[instance][info.task.subtopology] += 1

    def outside(self) -> list[int]:
        """Instances whose load is outside their band."""
        bands, load = self.instance_load.bands, self.instance_load.load
        return [
            i for i in range(len(load)) if self.instance_load.stays[i] and bands[i].excess(load[i])
        ]


def place(assignment: TargetAssignment, tasks: Sequence[int], likes: Likes) -> None:
    """Give each task an instance: where a copy is if the band allows, else where it is needed.

    A task may go where it is liked only as long as enough others are left to fill what is missing
    elsewhere, or a fuller instance would have to give something up for it later.
    """
    instance_load = assignment.instance_load
    missing = sum(instance_load.under(i) for i, stays in enumerate(instance_load.stays) if stays)
    spare = max(sum(assignment.view.tasks[task].weight for task in tasks) - missing, 0)
    for task in tasks:
        weight = assignment.view.tasks[task].weight
        for liked in likes.get(task, ()):
            wasted = max(weight - instance_load.under(liked), 0)
            if (
                wasted <= spare
                and weight <= instance_load.room(liked)
                and assignment.able(liked, task)
            ):
                spare -= wasted
                assignment.put(task, liked)
                break
    neediest = _Neediest(assignment)
    unplaced = [task for task in tasks if task not in assignment.target_instance]
    for task in sorted(unplaced, key=lambda task: (-assignment.view.tasks[task].weight, task)):
        assignment.put(task, neediest.for_task(task))


class _Neediest:
    """Finds the instance that a task brings nearest to its band, or takes least away from it.

    Ties go to the lowest load relative to capacity, then to the instance with the fewest tasks of
    the same subtopology, then by order.
    """

    def __init__(self, assignment: TargetAssignment) -> None:
        self._assignment = assignment
        self._sort = (ABSENT, 0)
        self._heap: list[tuple[int, int, int, int]] = []

    def for_task(self, task: int) -> int:
        info = self._assignment.view.tasks[task]
        if self._sort != (info.task.subtopology, info.weight):
            self._sort = (info.task.subtopology, info.weight)
            self._heap = [
                self._key(instance)
                for instance, stays in enumerate(self._assignment.instance_load.stays)
                if stays and self._assignment.able(instance, task)
            ]
            heapq.heapify(self._heap)
        if not self._heap:
            return ABSENT
        while (key := self._heap[0]) != (now := self._key(key[-1])):
            heapq.heapreplace(self._heap, now)  # its load has grown since
        return key[-1]

    def _key(self, instance: int) -> tuple[int, int, int, int]:
        subtopology, weight = self._sort
        instance_load = self._assignment.instance_load
        return (
            instance_load.change(instance, weight),
            instance_load.relative(instance),
            self._assignment.spread[instance][subtopology],
            instance,
        )
