"""What must hold: S1 to S5 after every step, and what a good state is."""

from __future__ import annotations

from tests.simulation.model.rules import Rules
from tests.simulation.model.values import (
    ACTIVE,
    ANSWERED,
    IDLE,
    LEARNER,
    RELEASED,
    SLOTS,
    STABLE,
    Broker,
    Member,
    World,
    break_,
    is_seated,
)


def started(world: World, slot: int, rules: Rules) -> World:
    """Check the start of an active period in a member of the group.

    S1: at the committed offset. S3: no active starts behind the last successful changelog write.
    S5: its state is exactly that of the committed offset.
    """
    member, group = world.members[slot], world.broker
    if not is_seated(group, slot, member):
        return world
    at, has = member.position, member.covers
    if at != group.offset:
        return break_(world, f"S1 {member.member} starts at {at}, committed is {group.offset}")
    if has < at:
        return break_(world, f"S3 {member.member} starts at {at} with the state of {has}")
    if has != at:
        return break_(world, f"S5 {member.member} starts at {at} with the state of {has}")
    return world


def broken(world: World, rules: Rules) -> str:
    """The property this state breaks, "" for none. S2: two members of the group run the task."""
    if world.broken:
        return world.broken
    active = [slot for slot in SLOTS if _runs(world, slot, rules)]
    if len(active) > 1:
        return f"S2 {' and '.join(world.members[slot].member for slot in active)} both run T"
    return ""


def _runs(world: World, slot: int, rules: Rules) -> bool:
    member, group = world.members[slot], world.broker
    if not member.alive or member.role != ACTIVE or not is_seated(group, slot, member):
        return False
    return not rules.able_to_commit_only or _could_commit(group, member, rules)


def _could_commit(group: Broker, member: Member, rules: Rules) -> bool:
    if member.joining == IDLE:
        return member.generation == group.generation
    joined = member.joining == ANSWERED and member.join_generation == group.generation
    return rules.exactly_once and joined


def good(world: World) -> bool:
    """Stable, everybody synced, one active, nothing open."""
    group = world.broker
    if group.phase != STABLE:
        return False
    active = 0
    for slot in SLOTS:
        member = world.members[slot]
        if not member.alive:
            if group.seats[slot] is not None:
                return False
            continue
        if not is_seated(group, slot, member) or _is_busy(group, member):
            return False
        active += member.role == ACTIVE
    return active == 1


def _is_busy(group: Broker, member: Member) -> bool:
    if member.joining != IDLE or member.want or member.step or member.order:
        return True
    if member.role == ACTIVE:
        return member.generation != group.generation
    return member.role not in (LEARNER, RELEASED)
