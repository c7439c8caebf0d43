"""A member of a classic Kafka group as a machine: ``handle(event, now_ms) -> commands``.

It knows JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit and OffsetFetch with all their
error codes, static ids and timers. It must not know sockets, threads, clocks, nor what is being
assigned: metadata and assignments are bytes that others make and read.

How a rebalance goes. A heartbeat answered REBALANCE_IN_PROGRESS, or a reason of our own, makes a
STABLE member PREPARING. It waits for its commits in flight, because the generation changes the
moment the last member's JoinGroup arrives and a commit of the old one is refused from then on;
then it asks for its description and sends JoinGroup. The coordinator parks that until every member
has joined. From then on no commit is begun until SyncGroup is answered (the gate), but processing
goes on. The leader gets all descriptions, plans, and brings the plan with its SyncGroup.

Two rules carry the safety. Claims live as long as the member id (M1): a member that loses the id
stops its tasks and writes nothing. Commits and joins keep clear of each other (M2, M6):
``commit_gate``.

``states`` has the drawing and the table of moves, ``codes`` the meaning of each error code,
``answers`` what an answer does, ``member`` the fields with what always holds of them.
"""

from __future__ import annotations

from streamlet.coordinator import answers, commit_gate
from streamlet.coordinator import events as ev
from streamlet.coordinator import messages as msg
from streamlet.coordinator.connection import ConnectionState
from streamlet.coordinator.member import Member
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.states import (
    BETWEEN,
    ENDED,
    LIVE,
    IllegalEventError,
    MembershipState,
    MembershipView,
)

__all__ = ["IllegalEventError", "Membership", "MembershipState"]


