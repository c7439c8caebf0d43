"""The effect on a member of an answer, or of its lack; each looks its code up in ``codes``."""

from __future__ import annotations

from streamlet.coordinator import commit_gate
from streamlet.coordinator import events as ev
from streamlet.coordinator import messages as msg
from streamlet.coordinator.codes import Remedy, RequestKind, Verdict, judge, name_of
from streamlet.coordinator.member import MOST_REDUCED, Member
from streamlet.coordinator.states import MembershipState
from streamlet.rebalance.values import RunAssignor


def on_join(member: Member, answer: msg.JoinGroupAnswer) -> None:
    """Handle the answer to JoinGroup: send SyncGroup, after planning as leader, or join again."""
    verdict = judge(RequestKind.JOIN, [answer.error])
    match verdict.remedy:
        case Remedy.PROCEED:
            _joined(member, answer)
        case Remedy.IDENTIFY if answer.member_id and not member.member_id:
            member.member_id = answer.member_id
            member.send_join()
        case Remedy.OTHER_TYPE if member.mismatch():
            member.last_problem = f"{RequestKind.JOIN}: {verdict}"
        case _:
            _join_again(member, RequestKind.JOIN, verdict)


def _joined(member: Member, answer: msg.JoinGroupAnswer) -> None:
    # While parked we kept sending heartbeats if we had a generation, and those tell how old the
    # session is; a member without one starts its session with this answer.
    if member.newest < 0:
        member.last_heartbeat_ms = member.now_ms
    member.member_id = answer.member_id
    member.newest = answer.generation
    member.protocol_name = answer.protocol_name or ""
    member.heartbeat_at_ms = member.now_ms + member.config.heartbeat_interval_ms
    member.leads = answer.leader == answer.member_id
    if member.leads and not answer.skip_assignment:
        member.move_to(MembershipState.ASSIGNING)
        member.out.append(
            RunAssignor(answer.generation, answer.members, member.reduced, member.member_id)
        )
    else:
        member.send_sync(())


def on_sync(member: Member, flight: ev.Send, answer: msg.SyncGroupAnswer) -> None:
    """Take the assignment, or join again."""
    verdict = judge(RequestKind.SYNC, [answer.error])
    if verdict.remedy is Remedy.PROCEED:
        member.last_heartbeat_ms = max(member.last_heartbeat_ms, flight.sent_ms)
        member.deliver(answer.assignment)
    else:
        _join_again(member, RequestKind.SYNC, verdict)


def _join_again(member: Member, kind: RequestKind, verdict: Verdict) -> None:
    problem = f"{kind}: {verdict}"
    member.last_problem = problem
    match verdict.remedy:
        case Remedy.FATAL | Remedy.FENCED | Remedy.OTHER_TYPE:
            member.refuse(kind, verdict)
        case Remedy.RESET:
            member.forget_id(problem)
            member.prepare(member.pause_ms())
        case Remedy.REJOIN:
            member.prepare(member.pause_ms())
        case Remedy.SHRINK:
            _shrink(member)
        case Remedy.REFIND:
            member.lose_link(problem)
            member.prepare(member.retries.next_ms())
        case _:
            member.prepare(member.retries.next_ms())


def _shrink(member: Member) -> None:
    """Handle a broker that cannot store the group: join again later, with fewer bytes."""
    member.reduced = min(member.reduced + 1, MOST_REDUCED)
    member.reduced_until_ms = member.now_ms + member.config.reduced_for_ms
    member.force = True
    member.prepare(member.size_retries.next_ms())


