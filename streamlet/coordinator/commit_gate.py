"""The gate between commits and joins: when a commit may be sent, and what its answer means.

A commit belongs to a generation, and the generation changes somewhere between our JoinGroup and the
answer to it. So a join waits for the commits in flight and for the units of stopping and committing
that were announced (M2), and no commit is begun while a join is due or out, unless others keep our
JoinGroup waiting for long. A commit whose outcome is unknown may still arrive as long as its
generation lasts: nothing else is committed in it, and we rejoin to end it (M6).
"""

from __future__ import annotations

from streamlet.coordinator import events as ev
from streamlet.coordinator import messages as msg
from streamlet.coordinator.codes import NO_TOPIC, Remedy, RequestKind, judge
from streamlet.coordinator.member import Member
from streamlet.coordinator.states import ENDED, MembershipState
from streamlet.types import TopicPartition

#: The coordinator could not be asked, or did not say what it did.
_LINK_CODES = frozenset({13, 15, 16})


def free(member: Member) -> bool:
    """True if nothing is in flight that the next JoinGroup has to wait for (M2)."""
    return not member.holds and not member.in_flight.of(msg.OffsetCommit)


def hold(member: Member, wanted: ev.BlockJoin) -> None:
    """Have the next join wait for a unit of stopping and committing, if its commit can be sent."""
    granted = (
        member.state is MembershipState.STABLE
        and wanted.generation == member.generation
        and _can_send(member)
    )
    if granted:
        member.holds[wanted.token] = member.now_ms + member.config.hold_timeout_ms
    member.out.append(ev.JoinBlocked(wanted.token, granted))


def hold_commit(member: Member) -> None:
    """Have the next join wait for a commit that is prepared, if it could be sent now."""
    if member.state is MembershipState.STABLE and _can_send(member):
        member.holds[ev.COMMIT_TOKEN] = member.now_ms + member.config.hold_timeout_ms


def expire_holds(member: Member) -> None:
    """Stop waiting for units whose time is up."""
    member.holds = {token: until for token, until in member.holds.items() if until > member.now_ms}


def commit(member: Member, wanted: ev.CommitWanted) -> None:
    """Send a commit if the gate is open, else say at once that it was not sent."""
    refusal = _gate(member, wanted.hold, wanted.losses_seen)
    if refusal is not None:
        member.out.append(ev.CommitDone(wanted.token, refusal))
        return
    c = member.config
    claim = (c.group, member.generation, member.member_id, c.instance_id)
    request = msg.OffsetCommit(*claim, wanted.offsets)
    member.send(request, ev.Connection.MAIN, c.commit_timeout_ms, wanted.token)


def _gate(member: Member, hold: int | None, losses_seen: int | None) -> ev.CommitOutcome | None:
    """The outcome of a commit that may not be begun now, None if it may (M2, M6)."""
    if losses_seen not in (None, member.losses):
        return ev.CommitOutcome.LOST  # by now we may have other tasks, under another id
    if member.generation < 0 or _over(member):
        return ev.CommitOutcome.LOST
    if hold is not None:
        # Not once its time is over: a JoinGroup may have said that we go on with these tasks.
        is_open = hold in member.holds and _can_send(member)
    else:
        from_ms = open_from_ms(member)
        is_open = from_ms is not None and member.now_ms >= from_ms
    return None if is_open else ev.CommitOutcome.GATED


def open_from_ms(member: Member) -> int | None:
    """Time from which commits outside a unit pass the gate; None if they cannot pass now.

    Once the membership is over it is 0: such a commit is answered at once, as lost. While others
    keep our JoinGroup waiting the generation lasts, and its commits are taken.
    """
    if _over(member) or member.state is MembershipState.STALLED:
        return 0
    if not _can_send(member):
        return None
    if member.state is MembershipState.STABLE:
        return 0
    after_ms, joins = member.config.parked_commit_after_ms, member.in_flight.of(msg.JoinGroup)
    return None if after_ms is None or not joins else joins[0].sent_ms + after_ms


def _can_send(member: Member) -> bool:
    """True if there is a coordinator, and no commit of unknown outcome in this generation."""
    return member.poisoned is None and member.linked()


def _over(member: Member) -> bool:
    return member.state is MembershipState.LEAVING or member.state in ENDED


def on_commit(member: Member, flight: ev.Send, answer: msg.OffsetCommitAnswer) -> None:
    """Tell what became of a commit; see ``CommitOutcome``."""
    request = flight.request
    assert isinstance(request, msg.OffsetCommit)
    # A partition left out of the answer tells nothing, which is what UNKNOWN_SERVER_ERROR says.
    codes = [answer.errors.get(partition, -1) for partition in sorted(request.offsets)]
    verdict = judge(RequestKind.COMMIT, codes)
    problem = f"{RequestKind.COMMIT}: {verdict}"
    if verdict.code in _LINK_CODES:
        member.lose_link(problem)
    match verdict.remedy:
        case Remedy.PROCEED:
            gone = frozenset(tp for tp, code in answer.errors.items() if code in NO_TOPIC)
            code = max((answer.errors[tp] for tp in gone), default=0)
            _report(member, flight, ev.CommitOutcome.ACCEPTED, code, gone)
        case Remedy.REFUSED:
            _report(member, flight, ev.CommitOutcome.REFUSED, verdict.code)
        case Remedy.UNKNOWN:
            unknown(member, flight, verdict.code)
        case Remedy.STALE if member.join_sent or request.generation != member.generation:
            _report(member, flight, ev.CommitOutcome.SWITCHED, verdict.code)
        case Remedy.STALE:
            member.lose_tasks(problem)
            _report(member, flight, ev.CommitOutcome.LOST, verdict.code)
            member.prepare(member.pause_ms())
        case Remedy.RESET:
            member.forget_id(problem)
            _report(member, flight, ev.CommitOutcome.LOST, verdict.code)
            member.prepare(member.pause_ms())
        case Remedy.FATAL | Remedy.FENCED:
            member.refuse(RequestKind.COMMIT, verdict)
            _report(member, flight, ev.CommitOutcome.LOST, verdict.code)
        case _:
            _report(member, flight, ev.CommitOutcome.GATED, verdict.code)
            if verdict.remedy is Remedy.REJOIN:
                member.want_join(problem, force=False)


def unknown(member: Member, flight: ev.Send, code: int = 0) -> None:
    """Handle a commit of unknown outcome: no other in this generation, and rejoin soon (M6).

    Also of a commit that is not answered in time, or whose connection is lost.
    """
    request = flight.request
    assert isinstance(request, msg.OffsetCommit)
    _report(member, flight, ev.CommitOutcome.UNKNOWN, code)
    if request.generation == member.generation:
        member.poisoned = member.generation
        member.want_join("the outcome of a commit is unknown", force=False)
        member.reason = "the outcome of a commit is unknown"


def _report(
    member: Member,
    flight: ev.Send,
    outcome: ev.CommitOutcome,
    code: int = 0,
    gone: frozenset[TopicPartition] = frozenset(),
) -> None:
    member.out.append(ev.CommitDone(flight.token, outcome, code, gone))
