"""The leader: every plan that the claims of this generation's metadata allow (L1 to L6)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from streamlet.assignor.claims import Ownership, resolve
from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.values import Copy, GroupState, MemberState, Role, TaskInfo
from streamlet.assignor.values import Rules as Settings
from streamlet.types import TaskId
from tests.simulation.model.rules import Rules, affords
from tests.simulation.model.values import (
    ACTIVE,
    HAND_OVER,
    KEEP,
    LEARNER,
    NONE,
    PENDING,
    REVOKE,
    Broker,
    Description,
    Plan,
    name,
)

TASK = TaskId(0, 0)

#: What one member says, with its id.
Descriptions = tuple[tuple[str, Description], ...]


def group_of(
    descriptions: Descriptions, generation: int = 0, settings: Settings | None = None
) -> GroupState:
    """The assignor's input for what these members say."""
    members = tuple(
        MemberState(
            member_id=member,
            instance=member[0],
            number=0,
            copies={} if description.role == NONE else {TASK: _copy(description)},
            joined_generation=description.generation or -1,
        )
        for member, description in descriptions
    )
    return GroupState((TaskInfo(TASK, True),), members, generation, 0, settings or Settings())


def _copy(description: Description) -> Copy:
    claims = description.role in (ACTIVE, PENDING)
    lag = 0 if description.ready else None
    return Copy(
        Role(description.role), description.generation if claims else -1, description.ready, lag
    )


@cache
def _claim(descriptions: Descriptions) -> Ownership:
    return resolve(View.of(group_of(descriptions)))[0]


def descriptions_of(broker: Broker, rules: Rules) -> Descriptions:
    """What everybody says, as far as the rules let the leader see it."""
    descriptions = [(seat.member, seat.description) for seat in broker.seats if seat]
    hidden = {
        role
        for role, counts in ((ACTIVE, rules.newest_active), (PENDING, rules.newest_pending))
        if not counts
    }
    return tuple(
        (member, description._replace(generation=0) if description.role in hidden else description)
        for member, description in descriptions
    )


def plans(broker: Broker, rules: Rules, left: tuple[int, ...]) -> Iterator[tuple[Plan, str]]:
    """Each plan the leader may choose, with the fault it spends, if any."""
    descriptions = descriptions_of(broker, rules)
    slots = [slot for slot, seat in enumerate(broker.seats) if seat]
    claim = _claim(descriptions)
    owner = ABSENT if claim.owner == ABSENT else _slot_of(descriptions, claim.owner, broker)
    generation = broker.generation
    if owner == ABSENT or (claim.outright and not rules.pending_binds):
        for slot in slots:
            yield Plan(KEEP, slot, -1, "", generation), ""
        return
    yield Plan(KEEP, owner, -1, "", generation), ""
    if claim.outright or rules.mode == "surrender":
        return
    if rules.mode == "revoke":
        if affords(left, "move"):
            yield Plan(REVOKE, owner, -1, "", generation), "move"
        return
    for heir in slots:
        if heir != owner:
            yield from _hand_overs(broker, owner, heir, rules, left)


def _slot_of(descriptions: Descriptions, number: int, broker: Broker) -> int:
    """The view numbers members by their sorted ids."""
    member = sorted(member for member, _ in descriptions)[number]
    return next(slot for slot, seat in enumerate(broker.seats) if seat and seat.member == member)


def _hand_overs(
    broker: Broker, owner: int, heir: int, rules: Rules, left: tuple[int, ...]
) -> Iterator[tuple[Plan, str]]:
    seat = broker.seats[heir]
    assert seat is not None
    order = Plan(HAND_OVER, owner, heir, seat.member, broker.generation)
    if seat.description.role == PENDING or (
        seat.description.role == LEARNER and seat.description.ready
    ):
        yield order, ""
    elif rules.deadline == "release" and affords(left, "force"):
        yield order, "force"
    if rules.deadline == "outright" and affords(left, "force"):
        yield Plan(KEEP, heir, -1, "", broker.generation), "force"


def shown(plan: Plan) -> str:
    """The plan in words."""
    match plan.kind:
        case "keep":
            return f"T is {name(plan.owner)}'s"
        case "hand over":
            return f"release {name(plan.owner)}->{name(plan.heir)}"
        case _:
            return f"revoke from {name(plan.owner)}"
