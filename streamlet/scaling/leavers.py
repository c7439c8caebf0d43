"""Chooses the instances that leave when only a share of them is to stay. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from fractions import Fraction
from itertools import combinations

import attrs

from streamlet.types import TaskId

#: So many choices are compared one by one; where there are more, leavers are picked one at a time.
_CHOICES_COMPARED = 2_000


@attrs.frozen
class Burden:
    """The state of an instance that others need when it leaves: bytes of changelog by task.

    ``runs`` are the stateful tasks it runs, ``keeps`` those of which it keeps a warm copy.
    """

    runs: Mapping[TaskId, int] = attrs.field(factory=dict)
    keeps: Mapping[TaskId, int] = attrs.field(factory=dict)


def staying_count(instances: int, percent: float) -> int:
    """The number of instances that stay: the percentage rounded up, at least one."""
    assert 0 < percent <= 100, percent
    return max(math.ceil(instances * Fraction(str(percent)) / 100), 1)


def choose_leavers(
    burdens: Mapping[str, Burden], percent: float, already: Collection[str] = ()
) -> list[str]:
    """Choose who leaves so that ``percent`` of the instances stay and least state is copied.

    A task that a stayer keeps a warm copy of costs nothing; a warm copy that leaves has to be made
    again elsewhere. Of equal choices the one with fewer tasks to hand over counts, then the one
    with the last names: ``h10`` goes before ``h9``.

    The choice is the best there is where no instance keeps copies, and where there are up to 2,000
    choices; else the cheapest instance goes first, then the cheapest beside it, and so on.

    Args:
        burdens: every instance, those that leave already included.
        percent: above 0, up to 100.
        already: leave in any case, also where that is more than has to go.
    """
    wanted = max(len(burdens) - staying_count(len(burdens), percent) - len(already), 0)
    free = sorted((name for name in burdens if name not in already), key=natural, reverse=True)
    copies = any(burden.keeps for burden in burdens.values())
    if copies and math.comb(len(free), wanted) <= _CHOICES_COMPARED:
        choices = (frozenset((*already, *some)) for some in combinations(free, wanted))
        least: frozenset[str] = min(choices, key=lambda some: cost(burdens, some))
        return in_order(least)
    leaving = _Leaving.of(burdens, already)
    for _ in range(wanted):
        leaving.add(min((name for name in free if name not in leaving.names), key=leaving.more))
    return in_order(leaving.names)


def cost(burdens: Mapping[str, Burden], leaving: Set[str]) -> tuple[int, int]:
    """Bytes to be copied, and stateful tasks to be handed over, when exactly these leave."""
    kept = {task for name, one in burdens.items() if name not in leaving for task in one.keeps}
    copied = tasks = 0
    for name in leaving:
        burden = burdens[name]
        tasks += len(burden.runs)
        copied += sum(size for task, size in burden.runs.items() if task not in kept)
        copied += sum(burden.keeps.values())
    return copied, tasks


@attrs.define
class _Leaving:
    """The instances chosen so far; ``keepers`` counts others that keep a copy of each task."""

    burdens: Mapping[str, Burden]
    keepers: Counter[TaskId]
    names: set[str] = attrs.field(factory=set)
    runs: dict[TaskId, int] = attrs.field(factory=dict)

    @classmethod
    def of(cls, burdens: Mapping[str, Burden], already: Iterable[str]) -> _Leaving:
        keepers = Counter(task for burden in burdens.values() for task in burden.keeps)
        made = cls(burdens, keepers)
        for name in already:
            made.add(name)
        return made

    def more(self, name: str) -> tuple[int, int]:
        """The state to be copied and handed over besides when this one leaves too."""
        burden = self.burdens[name]
        left = {task: self.keepers[task] - (task in burden.keeps) for task in burden.runs}
        copied = sum(size for task, size in burden.runs.items() if not left[task])
        copied += sum(burden.keeps.values())
        last = (task for task in burden.keeps if self.keepers[task] == 1)
        copied += sum(self.runs.get(task, 0) for task in last)
        return copied, len(burden.runs)

    def add(self, name: str) -> None:
        self.names.add(name)
        self.runs.update(self.burdens[name].runs)
        self.keepers.subtract(self.burdens[name].keeps.keys())


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key under which ``h9`` comes before ``h10``."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((int(part) if part.isdigit() else -1, part) for part in parts)


def in_order(names: Iterable[str]) -> list[str]:
    """Sort names with numbers by value: ``w2`` before ``w10``."""
    return sorted(names, key=natural)
