"""What a member does when its assignment arrives, and what it keeps when its id is lost."""

from __future__ import annotations

from tests.simulation.model.broker import abort, given_up
from tests.simulation.model.rules import Rules
from tests.simulation.model.values import (
    ACTIVE,
    FETCHED,
    FETCHING,
    HAND_OVER,
    IDLE,
    KEEP,
    LEARNER,
    NONE,
    OWNING,
    PENDING,
    REJOIN,
    RELEASED,
    REVOKE,
    STOPPED,
    Member,
    Order,
    Plan,
    World,
    break_,
    name,
    with_member,
)

_FRESH = Member()


def without_task(member: Member, role: str) -> Member:
    """The member with nothing left of an active or pending period."""
    return _FRESH._replace(
        alive=True,
        member=member.member,
        births=member.births,
        joining=member.joining,
        join_generation=member.join_generation,
        generation=member.generation,
        description=member.description,
        fresh=member.fresh,
        want=member.want,
        role=role,
    )


def begin(member: Member) -> Member:
    """The task is ours: the committed offset is to be read (M3)."""
    return without_task(member, FETCHING)


def take(world: World, slot: int, plan: Plan, rules: Rules) -> World:
    """Apply an assignment; it replaces the one before entirely."""
    before = world.members[slot]
    member = before._replace(
        joining=IDLE,
        join_generation=0,
        generation=plan.generation,
        description=None,
        want=before.want if before.want == REJOIN else "",
    )
    if member.overdue:  # its unit was overtaken: it goes on
        member = member._replace(role=ACTIVE, order=None, overdue=False)
    match plan.kind:
        case _ if slot == plan.owner and plan.kind == KEEP:
            member = _keep(member, rules)
        case _ if slot == plan.owner and plan.kind == REVOKE:
            member = _revoke(member, plan)
        case _ if slot == plan.owner and plan.kind == HAND_OVER:
            order = Order(HAND_OVER, plan.heir, plan.heir_id, plan.generation)
            if member.role not in OWNING:
                world = break_(world, f"orders: {name(slot)} is to release T without running it")
            member = member._replace(order=order)
        case _ if slot == plan.heir:
            if member.role == ACTIVE:
                world = break_(world, f"orders: {name(slot)} is to wait for T and runs it already")
            order = Order(PENDING, plan.owner, "", plan.generation)
            member = without_task(member, PENDING)._replace(order=order)
        case _ if member.role != LEARNER:
            member = without_task(member, LEARNER)
    world = with_member(world, slot, member)
    if rules.exactly_once and before.role in (ACTIVE, STOPPED) and member.role != before.role:
        world = abort(world, slot)
    return world


def _keep(member: Member, rules: Rules) -> Member:
    match member.role:
        case "active":
            return member._replace(order=None)
        case "stopped" if member.order is not None and member.order.kind == REVOKE:
            return member._replace(role=ACTIVE, order=None)
        case "fetching" | "fetched" if not rules.refetch:
            return member._replace(order=None)
        case _:
            return begin(member)


def _revoke(member: Member, plan: Plan) -> Member:
    order = Order(REVOKE, -1, "", plan.generation)
    if member.role in (ACTIVE, STOPPED):
        return member._replace(order=order)
    if member.role in (FETCHING, FETCHED):
        return given_up(without_task(member, STOPPED)._replace(order=order))
    return without_task(member, RELEASED)._replace(want=REJOIN)


def lose(member: Member) -> Member:
    """M1: stop, write nothing, claim nothing."""
    return without_task(member, NONE)
