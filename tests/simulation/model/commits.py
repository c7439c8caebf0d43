"""What an active member does with the task: process, flush, commit, give up."""

from __future__ import annotations

from collections.abc import Iterator

from streamlet.types import StateNumber
from tests.simulation.model import assignments, broker, changelog
from tests.simulation.model.rules import Rules
from tests.simulation.model.values import (
    ACTIVE,
    ANSWERED,
    DECIDED,
    FLUSHED,
    IDLE,
    IN_TXN,
    POISONED,
    REJOIN,
    RELEASED,
    REPLIED,
    REVOKE,
    SENT,
    STOPPED,
    Commit,
    Member,
    Move,
    Note,
    Txn,
    World,
    break_,
    is_seated,
    name,
    with_member,
    with_txn,
)


def moves(world: World, slot: int, rules: Rules) -> Iterator[Move]:
    """Every step of one living member that has to do with commits."""
    member = world.members[slot]
    if member.role not in (ACTIVE, STOPPED):
        return
    match member.step:
        case "":
            if member.role == ACTIVE:
                yield from _begins(world, slot, rules)
        case "flushed":
            yield from _sends(world, slot, rules)
        case "sent":
            yield from _arrives(world, slot, rules)
        case "replied":
            yield from _hears(world, slot, rules)
        case "in transaction":
            yield _decides(world, slot)
        case _:
            pass  # decided: the broker writes the markers


# Whether a commit may be begun.


def _may_commit(member: Member, rules: Rules) -> bool:
    """The gate (M2), its exemption for long-parked joins, and M6."""
    if member.joining == IDLE or not rules.gate:
        return member.want != POISONED
    if rules.exactly_once:
        return member.joining == ANSWERED and member.want != POISONED
    return rules.parked and (member.want != POISONED or not rules.parked_poison)


def _may_claim(member: Member, rules: Rules) -> bool:
    free = member.joining == IDLE or not rules.gate or rules.parked_claims
    return free and _may_commit(member, rules)


def _may_release(member: Member, rules: Rules) -> bool:
    """M5: only in the generation of the order, with no JoinGroup out."""
    order = member.order
    assert order is not None
    if order.kind == REVOKE:
        return True
    if member.want == POISONED:
        return False
    if not rules.gate:
        return True
    free = member.joining == IDLE or (rules.parked and rules.parked_releases)
    return free and member.generation == order.generation


def _may_write(world: World, slot: int, rules: Rules) -> bool:
    """M10: a transaction begins after the last one's markers are written."""
    if not rules.exactly_once:
        return True
    if not rules.next_txn_waits:
        return True
    return world.broker.txns[slot] is None and not changelog.is_open(world.broker, slot)


# The steps.


def _begins(world: World, slot: int, rules: Rules) -> Iterator[Move]:
    member = world.members[slot]
    if not _may_write(world, slot, rules):
        return
    claims = rules.claim and not rules.exactly_once and not member.claimed
    if claims:
        if _may_claim(member, rules):
            yield _sends_claim(world, slot)
        return
    if member.position < rules.inputs and _may_commit(member, rules):
        after = _process(world, slot, rules)
        words = f"{_who(world, slot)} processes input {member.position}, flushes"
        yield Move(f"{words} (epoch {member.epoch}, number {member.number + 1})", False, after)
    if member.order is not None and _may_release(member, rules):
        yield from _stops(world, slot, rules)


def _who(world: World, slot: int) -> str:
    return world.members[slot].member or name(slot)


def _process(world: World, slot: int, rules: Rules) -> World:
    """One more input, and its flush: what is not flushed nobody else can see."""
    member = world.members[slot]
    position = member.position + 1
    member = member._replace(position=position, covers=max(member.covers, position), step=FLUSHED)
    flushed = changelog.append(world.broker, slot, member, rules)
    return with_member(world._replace(broker=flushed), slot, member)


def _sends_claim(world: World, slot: int) -> Move:
    member = world.members[slot]
    note = Note(member.epoch, member.member, member.generation, member.contained)
    commit = Commit(member.generation, member.last, note)
    after = with_member(world, slot, member._replace(step=SENT, commit=commit))
    words = f"{_who(world, slot)} sends its claim (offset {member.last}, epoch {member.epoch}"
    return Move(f"{words}, generation {member.generation})", False, after)


def _stops(world: World, slot: int, rules: Rules) -> Iterator[Move]:
    """Stop the task at a batch boundary, with or without one more batch to commit."""
    member = world.members[slot]
    order = member.order
    assert order is not None
    why = "as told" if order.kind == REVOKE else f"for {order.other_id}"
    stopped = with_member(world, slot, member._replace(role=STOPPED, step=FLUSHED))
    if order.kind == REVOKE and member.position == member.last:
        stopped = with_member(stopped, slot, broker.given_up(stopped.members[slot]))
    yield Move(f"{_who(world, slot)} stops T {why}", False, stopped)
    if member.position < rules.inputs:
        after = _process(stopped, slot, rules)
        words = f"{_who(world, slot)} stops T {why} after input {member.position}, flushes"
        yield Move(words, False, after)


