"""Breadth first over all interleavings: the shortest trace to a broken property, and liveness."""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from itertools import combinations_with_replacement
from typing import Generic, Protocol, TypeVar

import attrs

from streamlet.garbage import without_gc
from tests.simulation.model.rules import Rules, budget
from tests.simulation.model.steps import HandOver

W = TypeVar("W", bound=Hashable)


class System(Protocol[W]):
    """What is searched: a state to begin with, and the steps from each."""

    def start(self) -> W:
        """The state everything begins with."""
        ...

    def moves(self, world: W) -> Iterable[tuple[str, bool, W]]:
        """Every next step: in words, whether it is a fault, and where it leads."""
        ...

    def broken(self, world: W) -> str:
        """The property that a state breaks, "" for none."""
        ...

    def is_good(self, world: W) -> bool:
        """Whether the system is at rest, and well."""
        ...

    def can_recover(self, world: W) -> bool:
        """Whether a good state must be reachable from here without another fault."""
        ...

    def rounds(self, world: W) -> int:
        """How many rebalances there were."""
        ...


#: A state may be cut off by no more than this.
MOST_STATES = 3_000_000


@attrs.define
class Result:
    """What a search found. ``broken`` is the property, ``trace`` the steps that break it.

    ``complete``: every state within the bounds was seen. ``stuck`` is a trace to a state from which
    no good state can be reached without another fault. ``rebalances`` is the most that is needed.
    """

    states: int = 0
    steps: int = 0
    depth: int = 0
    generations: int = 0
    complete: bool = False
    broken: str = ""
    trace: list[str] = attrs.field(factory=list)
    stuck: list[str] = attrs.field(factory=list)
    rebalances: int | None = None
    seconds: float = 0.0

    def text(self) -> str:
        """The result in words, trace included."""
        text = (
            f"{self.states} states, {self.steps} steps, depth {self.depth}, "
            f"{'complete' if self.complete else 'stopped'}, {self.seconds:.0f} s"
        )
        if self.rebalances is not None:
            text += f", generations <= {self.generations}, to good <= {self.rebalances} rebalances"
        lines = [text]
        if self.broken:
            lines += [f"BROKEN after {len(self.trace)} steps: {self.broken}"]
            lines += [f"    {words}" for words in self.trace]
        if self.stuck:
            lines += ["STUCK, no good state without another fault:"]
            lines += [f"    {words}" for words in self.stuck]
        return "\n".join(lines)


@attrs.define
class _Graph(Generic[W]):
    """What was seen: per state its number, where it came from and by which words."""

    numbers: dict[W, int] = attrs.field(factory=dict)
    parents: array[int] = attrs.field(factory=lambda: array("l"))
    words: list[str] = attrs.field(factory=list)
    # Steps that are no faults: from, to, whether a generation begins.
    sources: array[int] = attrs.field(factory=lambda: array("l"))
    targets: array[int] = attrs.field(factory=lambda: array("l"))
    begins: array[int] = attrs.field(factory=lambda: array("b"))

    def add(self, world: W, parent: int, words: str) -> int:
        """The number of a state, the next one if it is new; of that is noted where it came from."""
        count = len(self.parents)
        number = self.numbers.setdefault(world, count)  # hashes a state, which is large, only once
        if number == count:
            self.parents.append(parent)
            self.words.append(words)
        return number

    def trace(self, number: int) -> list[str]:
        words = []
        while number > 0:
            words.append(self.words[number])
            number = self.parents[number]
        return words[::-1]


def explore(
    system: System[W],
    *,
    live: bool = False,
    most_states: int = MOST_STATES,
    seconds: float = 3_600.0,
) -> Result:
    """See every state within the bounds of the system, until the first broken property."""
    with without_gc():  # millions of tuples and not one cycle
        return _explore(system, live, most_states, seconds)


def _explore(system: System[W], live: bool, most_states: int, seconds: float) -> Result:
    began, result = time.monotonic(), Result()
    graph: _Graph[W] = _Graph()
    start = system.start()
    queue = deque([(start, graph.add(start, -1, ""), 0)])
    while queue and not result.broken:
        if len(graph.numbers) > most_states or time.monotonic() - began > seconds:
            break
        world, number, depth = queue.popleft()
        result.depth = max(result.depth, depth)
        for words, fault, after in system.moves(world):
            result.steps += 1
            count = len(graph.numbers)
            known = graph.add(after, number, words)
            if known == count:
                result.generations = max(result.generations, system.rounds(after))
                result.broken = system.broken(after)
                if result.broken:
                    result.trace = graph.trace(known)
                    break
                queue.append((after, known, depth + 1))
            if live and not fault:
                graph.sources.append(number)
                graph.targets.append(known)
                graph.begins.append(system.rounds(after) > system.rounds(world))
    result.complete = not queue and not result.broken
    result.states = len(graph.numbers)
    if live and result.complete:
        _check_liveness(system, result, graph)
    result.seconds = time.monotonic() - began
    return result


def _check_liveness(system: System[W], result: Result, graph: _Graph[W]) -> None:
    """From every state that can recover a good one is reached without another fault."""
    distance = _distances(system, graph)
    worst = 0
    for world, number in graph.numbers.items():
        if not system.can_recover(world):
            continue
        far = distance[number]
        if far < 0:
            result.stuck = [*graph.trace(number), str(world)]
            return
        worst = max(worst, far)
    result.rebalances = worst


def _distances(system: System[W], graph: _Graph[W]) -> array[int]:
    """Fewest further generations to a good state, -1 for none; backwards from the good ones."""
    size = len(graph.numbers)
    into: list[list[int]] = [[] for _ in range(size)]
    for step, target in enumerate(graph.targets):
        into[target].append(step)
    distance = array("l", [-1]) * size
    queue: deque[tuple[int, int]] = deque()
    for world, number in graph.numbers.items():
        if system.is_good(world):
            distance[number] = 0
            queue.append((number, 0))
    while queue:
        number, far = queue.popleft()
        if distance[number] != far:
            continue
        for step in into[number]:
            source, more = graph.sources[step], graph.begins[step]
            reached = far + more
            if distance[source] < 0 or reached < distance[source]:
                distance[source] = reached
                (queue.append if more else queue.appendleft)((source, reached))
    return distance


def multisets(
    faults: tuple[str, ...], total: int, always: tuple[str, ...] = ("ready",)
) -> Iterator[tuple[str, ...]]:
    """Every choice of so many faults with all of ``always``, at most two members caught up."""
    for chosen in combinations_with_replacement(faults, total):
        if all(fault in chosen for fault in always) and chosen.count("ready") < 3:
            yield chosen


def sweep(
    rules: Rules,
    faults: tuple[str, ...],
    total: int,
    *,
    always: tuple[str, ...] = ("ready",),
    seconds: float = 3_600.0,
) -> Iterator[tuple[tuple[str, ...], Result]]:
    """One exhaustive search for every multiset of faults."""
    for chosen in multisets(faults, total, always):
        counts = {fault: chosen.count(fault) for fault in chosen}
        system = HandOver(rules, budget(total, **counts))
        yield chosen, explore(system, live=True, seconds=seconds)
