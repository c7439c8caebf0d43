"""What may happen to members, and what they may come to want; each costs budget."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.model import assignments, broker, changelog
from tests.simulation.model.commits import unknown
from tests.simulation.model.rules import Rules, affords, spend
from tests.simulation.model.values import (
    HAND_OVER,
    IDLE,
    KEEP,
    LEARNER,
    PENDING,
    REJOIN,
    RELEASED,
    REPLIED,
    SENT,
    SLOTS,
    STABLE,
    Late,
    Member,
    Move,
    Order,
    Plan,
    World,
    is_seated,
    name,
    with_member,
    with_seat,
)


def moves(world: World, rules: Rules) -> Iterator[Move]:
    """Every fault the budget affords."""
    if world.budget[-1] <= 0:
        return
    for slot in SLOTS:
        if world.members[slot].alive:
            yield from _of_living(world, slot, rules)
        elif affords(world.budget, "start"):
            started = world.members[slot]._replace(alive=True)
            yield _fault(world, slot, "start", f"{name(slot)} starts", started)
    log = world.broker.log
    if affords(world.budget, "compact") and len(log) > 1 and log[-1].status == 0:
        after = world._replace(
            broker=world.broker._replace(log=changelog.compacted(log)),
            budget=spend(world.budget, "compact"),
        )
        yield Move("compaction keeps the last record of the key", True, after)


def _fault(world: World, slot: int, fault: str, words: str, member: Member) -> Move:
    after = with_member(world, slot, member)
    return Move(words, True, after._replace(budget=spend(world.budget, fault)))


def _of_living(world: World, slot: int, rules: Rules) -> Iterator[Move]:
    member, left = world.members[slot], world.budget
    seated = is_seated(world.broker, slot, member)
    who = member.member or name(slot)
    if affords(left, "crash"):
        dead = Member(births=member.births)
        yield _fault(world, slot, "crash", f"{who} crashes", dead)
    if affords(left, "static") and seated and world.broker.phase == STABLE:
        yield _restarts(world, slot, rules)
    if affords(left, "expire") and seated:
        after = broker.remove(world, slot)._replace(budget=spend(left, "expire"))
        yield Move(f"broker expires {who}, which lives", True, after)
    if affords(left, "lose") and not rules.exactly_once and member.step in (SENT, REPLIED):
        yield _loses_answer(world, slot, rules)
    if affords(left, "cut") and seated and member.joining != IDLE:
        back = member._replace(
            joining=IDLE, join_generation=0, description=None, want=member.want or REJOIN
        )
        yield _fault(world, slot, "cut", f"{who}'s JoinGroup or SyncGroup is lost", back)
    waits = member.role == LEARNER and not member.ready and member.joining == IDLE
    if affords(left, "ready") and waits and seated:
        ready = member._replace(ready=True, want=REJOIN)
        yield _fault(world, slot, "ready", f"{who} has caught up", ready)


def _loses_answer(world: World, slot: int, rules: Rules) -> Move:
    member, group = world.members[slot], world.broker
    commit = member.commit
    assert commit is not None
    words = f"{commit.note.by}'s commit {commit.offset} times out"
    if member.step == SENT:
        late = Late(slot, commit.note.by, commit)
        world = world._replace(broker=group._replace(late=(*group.late, late)))
        words += ", still travelling"
    else:
        words += ", the answer was lost"
    return _fault(world, slot, "lose", words, unknown(member, rules))


def _restarts(world: World, slot: int, rules: Rules) -> Move:
    """A static member's new process gets the cached assignment, without a rebalance (M9)."""
    group, before = world.broker, world.members[slot]
    seat, plan = group.seats[slot], group.plan
    assert seat is not None
    assert plan is not None
    world = broker.abort(world, slot)._replace(budget=spend(world.budget, "static"))
    new = f"{name(slot)}{before.births}"
    world = world._replace(broker=with_seat(world.broker, slot, seat._replace(member=new)))
    member = Member(
        alive=True,
        member=new,
        births=before.births + 1,
        generation=group.generation,
        role=LEARNER,
    )
    member = _take_cached(member, slot, plan, rules)
    words = f"{before.member} restarts as {new} with its static id, cached plan: {plan.kind}"
    return Move(words, True, with_member(world, slot, member))


def _take_cached(member: Member, slot: int, plan: Plan, rules: Rules) -> Member:
    if plan.kind == KEEP:
        return assignments.begin(member) if slot == plan.owner else member
    if slot not in (plan.owner, plan.heir):
        return member
    if rules.cached_orders_void:
        role = RELEASED if slot == plan.owner else LEARNER
        return member._replace(role=role, want=REJOIN)
    if slot == plan.owner:
        order = Order(HAND_OVER, plan.heir, plan.heir_id, plan.generation)
        return assignments.begin(member)._replace(order=order)
    return member._replace(role=PENDING, order=Order(PENDING, plan.owner, "", plan.generation))
