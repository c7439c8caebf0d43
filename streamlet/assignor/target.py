"""Where each task of one kind should end: sticky, weighted, inside the band.

A sheet starts from where the tasks are (or are already on their way to). Tasks without a home are
placed where they are needed most; then, while an instance is outside its band, the task goes over
that lowers the excess most. With unit weights each such step lowers it as far as one task can, so
the number of moves is the smallest there is; inside the band nothing moves.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from streamlet.assignor.loads import Ledger
from streamlet.assignor.order import NOBODY, View

#: Instances that hold a copy of a task, the best copy first.
Likes = Mapping[int, Sequence[int]]


@attrs.define
class Sheet:
    """The homes of the tasks of one kind, while the target is being found.

    ``spread`` counts, per instance, the tasks of each subtopology. ``able`` tells whether an
    instance may be given a task; it changes from "can run it" to "can learn it" on the way.
    """

    view: View
    ledger: Ledger
    home: dict[int, int]
    spread: list[Counter[int]]
    able: Callable[[int, int], bool]

    @classmethod
    def of(cls, view: View, tasks: Iterable[int]) -> Sheet:
        """An empty sheet whose bands are those of the given tasks."""
        total = sum(view.tasks[task].weight for task in tasks)
        spread: list[Counter[int]] = [Counter() for _ in view.instances]
        return cls(view, Ledger.open(view, total), {}, spread, view.instance_can_run)

    def copy(self) -> Sheet:
        """Another one to try things on."""
        ledger = attrs.evolve(self.ledger, load=list(self.ledger.load))
        spread = [Counter(of_instance) for of_instance in self.spread]
        return attrs.evolve(self, ledger=ledger, home=dict(self.home), spread=spread)

    def put(self, task: int, instance: int) -> None:
        """Let a task be at home there, and nowhere else."""
        info = self.view.tasks[task]
        before = self.home.pop(task, NOBODY)
        if before != NOBODY:
            self.ledger.load[before] -= info.weight
            self.spread[before][info.task.subtopology] -= 1
        if instance != NOBODY:
            self.home[task] = instance
            self.ledger.load[instance] += info.weight
            self.spread[instance][info.task.subtopology] += 1

    def outside(self) -> list[int]:
        """Instances whose load is outside their band."""
        bands, load = self.ledger.bands, self.ledger.load
        return [i for i in range(len(load)) if self.ledger.stays[i] and bands[i].excess(load[i])]


def place(sheet: Sheet, tasks: Sequence[int], likes: Likes) -> None:
    """Give each homeless task a home: where a copy is if the band allows, else where it is needed.

    A task may go where it is liked only as long as enough others are left to fill what is missing
    elsewhere, or a fuller instance would have to give something up for it later.
    """
    ledger = sheet.ledger
    missing = sum(ledger.under(i) for i, stays in enumerate(ledger.stays) if stays)
    spare = max(sum(sheet.view.tasks[task].weight for task in tasks) - missing, 0)
    for task in tasks:
        weight = sheet.view.tasks[task].weight
        for liked in likes.get(task, ()):
            wasted = max(weight - ledger.under(liked), 0)
            if wasted <= spare and weight <= ledger.room(liked) and sheet.able(liked, task):
                spare -= wasted
                sheet.put(task, liked)
                break
    neediest = _Neediest(sheet)
    homeless = [task for task in tasks if task not in sheet.home]
    for task in sorted(homeless, key=lambda task: (-sheet.view.tasks[task].weight, task)):
        sheet.put(task, neediest.for_task(task))


class _Neediest:
    """Finds the instance that a task brings nearest to its band, or takes least away from it.

    Ties go to the lowest load relative to capacity, then to the instance with the fewest tasks of
    the same subtopology, then by order.
    """

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self._sort = (NOBODY, 0)
        self._heap: list[tuple[int, int, int, int]] = []

    def for_task(self, task: int) -> int:
        info = self._sheet.view.tasks[task]
        if self._sort != (info.task.subtopology, info.weight):
            self._sort = (info.task.subtopology, info.weight)
            self._heap = [
                self._key(instance)
                for instance, stays in enumerate(self._sheet.ledger.stays)
                if stays and self._sheet.able(instance, task)
            ]
            heapq.heapify(self._heap)
        if not self._heap:
            return NOBODY
        while (key := self._heap[0]) != (now := self._key(key[-1])):
            heapq.heapreplace(self._heap, now)  # its load has grown since
        return key[-1]

    def _key(self, instance: int) -> tuple[int, int, int, int]:
        subtopology, weight = self._sort
        ledger = self._sheet.ledger
        return (
            ledger.change(instance, weight),
            ledger.relative(instance),
            self._sheet.spread[instance][subtopology],
            instance,
        )