def _sends(world: World, slot: int, rules: Rules) -> Iterator[Move]:
    member, log = world.members[slot], world.broker.log
    marks = member.role == STOPPED and member.order is not None and member.order.kind != REVOKE
    if not _may_commit(member, rules) and not (marks and not rules.gate):
        return
    who = _who(world, slot)
    changed = member.position > member.last
    if rules.exactly_once and changed and not changelog.is_open(world.broker, slot):
        lost = assignments.lose(member)._replace(want=REJOIN)
        yield Move(
            f"{who}'s transaction was aborted, T is lost", False, with_member(world, slot, lost)
        )
        return
    answered = rules.exactly_once and member.joining == ANSWERED
    generation = member.join_generation if answered else member.generation
    note = Note(
        member.epoch,
        member.member,
        generation,
        StateNumber(member.epoch, member.number + 1) if changed else member.contained,
        end=len(log) if rules.exactly_once else 0,
    )
    if marks:
        assert member.order is not None
        note = note._replace(generation=member.order.generation, release_to=member.order.other_id)
    commit = Commit(generation, member.position, note)
    after = with_member(world, slot, member._replace(step=SENT, commit=commit))
    what = "the mark" if marks else "a commit"
    words = f"{who} sends {what} (offset {commit.offset}, generation {generation})"
    yield Move(words, False, after)


def _arrives(world: World, slot: int, rules: Rules) -> Iterator[Move]:
    """The broker decides; what it says reaches the member in a step of its own."""
    member = world.members[slot]
    commit = member.commit
    assert commit is not None
    by = commit.note.by
    answer = broker.verdict(world.broker, slot, by, commit.generation, in_txn=rules.exactly_once)
    words = f"commit {commit.offset} of {by} (generation {commit.generation}) arrives: {answer}"
    if answer != "ok":
        after = with_member(world, slot, member._replace(step=REPLIED, answer=answer))
        yield Move(words, False, after)
        return
    world = _overtaken(world, member, commit)
    if rules.exactly_once:
        txn = Txn(by, "pending", commit.offset, commit.note)
        world = world._replace(broker=with_txn(world.broker, slot, txn))
        after = with_member(world, slot, member._replace(step=IN_TXN))
    else:
        world = broker.store(world, slot, commit.offset, commit.note, rules, by)
        after = with_member(world, slot, member._replace(step=REPLIED, answer=answer))
    yield Move(words, False, after)


def _overtaken(world: World, member: Member, commit: Commit) -> World:
    """S1: who commits knows the last commit, or it was its own."""
    group = world.broker
    if member.last == group.offset or group.note.by == member.member:
        return world
    return break_(
        world,
        f"S1 {member.member} commits {commit.offset} from {member.last},"
        f" but {group.note.by} has committed {group.offset}",
    )


def _hears(world: World, slot: int, rules: Rules) -> Iterator[Move]:
    member = world.members[slot]
    commit = member.commit
    assert commit is not None
    who = _who(world, slot)
    if member.answer == "ok":
        done = broker.finished(member, commit.offset, commit.note)
        yield Move(f"{who} hears that it is committed", False, with_member(world, slot, done))
    elif _is_switch(member, commit, rules):
        back = member._replace(step=_again(member), commit=None, answer="")
        words = f"{who} hears that the generation moved on, keeps T"
        yield Move(words, False, with_member(world, slot, back))
    else:
        yield Move(f"{who} hears that it is refused, drops T", False, _refused(world, slot, rules))


def _is_switch(member: Member, commit: Commit, rules: Rules) -> bool:
    """ILLEGAL_GENERATION with a JoinGroup out, or for a generation that is over for us as well."""
    joined = member.joining != IDLE or commit.generation != member.generation
    return (
        rules.parked
        and rules.switched_keeps
        and not rules.exactly_once
        and member.answer == "illegal generation"
        and joined
    )


def _again(member: Member) -> str:
    """Where a commit that did not happen is taken up again; a claim is created again."""
    return FLUSHED if member.claimed else IDLE


def _refused(world: World, slot: int, rules: Rules) -> World:
    if rules.exactly_once:
        world = broker.abort(world, slot)
    member = assignments.lose(world.members[slot])._replace(want=REJOIN)
    if not is_seated(world.broker, slot, member):
        member = member._replace(member="", joining=IDLE, description=None, want="")
    return with_member(world, slot, member)


def unknown(member: Member, rules: Rules) -> Member:
    """The member after a commit without an answer (M6)."""
    commit = member.commit
    assert commit is not None
    again = member._replace(step=_again(member), commit=None, answer="")
    if not rules.poison:
        return again
    if commit.generation == member.generation:
        again = again._replace(want=POISONED)
    releasing = member.role == STOPPED and member.order is not None and member.order.kind != REVOKE
    if releasing:
        again = again._replace(role=RELEASED, order=None, step=IDLE)
    return again


def _decides(world: World, slot: int) -> Move:
    member, txn = world.members[slot], world.broker.txns[slot]
    who = _who(world, slot)
    if txn is None or txn.by != member.member or txn.stage != "pending":
        lost = assignments.lose(member)._replace(want=REJOIN)
        return Move(
            f"{who}'s transaction was aborted, T is lost", False, with_member(world, slot, lost)
        )
    decided = world._replace(broker=with_txn(world.broker, slot, txn._replace(stage="commit")))
    after = with_member(decided, slot, member._replace(step=DECIDED))
    return Move(f"{who} ends its transaction: commit decided", False, after)
