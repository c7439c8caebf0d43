"""The classic coordinator: joins, generations, expiry, fenced commits, transaction markers.

What it answers was read off a real broker, see ``tests/integration/test_coordinator_contract.py``.
It checks membership and generation of a commit and nothing else: not who owns the task.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.model import changelog
from tests.simulation.model.rules import Rules
from tests.simulation.model.values import (
    ANSWERED,
    COMPLETING,
    DECIDED,
    EMPTY,
    IDLE,
    PARKED,
    PREPARING,
    REJOIN,
    RELEASED,
    REVOKE,
    SLOTS,
    STABLE,
    STOPPED,
    Broker,
    Commit,
    Member,
    Move,
    Note,
    Seat,
    Txn,
    World,
    break_,
    is_seated,
    name,
    with_member,
    with_seat,
    with_txn,
)

# Joining and expiry.


def admit(world: World, slot: int, seat: Seat) -> World:
    """Take a JoinGroup; the last one that is waited for begins a generation."""
    broker = with_seat(world.broker, slot, seat)
    world = world._replace(broker=broker)
    if broker.phase != PREPARING:
        world = _prepare(world, slot)
    return _complete(world)


def remove(world: World, slot: int) -> World:
    """A session ended."""
    broker = with_seat(world.broker, slot, None)
    if not any(broker.seats):
        empty = broker._replace(phase=EMPTY, plan=None, generation=broker.generation + 1)
        return world._replace(broker=empty)
    world = world._replace(broker=broker)
    if broker.phase in (STABLE, COMPLETING):
        return _prepare(world, None)
    return _complete(world)


def _prepare(world: World, keep: int | None) -> World:
    """Everybody has to join again, except the one that just did."""
    broker = world.broker
    seats = tuple(
        seat and seat._replace(joined=slot == keep) for slot, seat in enumerate(broker.seats)
    )
    return world._replace(broker=broker._replace(phase=PREPARING, plan=None, seats=seats))


def _complete(world: World) -> World:
    """Begin a generation if everybody has joined, and answer the parked JoinGroups."""
    broker = world.broker
    seats = broker.seats
    if broker.phase != PREPARING or not all(seat is None or seat.joined for seat in seats):
        return world
    leader = broker.leader
    if seats[leader] is None:
        leader = min(slot for slot, seat in enumerate(seats) if seat)
    world = world._replace(
        broker=broker._replace(
            generation=broker.generation + 1,
            phase=COMPLETING,
            plan=None,
            leader=leader,
            seats=tuple(seat and seat._replace(joined=False) for seat in seats),
        )
    )
    for slot in SLOTS:
        member = world.members[slot]
        if member.joining == PARKED and is_seated(world.broker, slot, member):
            generation = world.broker.generation
            answered = member._replace(joining=ANSWERED, join_generation=generation)
            world = with_member(world, slot, answered)
    return world


# Commits.


def verdict(broker: Broker, slot: int, member: str, generation: int, *, in_txn: bool) -> str:
    """The answer to a commit: "ok" or why not."""
    seat = broker.seats[slot]
    if seat is None or seat.member != member:
        return "unknown member"
    if generation != broker.generation:
        return "illegal generation"
    if broker.phase == COMPLETING and not in_txn:
        return "rebalance in progress"
    return "ok"


def store(world: World, slot: int, offset: int, note: Note, rules: Rules, who: str) -> World:
    """Write a committed offset; S1: it never goes back."""
    broker = world.broker
    ours = broker.note.release_to is None and broker.note.by.startswith(name(slot))
    back = offset < broker.offset and (rules.owners_own_late_commit or not ours)
    world = world._replace(broker=broker._replace(offset=offset, note=note))
    if back:
        return break_(world, f"S1 the committed offset went back to {offset} by {who}")
    return world


def moves(world: World, rules: Rules) -> Iterator[Move]:
    """What happens by itself: the dead are expired, late commits arrive, markers are written."""
    broker = world.broker
    for slot in SLOTS:
        seat, member = broker.seats[slot], world.members[slot]
        if seat and (not member.alive or member.member != seat.member):
            yield Move(f"broker expires dead {seat.member}", False, remove(world, slot))
    for number, late in enumerate(broker.late):
        rest = broker.late[:number] + broker.late[number + 1 :]
        after = world._replace(broker=broker._replace(late=rest))
        yield _arrive_late(after, late.slot, late.by, late.commit, rules)
    for slot in SLOTS:
        yield from _markers(world, slot, rules)


def _arrive_late(world: World, slot: int, by: str, commit: Commit, rules: Rules) -> Move:
    what = f"late commit of {by} (offset {commit.offset}, generation {commit.generation})"
    if verdict(world.broker, slot, by, commit.generation, in_txn=False) != "ok":
        return Move(f"{what} is refused", False, world)
    world = store(world, slot, commit.offset, commit.note, rules, f"{by}'s late request")
    return Move(f"{what} is accepted", False, world)


# Transactions: offsets and changelog are different partitions, marked one after the other.


def _markers(world: World, slot: int, rules: Rules) -> Iterator[Move]:
    broker, txn = world.broker, world.broker.txns[slot]
    if (txn and txn.stage == "pending") or txn is None:
        yield from _time_out(world, slot, txn)
        return
    if txn.stage != "offsets done":
        done = txn.stage == "changelog done"
        after = None if done else txn._replace(stage="offsets done")
        there = world._replace(broker=with_txn(broker, slot, after))
        there = store(there, slot, txn.offset, txn.note, rules, txn.by)
        if done:
            there = _txn_done(there, slot, txn)
        yield Move(f"offset marker of {txn.by}'s transaction: offset {txn.offset}", False, there)
    if txn.stage != "changelog done":
        done = txn.stage == "offsets done"
        log = changelog.end(broker.log, slot, committed=True)
        after = None if done else txn._replace(stage="changelog done")
        there = world._replace(broker=with_txn(broker._replace(log=log), slot, after))
        if done:
            there = _txn_done(there, slot, txn)
        yield Move(f"changelog marker of {txn.by}'s transaction", False, there)


def _time_out(world: World, slot: int, txn: Txn | None) -> Iterator[Move]:
    member = world.members[slot]
    if txn is None and not changelog.is_open(world.broker, slot):
        return
    abandoned = (
        not member.alive
        or not is_seated(world.broker, slot, member)
        or member.step == IDLE
        or (txn is not None and txn.by != member.member)
    )
    if abandoned:
        words = f"transaction of {name(slot)} times out and is aborted"
        yield Move(words, False, abort(world, slot))


def abort(world: World, slot: int) -> World:
    """End an undecided transaction of the slot; a decided one is past that."""
    txn = world.broker.txns[slot]
    if txn and txn.stage != "pending":
        return world
    log = changelog.without_aborted_tail(changelog.end(world.broker.log, slot, committed=False))
    return world._replace(broker=with_txn(world.broker._replace(log=log), slot, None))


def _txn_done(world: World, slot: int, txn: Txn) -> World:
    """The producer's commit_transaction returns."""
    member = world.members[slot]
    if member.step != DECIDED or member.member != txn.by:
        return world
    return with_member(world, slot, finished(member, txn.offset, txn.note))


def finished(member: Member, offset: int, note: Note) -> Member:
    """The member after its commit was accepted; a released task is given up."""
    fields = member._replace(
        step=IDLE,
        commit=None,
        answer="",
        last=offset,
        claimed=True,
        contained=note.state,
        number=note.state.number if note.state.epoch == member.epoch else member.number,
    )
    return given_up(fields) if member.role == STOPPED else fields


def given_up(member: Member) -> Member:
    """A stopped task is ours no longer; where it was revoked, a JoinGroup of ours says so."""
    revoked = member.order is not None and member.order.kind == REVOKE
    want = REJOIN if revoked else member.want
    return member._replace(role=RELEASED, order=None, step=IDLE, want=want)