class Membership:
    """The machine; ``handle`` is the only way to change anything.

    It never blocks, and never raises for what a network or a broker may do.
    """

    def __init__(self, config: MembershipConfig) -> None:
        self._member = Member(config)
        self._announced: int | None = None

    @property
    def view(self) -> MembershipView:
        """The membership as it is now."""
        m = self._member
        return MembershipView(
            m.state,
            m.member_id,
            m.generation,
            m.last_heartbeat_ms,
            m.last_problem,
            commit_gate.open_from_ms(m),
            m.linked(),
        )

    def __repr__(self) -> str:
        m = self._member
        return f"<{m.state} {m.member_id or '?'} gen {m.generation}, {m.link.state}>"

    def handle(self, event: ev.Event, now_ms: int) -> list[ev.Command]:
        """Take one event and give the commands that follow from it, in order.

        Raises:
            IllegalEventError: for an event before ``StartMembership``, or for a second one.
        """
        m = self._member
        if isinstance(event, ev.StartMembership) != (m.state is MembershipState.NEW):
            raise IllegalEventError(f"{type(event).__name__} in state {m.state}")
        m.now_ms = max(m.now_ms, now_ms)
        self._apply(event)
        self._settle()
        self._announce()
        m.out, commands = [], m.out
        return commands

    def _apply(self, event: ev.Event) -> None:
        m = self._member
        match event:
            case ev.StartMembership():
                m.last_progress_ms = m.last_heartbeat_ms = m.now_ms
                m.move_to(MembershipState.PREPARING)
            case ev.CoordinatorFound(address):
                self._found(address)
            case ev.CoordinatorNotFound(error):
                if m.link.state is ConnectionState.FINDING:
                    answers.on_find_failed(m, error)
            case ev.Answered(number, answer):
                self._answered(number, answer)
            case ev.RequestFailed(number, kind):
                self._failed(number, kind)
            case ev.Tick():
                pass  # time itself is dealt with after each event
            case ev.MetadataReady(request, protocol_type, protocols):
                self._described(request, protocol_type, protocols)
            case ev.AssignmentsReady(generation, assignments):
                self._assigned(generation, assignments)
            case ev.MigrationOrdered(protocol_type, generation):
                if m.state is MembershipState.STABLE and generation == m.generation:
                    m.order_migration(protocol_type)
            case ev.AssignorFailed(generation, reason):
                if m.state is MembershipState.ASSIGNING and generation == m.newest:
                    m.last_problem = f"assignor: {reason}"
                    m.prepare(m.retries.next_ms())
            case _:
                self._worker_request(event)

    def _worker_request(self, event: ev.WorkerRequest) -> None:
        m = self._member
        match event:
            case ev.Rejoin(reason, descriptions):
                known = descriptions is not None and descriptions < m.description
                if known and m.state in BETWEEN:
                    m.described = True
                else:
                    m.want_join(reason, force=True)
            case ev.CommitWanted():
                commit_gate.commit(m, event)
            case ev.FetchWanted(token, partitions):
                self._fetch(msg.OffsetFetch(m.config.group, partitions), token)
            case ev.BlockJoin():
                commit_gate.hold(m, event)
            case ev.CommitSoon():
                commit_gate.hold_commit(m)
            case ev.UnblockJoin(token):
                m.end_hold(token)
            case ev.HeartbeatWanted():
                m.heartbeat_at_ms = min(m.heartbeat_at_ms, m.now_ms)
            case ev.ProgressMade():
                m.last_progress_ms = m.now_ms
                if m.state is MembershipState.STALLED:
                    m.prepare(0)
            case ev.LeaveWanted(reason, quietly):
                if m.state in LIVE or m.state is MembershipState.STALLED:
                    m.begin_leaving(reason, quiet=quietly)

    def _found(self, address: str) -> None:
        m = self._member
        if m.link.state is not ConnectionState.FINDING:
            return  # an answer to a look-up we gave up
        moved = m.link.find(address)
        m.heartbeat_at_ms = m.now_ms
        if moved and m.state in (MembershipState.JOINING, MembershipState.SYNCING):
            m.prepare(m.pause_ms())  # it is parked where no coordinator will answer it

    def _answered(self, number: int, answer: msg.Answer) -> None:
        m = self._member
        flight = m.in_flight.complete(number)
        if flight is None:
            return
        m.link.retries.reset()
        match flight.request, answer:
            case msg.JoinGroup(), msg.JoinGroupAnswer():
                answers.on_join(m, answer)
            case msg.SyncGroup(), msg.SyncGroupAnswer():
                answers.on_sync(m, flight, answer)
            case msg.Heartbeat(), msg.HeartbeatAnswer():
                answers.on_heartbeat(m, flight, answer)
            case msg.OffsetCommit(), msg.OffsetCommitAnswer():
                commit_gate.on_commit(m, flight, answer)
            case msg.OffsetFetch(), msg.OffsetFetchAnswer():
                answers.on_fetch(m, flight, answer)
            case msg.LeaveGroup(), msg.LeaveGroupAnswer():
                answers.on_leave(m, answer)
            case request, other:
                raise IllegalEventError(f"{type(other).__name__} for {type(request).__name__}")

    def _failed(self, number: int, kind: ev.FailureKind) -> None:
        flight = self._member.in_flight.complete(number)
        if flight is not None:
            answers.on_failure(self._member, flight, kind)

    def _described(
        self, request: int, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
    ) -> None:
        m = self._member
        if m.state is not MembershipState.DESCRIBING or request != m.description:
            return
        m.metadata = (protocol_type, protocols)
        if m.linked():
            m.send_join()
        else:
            m.prepare(0)

    def _assigned(self, generation: int, assignments: dict[str, bytes]) -> None:
        m = self._member
        if m.state is not MembershipState.ASSIGNING or generation != m.newest:
            return
        if m.linked():
            m.send_sync(tuple(sorted(assignments.items())))
        else:
            m.prepare(0)

    def _fetch(self, request: msg.OffsetFetch, token: int) -> None:
        m = self._member
        if m.linked() and m.state not in ENDED:
            m.send(request, ev.Connection.MAIN, m.config.request_timeout_ms, token)
        else:
            m.out.append(ev.FetchDone(token, ev.FetchOutcome.RETRY))

    def _settle(self) -> None:
        """Do all that is due now, whatever the event was."""
        m = self._member
        for flight in m.in_flight.overdue(m.now_ms):
            self._failed(flight.number, ev.FailureKind.TIMEOUT)
        commit_gate.expire_holds(m)
        if m.state in LIVE and m.now_ms >= self._progress_due_ms():
            limit_ms = m.config.max_poll_interval_ms
            m.stall(f"the worker made no progress for {limit_ms} ms (max.poll.interval.ms)")
        if m.state in LIVE or m.state is MembershipState.LEAVING:
            look_up = m.link.look_up(m.now_ms)
            if look_up is not None:
                m.out.append(look_up)
        if (
            m.state is MembershipState.PREPARING
            and m.linked()
            and commit_gate.free(m)
            and m.retry_at_ms <= m.now_ms
        ):
            if m.migrates_to is not None:
                m.go_over()
            if m.state is MembershipState.PREPARING:
                m.describe()
        if m.state in (MembershipState.MIGRATING, MembershipState.LEAVING):
            self._go()
        if self._beats() and m.heartbeat_at_ms <= m.now_ms:
            self._heartbeat()

    def _progress_due_ms(self) -> int:
        return self._member.last_progress_ms + self._member.config.max_poll_interval_ms

    def _go(self) -> None:
        """Leave once the commits in flight are answered, or half of the time is up.

        A member that goes without a request makes the others wait until its session is over. So
        does one that goes over to a group of another type, if it comes to that; it has no commits.
        """
        m = self._member
        late, over = m.now_ms >= m.leave_by_ms, m.state is MembershipState.MIGRATING
        if not over and m.in_flight.of(msg.OffsetCommit) and m.now_ms < m.goodbye_by_ms:
            return
        if over and late:
            m.gone_over()
        elif not over and (late or m.quiet or not m.member_id):
            m.left()
        elif m.linked() and m.retry_at_ms <= m.now_ms and not m.in_flight.of(msg.LeaveGroup):
            m.send_leave(m.reason)

    def _beats(self) -> bool:
        """Handle a request for a heartbeat, now or later."""
        m = self._member
        beats = m.state in LIVE and m.state is not MembershipState.MIGRATING
        return beats and m.newest >= 0 and m.linked() and not m.in_flight.of(msg.Heartbeat)

    def _heartbeat(self) -> None:
        m = self._member
        c = m.config
        m.heartbeat_at_ms = m.now_ms + c.heartbeat_interval_ms
        timeout_ms = min(c.request_timeout_ms, c.session_timeout_ms // 2)
        request = msg.Heartbeat(c.group, m.newest, m.member_id, c.instance_id)
        m.send(request, ev.Connection.MAIN, timeout_ms)

    def _announce(self) -> None:
        """Say when to be woken, if that changed."""
        at_ms = self._wake_at_ms()
        if at_ms is not None and at_ms != self._announced:
            self._member.out.append(ev.WakeAt(at_ms))
        self._announced = at_ms

    def _wake_at_ms(self) -> int | None:
        m = self._member
        times = [*m.in_flight.deadlines(), *m.holds.values()]
        if m.state in LIVE:
            times.append(self._progress_due_ms())
        if m.state is MembershipState.LEAVING:
            by_ms = m.goodbye_by_ms if m.now_ms < m.goodbye_by_ms else m.leave_by_ms
            times.append(by_ms)
        if m.state is MembershipState.MIGRATING:
            times.append(m.leave_by_ms)
        if m.state in LIVE or m.state is MembershipState.LEAVING:
            if m.link.state is not ConnectionState.FOUND:
                times.append(m.link.due_ms)
            if m.retry_at_ms > m.now_ms:
                times.append(m.retry_at_ms)
        if self._beats():
            times.append(m.heartbeat_at_ms)
        return min(times, default=None)

    def check_invariants(self) -> None:
        """Assert what always holds between two events; for tests and simulations."""
        m = self._member
        joins, syncs = len(m.in_flight.of(msg.JoinGroup)), len(m.in_flight.of(msg.SyncGroup))
        commits = m.in_flight.of(msg.OffsetCommit)
        assert joins == (m.state is MembershipState.JOINING), (m.state, joins)
        assert syncs == (m.state is MembershipState.SYNCING), (m.state, syncs)
        assert len(m.in_flight.of(msg.Heartbeat)) <= 1
        assert -1 <= m.generation <= m.newest, (m.generation, m.newest)
        assert m.member_id or m.newest == -1, "a generation without a member id"
        assert m.state is not MembershipState.STABLE or m.generation == m.newest >= 0
        assert m.poisoned is None or m.poisoned == m.generation, (m.poisoned, m.generation)
        assert m.state not in ENDED or (not len(m.in_flight) and not m.holds)
        assert not commits or m.generation >= 0, "a commit in flight without a claim"
        assert not m.holds or m.state in (
            MembershipState.STABLE,
            MembershipState.PREPARING,
            MembershipState.LEAVING,
        )
        wake_ms = self._wake_at_ms()
        assert wake_ms is None or wake_ms > m.now_ms, (wake_ms, m.now_ms, m.state)
        assert not m.out, "commands were not given out"