def on_heartbeat(member: Member, flight: ev.Send, answer: msg.HeartbeatAnswer) -> None:
    """Note that we are alive, or learn of a rebalance or of the end of our membership."""
    request = flight.request
    assert isinstance(request, msg.Heartbeat)
    verdict = judge(RequestKind.HEARTBEAT, [answer.error])
    current = request.generation == member.newest
    match verdict.remedy:
        case Remedy.PROCEED | Remedy.REJOIN:
            member.last_heartbeat_ms = max(member.last_heartbeat_ms, flight.sent_ms)
            if current and verdict.remedy is Remedy.REJOIN:
                member.want_join("rebalance in progress", force=False)
        case Remedy.STALE:
            # With a JoinGroup of ours out this is the expected switch. Without one the group went
            # on without us (a static member that missed a rebalance), by claims older than ours.
            if current and not member.join_sent:
                member.lose_tasks(f"{RequestKind.HEARTBEAT}: {verdict}")
                member.prepare(member.pause_ms())
        case Remedy.RESET:
            member.forget_id(f"{RequestKind.HEARTBEAT}: {verdict}")
            member.prepare(member.pause_ms())
        case Remedy.FATAL | Remedy.FENCED:
            member.refuse(RequestKind.HEARTBEAT, verdict)
        case Remedy.REFIND:
            member.lose_link(f"{RequestKind.HEARTBEAT}: {verdict}")
        case _:
            member.last_problem = f"{RequestKind.HEARTBEAT}: {verdict}"


def on_fetch(member: Member, flight: ev.Send, answer: msg.OffsetFetchAnswer) -> None:
    """Hand committed positions over when all of them could be read."""
    request = flight.request
    assert isinstance(request, msg.OffsetFetch)
    parts = [answer.committed[p].error for p in request.partitions if p in answer.committed]
    # A partition left out of an answer without an error was not read: ask again.
    missing = [] if answer.error or len(parts) == len(request.partitions) else [-1]
    verdict = judge(RequestKind.FETCH, [answer.error, *parts, *missing])
    outcome = ev.FetchOutcome.RETRY
    match verdict.remedy:
        case Remedy.PROCEED:
            found = {p: answer.committed[p] for p in request.partitions}
            member.out.append(ev.FetchDone(flight.token, ev.FetchOutcome.FETCHED, found))
            return
        case Remedy.UNSTABLE:
            outcome = ev.FetchOutcome.UNSTABLE
        case Remedy.REFUSED:
            outcome = ev.FetchOutcome.REFUSED
        case Remedy.FATAL:
            outcome = ev.FetchOutcome.REFUSED
            member.refuse(RequestKind.FETCH, verdict)
        case Remedy.REFIND:
            member.lose_link(f"{RequestKind.FETCH}: {verdict}")
        case _:
            pass
    member.out.append(ev.FetchDone(flight.token, outcome, code=verdict.code))


def on_leave(member: Member, answer: msg.LeaveGroupAnswer) -> None:
    """Handle the answer to LeaveGroup: end, or try again if the coordinator was not reached."""
    if member.state not in (MembershipState.LEAVING, MembershipState.MIGRATING):
        return  # the goodbye of a stalled member, which may be back already
    verdict = judge(RequestKind.LEAVE, [answer.error])
    if verdict.remedy in (Remedy.RETRY, Remedy.REFIND):
        if verdict.remedy is Remedy.REFIND:
            member.lose_link(f"{RequestKind.LEAVE}: {verdict}")
        member.retry_at_ms = member.now_ms + member.retries.next_ms()
    elif member.state is MembershipState.MIGRATING:
        member.gone_over()
    else:
        member.left()


def on_find_failed(member: Member, error: int | None) -> None:
    """Look again later, or give up if the broker will not tell us."""
    if error is not None:
        verdict = judge(RequestKind.FIND, [error])
        if verdict.remedy is Remedy.FATAL:
            member.refuse(RequestKind.FIND, verdict)
            return
    problem = "no broker answers" if error is None else name_of(error)
    member.lose_link(f"{RequestKind.FIND}: {problem}")


def on_failure(member: Member, flight: ev.Send, kind: ev.FailureKind) -> None:
    """A request got no answer: the coordinator is looked up again before anything else."""
    if kind is ev.FailureKind.TIMEOUT:
        member.out.append(ev.Abandon(flight.number, flight.connection))
    request = flight.request
    member.lose_link(f"{type(request).__name__}: {kind}")
    match request:
        case msg.JoinGroup() | msg.SyncGroup():
            member.prepare(member.pause_ms())
        case msg.OffsetCommit():
            commit_gate.unknown(member, flight)
        case msg.OffsetFetch():
            member.out.append(ev.FetchDone(flight.token, ev.FetchOutcome.RETRY))
        case msg.LeaveGroup() if member.state is MembershipState.LEAVING:
            member.left()
        case msg.LeaveGroup() | msg.Heartbeat():
            pass
