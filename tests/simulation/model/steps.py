"""All that may happen next in a state, and the state that everything begins with."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from streamlet.types import NO_STATE
from tests.simulation.model import broker, changelog, commits, faults, members
from tests.simulation.model.properties import broken, good
from tests.simulation.model.rules import Rules
from tests.simulation.model.values import (
    ACTIVE,
    ANSWERED,
    IDLE,
    KEEP,
    LEARNER,
    NONE,
    SENT,
    SLOTS,
    STABLE,
    Broker,
    Description,
    Member,
    Move,
    Note,
    Plan,
    Seat,
    World,
)


@attrs.frozen
class HandOver:
    """The protocol by its rules, within a budget of faults; a ``search.System``."""

    rules: Rules
    budget: tuple[int, ...]

    def start(self) -> World:
        """A runs the task in generation 1, B learns, C is not there."""
        return canonical(initial(self.budget, self.rules), self.rules)

    def moves(self, world: World) -> Iterator[tuple[str, bool, World]]:
        """Every next step."""
        for words, fault, after in moves(world, self.rules):
            yield words, fault, canonical(after, self.rules)

    def broken(self, world: World) -> str:
        """The first property broken."""
        return broken(world, self.rules)

    def is_good(self, world: World) -> bool:
        """Stable, everybody synced, one active, nothing open."""
        return good(world)

    def can_recover(self, world: World) -> bool:
        """Somebody lives."""
        return any(member.alive for member in world.members)

    def rounds(self, world: World) -> int:
        """The coordinator's generation."""
        return world.broker.generation


def initial(budget: tuple[int, ...], rules: Rules) -> World:
    """A runs the task in generation 1, B learns, C is not there."""
    seats = (
        Seat("A1", False, Description(ACTIVE, 1, False)),
        Seat("B1", False, Description(LEARNER, 0, False)),
        None,
    )
    note = Note(1, "A1", 1, NO_STATE)
    group = Broker(1, STABLE, rules.leader, seats, Plan(KEEP, 0, -1, "", 1), 0, note)
    a = Member(True, "A1", 2, generation=1, role=ACTIVE, epoch=1, claimed=True, last=0)
    b = Member(True, "B1", 2, generation=1, role=LEARNER)
    return World(group, (a, b, Member()), budget)


def moves(world: World, rules: Rules) -> Iterator[Move]:
    """Every next step."""
    yield from faults.moves(world, rules)
    yield from broker.moves(world, rules)
    for slot in SLOTS:
        if world.members[slot].alive:
            yield from members.moves(world, slot, rules)
            yield from commits.moves(world, slot, rules)


def canonical(world: World, rules: Rules) -> World:
    """The same state without what nobody will look at again."""
    group = world.broker
    log = changelog.canonical(world, rules)
    if log is not group.log:
        world = world._replace(broker=group._replace(log=log))
    tidy = tuple(_tidy(member) for member in world.members)
    return world if tidy == world.members else world._replace(members=tidy)


def _tidy(member: Member) -> Member:
    if member.role in (LEARNER, NONE) and member.joining == IDLE and member.generation:
        member = member._replace(generation=0)
    if member.joining != SENT and member.description is not None:
        member = member._replace(description=None)
    if member.joining != ANSWERED and member.join_generation:
        member = member._replace(join_generation=0)
    return member
