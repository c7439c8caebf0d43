"""What a member does to be in the group, and to become active."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from streamlet.coordinator.commit_metadata import CommitMetadata
from tests.simulation.model import assignments, broker, changelog, leader
from tests.simulation.model.properties import started
from tests.simulation.model.rules import Rules, affords, spend
from tests.simulation.model.values import (
    ACTIVE,
    ANSWERED,
    COMPLETING,
    FETCHED,
    FETCHING,
    FLUSHED,
    IDLE,
    IN_FLIGHT,
    LEARNER,
    NONE,
    OWNING,
    PARKED,
    PENDING,
    POISONED,
    PREPARING,
    REJOIN,
    RELEASED,
    REPLIED,
    REVOKE,
    SENT,
    STABLE,
    STOPPED,
    Broker,
    Description,
    Member,
    Move,
    Note,
    Seat,
    World,
    is_seated,
    name,
    with_member,
)


def moves(world: World, slot: int, rules: Rules) -> Iterator[Move]:
    """Every step of one living member but those of commits."""
    member = world.members[slot]
    seated = is_seated(world.broker, slot, member)
    if member.member and not seated and not (member.joining == SENT and member.fresh):
        yield _learns_of_loss(world, slot, rules)
    if _must_join(world.broker, slot, member, seated) and _may_join(world, slot, rules, seated):
        yield from _sends_join(world, slot, rules)
    if member.joining == SENT and (member.fresh or seated):
        yield from _join_arrives(world, slot)
    if member.joining == ANSWERED and seated and member.join_generation == world.broker.generation:
        yield from _syncs(world, slot, rules)
    yield from _comes_up(world, slot, rules)


# In and out of the group.


def _learns_of_loss(world: World, slot: int, rules: Rules) -> Move:
    member = world.members[slot]
    keeps = not rules.drop_on_loss and member.role in (NONE, LEARNER, ACTIVE) and not member.step
    lost = member if keeps else assignments.lose(member)
    lost = lost._replace(member="", joining=IDLE, join_generation=0, description=None, want="")
    after = with_member(world, slot, lost)
    if rules.exactly_once:
        after = broker.abort(after, slot)
    return Move(f"{member.member} learns that it is unknown to the group", False, after)


def _must_join(group: Broker, slot: int, member: Member, seated: bool) -> bool:
    return not member.member or bool(member.want) or (seated and _is_awaited(group, slot))


def _is_awaited(group: Broker, slot: int) -> bool:
    seat = group.seats[slot]
    return group.phase == PREPARING and seat is not None and not seat.joined


def _may_join(world: World, slot: int, rules: Rules, seated: bool) -> bool:
    member = world.members[slot]
    again = member.joining == ANSWERED and seated and _is_awaited(world.broker, slot)
    if member.joining != IDLE and not again:
        return False
    if rules.gate and member.step in IN_FLIGHT:
        return _is_overdue(world, member)
    releasing = member.role == STOPPED and member.order is not None and member.order.kind != REVOKE
    return not (rules.hold and releasing) or _is_overdue(world, member)


def _is_overdue(world: World, member: Member) -> bool:
    """The commit of a stopped task is answered, and nobody takes the answer in time."""
    stopped = member.role == STOPPED and member.step == REPLIED
    return stopped and affords(world.budget, "slow")


def _sends_join(world: World, slot: int, rules: Rules) -> Iterator[Move]:
    member = world.members[slot]
    if rules.mode == "surrender" and member.role in OWNING:
        if not _may_surrender(member, rules):
            return
        member = assignments.without_task(member, RELEASED)
        if rules.exactly_once:
            world = broker.abort(world, slot)
    overdue = rules.gate and member.step == REPLIED
    if overdue:
        world = world._replace(budget=spend(world.budget, "slow"))
        if rules.overdue == "released":
            member = assignments.without_task(member, RELEASED)
        else:
            member = member._replace(overdue=True)
    description = _description(member)
    fresh = not member.member
    if fresh:
        member = member._replace(member=f"{name(slot)}{member.births}", births=member.births + 1)
    member = member._replace(
        joining=SENT,
        join_generation=0,
        description=description,
        fresh=fresh,
        want="" if member.want == REJOIN else member.want,
    )
    words = f"{member.member} sends JoinGroup, {description.role}"
    if overdue:
        words += ": it has not taken the answer to its last commit"
    yield Move(words, overdue, with_member(world, slot, member))


def _may_surrender(member: Member, rules: Rules) -> bool:
    """L7: what is flushed is committed first, unless its outcome is unknown (M6)."""
    if member.step == FLUSHED and not rules.exactly_once:
        return member.want == POISONED
    return member.step not in IN_FLIGHT


def _description(member: Member) -> Description:
    match member.role:
        case "active" | "fetching" | "fetched":
            return Description(ACTIVE, member.generation, False)
        case "stopped" if member.overdue:
            return Description(ACTIVE, member.generation, False)
        case "stopped" if member.order is not None and member.order.kind == REVOKE:
            return Description(ACTIVE, member.generation, False)
        case "stopped" | "released":
            return Description(RELEASED, 0, False)
        case "pending":
            assert member.order is not None
            return Description(PENDING, member.order.generation, False)
        case role:
            return Description(role, 0, member.ready and role == LEARNER)


def _join_arrives(world: World, slot: int) -> Iterator[Move]:
    member = world.members[slot]
    if member.fresh and world.broker.seats[slot] is not None:
        return  # the old id's session must end first: this keeps to one seat per member
    assert member.description is not None
    before = world.broker.generation
    seat = Seat(member.member, True, member.description)
    parked = with_member(
        world, slot, member._replace(joining=PARKED, fresh=False, description=None)
    )
    after = broker.admit(parked, slot, seat)
    words = f"{member.member}'s JoinGroup, {seat.description.role}, arrives"
    if after.broker.generation != before:
        words += f"; generation {after.broker.generation} begins"
    yield Move(words, False, after)


def _syncs(world: World, slot: int, rules: Rules) -> Iterator[Move]:
    group, who = world.broker, world.members[slot].member
    if group.phase == COMPLETING and group.leader == slot:
        for plan, fault in leader.plans(group, rules, world.budget):
            left = spend(world.budget, fault) if fault else world.budget
            synced = group._replace(plan=plan, phase=STABLE)
            after = world._replace(broker=synced, budget=left)
            after = assignments.take(after, slot, plan, rules)
            yield Move(f"leader {who} syncs the plan: {leader.shown(plan)}", False, after)
    elif group.phase == STABLE and group.plan is not None:
        after = assignments.take(world, slot, group.plan, rules)
        yield Move(f"{who} receives its assignment: {leader.shown(group.plan)}", False, after)


# From an assignment to an active period.


def _comes_up(world: World, slot: int, rules: Rules) -> Iterator[Move]:
    member, group = world.members[slot], world.broker
    who = member.member or name(slot)
    if member.role == FETCHING and _is_stable(group):
        after = with_member(world, slot, _fetched(member, group))
        yield Move(f"{who} fetches the committed offset {group.offset}", False, after)
    if member.role == PENDING and _is_stable(group) and _sees_mark(group, slot, member, rules):
        after = with_member(world, slot, _fetched(assignments.begin(member), group))
        words = f"{who} sees the mark of generation {group.note.generation}, offset {group.offset}"
        yield Move(words, False, after)
    if member.role == FETCHED and _is_restored(group, member, rules):
        yield _becomes_active(world, slot, rules)


def _is_stable(group: Broker) -> bool:
    """What OffsetFetch(require_stable) waits for."""
    return all(txn is None or txn.stage == "offsets done" for txn in group.txns)


def _fetched(member: Member, group: Broker) -> Member:
    return member._replace(
        role=FETCHED, position=group.offset, last=group.offset, fetched=group.note
    )


def _sees_mark(group: Broker, slot: int, member: Member, rules: Rules) -> bool:
    if rules.pending_waits_for_join and member.joining != IDLE:
        return False
    note, order = group.note, member.order
    assert order is not None
    to = note.release_to
    if to is None:
        return False
    me = member.member
    if rules.mark_to == "slot" and to[0] == name(slot):
        me = to  # an instance's name outlives the member id
    elif rules.mark_to == "anybody":
        me = to
    generation = order.generation if rules.mark_generation else note.generation
    return _is_mark_for(note, me, generation)


@cache
def _is_mark_for(note: Note, me: str, generation: int) -> bool:
    text = CommitMetadata(
        note.epoch, note.by, note.generation, {}, note.state, note.release_to
    ).to_text()
    metadata = CommitMetadata.from_text(text)
    return metadata is not None and metadata.is_mark_for(me, generation)


def _is_restored(group: Broker, member: Member, rules: Rules) -> bool:
    """At-least-once reads to the end there is; exactly-once must wait for markers (V9)."""
    assert member.fetched is not None
    if not rules.exactly_once or rules.restore_to == "last stable offset":
        return True
    upto = member.fetched.end if rules.restore_to == "ends" else len(group.log)
    return all(record.status < 2 for record in group.log[:upto])


def _becomes_active(world: World, slot: int, rules: Rules) -> Move:
    member, group = world.members[slot], world.broker
    note = member.fetched
    assert note is not None
    read = changelog.restore(group.log, note, rules)
    active = member._replace(
        role=ACTIVE,
        covers=read.covers,
        epoch=1 + max(note.epoch, read.epoch),
        contained=note.state,
        number=0,
        claimed=False,
        fetched=None,
    )
    after = started(with_member(world, slot, active), slot, rules)
    who = member.member or name(slot)
    words = f"{who} becomes active at {active.position} with state {read.covers}"
    return Move(f"{words}, epoch {active.epoch}", False, after)
