"""Who keeps a copy for good: as many as asked for, never beside the task itself.

A standby stays where it is unless the tags say that it would stand better elsewhere. The member
that hands a task over keeps its copy as a standby before anybody else begins one, so it may take
several rounds until all are there.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

from streamlet.assignor.copies import best_first, known_lag
from streamlet.assignor.draft import Draft
from streamlet.assignor.order import NOBODY, View
from streamlet.assignor.target import Sheet
from streamlet.assignor.values import Copy, Role

#: The values of the rack tags of an instance, None where it lacks one.
_Tags = tuple[str | None, ...]

#: How a candidate compares: clashes per tag, how warm it is, lag or load, order.
_Rank = tuple[tuple[int, ...], int, int, int]

_CAUGHT_UP, _PREVIOUS_OWNER, _CATCHING_UP, _COPY, _NOTHING = range(5)


@attrs.define
class _Place:
    """Where a task is in this round. ``busy``: instances that may not hold one more copy of it.

    ``releaser`` hands it over in this round; ``to_come``: its owner's copy will become a standby
    once what is being learned has been handed over.
    """

    busy: set[int] = attrs.field(factory=set)
    releaser: int = NOBODY
    to_come: bool = False
    waits: bool = False


def keep_standbys(draft: Draft, sheet: Sheet, tasks: Sequence[int]) -> None:
    """Give each of the tasks its standbys, after all else about it has been decided."""
    wanted = draft.view.group.rules.standbys
    if wanted == 0:
        return
    places = _places(draft, tasks)
    shelf = _Shelf.of(draft, sheet, places)
    for task in tasks:
        _keep(draft, shelf, task, places[task], wanted)


def _places(draft: Draft, tasks: Iterable[int]) -> dict[int, _Place]:
    view = draft.view
    places = {task: _Place(waits=task in draft.unassigned) for task in tasks}
    for member, part in enumerate(draft.members):
        here = view.instance_of[member]
        for task in {*part.active, *part.revoke, *part.learner, *part.pending} & places.keys():
            places[task].busy.add(here)
        for task in part.being_learned & places.keys():
            places[task].to_come = view.instances[here].stays
        for task, heir in part.release.items():
            if view.instance_of[heir] != here and view.instances[here].stays:
                places[task].releaser = member
    return places


def _keep(draft: Draft, shelf: _Shelf, task: int, place: _Place, wanted: int) -> None:
    view = draft.view
    held = {
        view.instance_of[member]: (member, copy)
        for member, copy in reversed(best_first(view, task))
        if view.instance_of[member] not in place.busy
    }
    if place.releaser != NOBODY:
        held[view.instance_of[place.releaser]] = (place.releaser, Copy(Role.RELEASED, ready=True))
    used = [shelf.tags[instance] for instance in place.busy]
    taken = set(place.busy)
    chosen: list[int] = []
    for slot in range(wanted):
        may_begin = not place.waits and slot < wanted - place.to_come
        instance = shelf.choose(task, held, taken, used, may_begin=may_begin)
        if instance == NOBODY:
            break
        chosen.append(instance)
        taken.add(instance)
        used.append(shelf.tags[instance])
    for instance in chosen + _needed_meanwhile(view, held, chosen):
        shelf.put(task, instance, held.get(instance))


def _needed_meanwhile(
    view: View, held: dict[int, tuple[int, Copy]], chosen: Sequence[int]
) -> list[int]:
    """Standbys on instances that leave, as long as those that replace them have to catch up."""
    coming = sum(instance not in held or not held[instance][1].ready for instance in chosen)
    ready = [
        instance
        for instance, (_, copy) in sorted(held.items())
        if copy.role is Role.STANDBY and copy.ready and not view.instances[instance].stays
    ]
    return ready[:coming]


@attrs.define
class _Shelf:
    """The copies every instance keeps, and instances by tags and load for those to come."""

    draft: Draft
    sheet: Sheet
    tags: list[_Tags]
    load: list[int]
    members: Counter[int]
    heaps: dict[_Tags, list[tuple[int, int]]]

    @classmethod
    def of(cls, draft: Draft, sheet: Sheet, places: dict[int, _Place]) -> _Shelf:
        view = draft.view
        tags = [
            tuple(instance.tags.get(tag) for tag in view.group.rules.rack_tags)
            for instance in view.instances
        ]
        load = list(sheet.ledger.load)
        members: Counter[int] = Counter()
        for member, part in enumerate(draft.members):
            members[member] = len(part.active) + len(part.learner) + len(part.pending)
        for task in places:
            for member, copy in view.holders[task]:
                if copy.role is Role.STANDBY:
                    load[view.instance_of[member]] += view.tasks[task].weight
                    members[member] += 1
        shelf = cls(draft, sheet, tags, load, members, {})
        for number, instance in enumerate(view.instances):
            if instance.stays:
                shelf.heaps.setdefault(tags[number], []).append(shelf._entry(number))
        for heap in shelf.heaps.values():
            heapq.heapify(heap)
        return shelf

    def choose(
        self,
        task: int,
        held: dict[int, tuple[int, Copy]],
        taken: set[int],
        used: Sequence[_Tags],
        *,
        may_begin: bool,
    ) -> int:
        """The best instance for one more standby, or nobody."""
        view = self.draft.view
        best: tuple[_Rank, int] | None = None
        for instance, (_, copy) in held.items():
            warmth = _warmth(copy)
            if instance in taken or not view.instances[instance].stays:
                continue
            if warmth < _COPY or may_begin:
                lag = known_lag(copy)
                rank = (_clashes(self.tags[instance], used), warmth, lag, instance)
                best = min(best or (rank, instance), (rank, instance))
        if may_begin and (best is None or any(best[0][0]) or best[0][1] == _COPY):
            for tags, heap in self.heaps.items():
                clashes = _clashes(tags, used)
                if best is None or (clashes, _NOTHING) < best[0][:2]:
                    instance = self._emptiest(heap, task, taken)
                    rank = (clashes, _NOTHING, self._relative(instance), instance)
                    if instance != NOBODY:
                        best = min(best or (rank, instance), (rank, instance))
        return NOBODY if best is None else best[1]

    def put(self, task: int, instance: int, held: tuple[int, Copy] | None) -> None:
        """Let the instance keep a copy: the member that has it, else the one with the fewest."""
        member = NOBODY if held is None else held[0]
        if member == NOBODY:
            runners = self.draft.view.runners(instance, task)
            member = min(runners, key=lambda m: (self.members[m], m))
        self.draft.members[member].standby.add(task)
        if held is None or held[1].role is not Role.STANDBY:
            self.members[member] += 1
            self.load[instance] += self.draft.view.tasks[task].weight

    def _emptiest(self, heap: list[tuple[int, int]], task: int, taken: set[int]) -> int:
        aside: list[tuple[int, int]] = []
        found = NOBODY
        while heap and found == NOBODY:
            entry = heapq.heappop(heap)
            aside.append(self._entry(entry[1]))
            if entry != aside[-1]:
                heapq.heappush(heap, aside.pop())  # its load has grown since
            elif entry[1] not in taken and self.draft.view.instance_can_run(entry[1], task):
                found = entry[1]
        for entry in aside:
            heapq.heappush(heap, entry)
        return found

    def _entry(self, instance: int) -> tuple[int, int]:
        return (self._relative(instance), instance)

    def _relative(self, instance: int) -> int:
        return self.load[instance] * self.sheet.ledger.scale[instance]


def _clashes(tags: _Tags, used: Iterable[_Tags]) -> tuple[int, ...]:
    """Per tag, how many other copies stand where this one would."""
    return tuple(
        sum(tag is not None and tag == other[number] for other in used)
        for number, tag in enumerate(tags)
    )


def _warmth(copy: Copy) -> int:
    if copy.role is Role.STANDBY:
        return _CAUGHT_UP if copy.ready else _CATCHING_UP
    if copy.role is Role.RELEASED and copy.ready:
        return _PREVIOUS_OWNER
    return _COPY
