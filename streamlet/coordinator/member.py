"""The state of a member and the actions on it; ``answers`` decides which.

Nothing here sends or waits: commands collect in ``out`` and time comes with every event.
"""

from __future__ import annotations

import attrs

from streamlet.coordinator import events as ev
from streamlet.coordinator import messages as msg
from streamlet.coordinator.codes import Remedy, RequestKind, Verdict
from streamlet.coordinator.connection import (
    ConnectionState,
    CoordinatorConnection,
    InFlightRequests,
)
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.states import ENDED, LIVE, MOVES, IllegalMoveError, MembershipState
from streamlet.errors import FatalGroupError, FencedError, GroupError, GroupRightError
from streamlet.rebalance.values import NeedMetadata
from streamlet.retries import Retries

#: How often in succession a group may turn out to be of another type than we tried: it changes its
#: type at most once while we look.
MOST_MISMATCHES = 8
#: How often to look whether a group we left has become empty, ms.
INSIST_MS = 100
#: A reduced description twice reduced has nothing left to leave out.
MOST_REDUCED = 2

_HINTS = {
    23: "it has members of another protocol type: end them, or give the application another id",
    26: "set session.timeout.ms within the broker's group.min. and group.max.session.timeout.ms",
    35: "the broker is too old",
    81: "the broker's group.max.size is reached",
}


@attrs.define(eq=False)
class Member:
    """One member of one group. All times are ms of one monotonic clock."""

    config: MembershipConfig
    state: MembershipState = MembershipState.NEW
    #: Given by the coordinator; claims live exactly as long as it does (M1).
    member_id: str = ""
    #: Of the last assignment delivered under this member id; -1 means that nothing can be claimed.
    generation: int = -1
    #: Newest generation the coordinator sent us under this member id, never below ``generation``.
    #: Heartbeats bear it: after a failed SyncGroup the group is already there.
    newest: int = -1
    #: A JoinGroup went out since the last assignment, so the generation may change at any moment.
    join_sent: bool = False
    #: The generation in which a commit has an unknown outcome: no other may be begun in it (M6).
    poisoned: int | None = None
    #: Part of the metadata; higher in each JoinGroup that must not look like the one before.
    nonce: int = attrs.field(init=False)
    #: The next description must differ, because of something that happened since the last one.
    force: bool = False
    #: The last description differed on purpose, and no assignment has come of it yet.
    forced: bool = False
    #: A rebalance is wanted for what the last description says: the join under way may bring it.
    described: bool = False
    #: How often tasks were lost so far.
    losses: int = 0
    #: Joined by static id as a new process and nothing delivered since.
    restarted: bool = False
    #: What to join as; empty if there is no choice.
    kind: str = attrs.field(init=False)
    #: The type we are ordered to go over to, until we left the group for it.
    migrates_to: str | None = None
    #: The unit that must be over before; without it nothing was committed, and we do not go.
    migration_token: int | None = None
    #: Having left for another type, join as nothing else before this.
    insist_until_ms: int | None = None
    #: How often in succession the group was of another type than we tried.
    mismatches: int = 0
    reason: str = "joining"
    #: For people: the last thing that went wrong.
    last_problem: str = ""
    #: How much to leave out of descriptions, and until when: the broker could not store all.
    reduced: int = 0
    reduced_until_ms: int = 0
    #: Units of stopping and committing that a JoinGroup waits for: token -> no longer than this.
    #: Those asked for have tokens of 0 and more, those of announced joins are below.
    holds: dict[int, int] = attrs.field(factory=dict)
    announced_joins: int = 0
    description: int = 0  # number of the NeedMetadata last asked
    metadata: tuple[str, tuple[tuple[str, bytes], ...]] = ("", ())
    protocol_name: str = ""
    leads: bool = False
    quiet: bool = False
    retry_at_ms: int = 0
    leave_by_ms: int = 0
    goodbye_by_ms: int = 0
    heartbeat_at_ms: int = 0
    #: When the last heartbeat known to have arrived was sent: the coordinator keeps us for at least
    #: ``session_timeout_ms`` from then. Looked at before a changelog flush (C4).
    last_heartbeat_ms: int = 0
    last_progress_ms: int = 0
    now_ms: int = 0
    link: CoordinatorConnection = attrs.field(init=False)
    retries: Retries = attrs.field(init=False)
    size_retries: Retries = attrs.field(init=False)
    in_flight: InFlightRequests = attrs.field(factory=InFlightRequests)
    out: list[ev.Command] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        """Set up what depends on the settings."""
        c = self.config
        self.nonce = c.first_nonce
        self.kind = c.protocol_types[0] if c.protocol_types else ""
        self.link = CoordinatorConnection(
            Retries(c.backoff_ms, c.backoff_max_ms, c.jitter), c.request_timeout_ms
        )
        self.retries = Retries(c.backoff_ms, c.backoff_max_ms, c.jitter)
        self.size_retries = Retries(c.backoff_ms * 4, c.size_backoff_max_ms, c.jitter)

    def move_to(self, state: MembershipState) -> None:
        """Make a move the table allows.

        Raises:
            IllegalMoveError: if it does not; the state stays.
        """
        if state not in MOVES[self.state]:
            raise IllegalMoveError(f"{self.state} -> {state} in generation {self.generation}")
        self.state = state

    def send(
        self, request: msg.Request, connection: ev.Connection, timeout_ms: int, token: int = -1
    ) -> None:
        """Put a request on its way."""
        self.out.append(self.in_flight.add(request, connection, timeout_ms, self.now_ms, token))

    def linked(self) -> bool:
        """Say whether there is a coordinator to send to."""
        return self.link.state is ConnectionState.FOUND

    def lose_link(self, problem: str) -> None:
        """Forget the coordinator; it is looked up again."""
        self.last_problem = problem
        self.link.lose(self.now_ms)

    def drop(self, *kinds: type[msg.Request]) -> list[ev.Send]:
        """Stop waiting for all requests of some kinds."""
        dropped = self.in_flight.of(*kinds)
        for flight in dropped:
            self.in_flight.complete(flight.number)
            self.out.append(ev.Abandon(flight.number, flight.connection))
        return dropped

    def prepare(self, wait_ms: int) -> None:
        """Give up a join under way, if any, and join again after ``wait_ms``; not when leaving."""
        if self.state is MembershipState.LEAVING or self.state in ENDED:
            return
        self.drop(msg.JoinGroup, msg.SyncGroup)
        self.force = self.force or self.forced
        self.forced = False
        self.retry_at_ms = self.now_ms + wait_ms
        if self.state is not MembershipState.PREPARING:
            self.move_to(MembershipState.PREPARING)

    def pause_ms(self) -> int:
        """Wait for what is expected to work at once: nothing the first time, then with back-off."""
        wait_ms = self.retries.next_ms()
        return 0 if self.retries.failures == 1 else wait_ms

    def want_join(self, reason: str, *, force: bool) -> None:
        """Rejoin when stable; ``force``: a rebalance must come of it, after the present one too."""
        if self.state not in LIVE:
            return
        self.force = self.force or force
        if force or self.state is MembershipState.STABLE:
            self.reason = reason
        if self.state is MembershipState.STABLE:
            self.prepare(0)
            # With a commit unknown nothing more could be committed.
            if self.config.announce_joins and self.poisoned is None:
                self._announce_join(self.config.hold_timeout_ms)

    def _announce_join(self, hold_ms: int, *, migration: bool = False) -> int:
        """Give the worker time to stop what it gives up at a join; the token of that unit."""
        self.announced_joins += 1
        token = -self.announced_joins
        self.holds[token] = self.now_ms + hold_ms
        self.out.append(ev.JoinSoon(token, self.generation, migration=migration))
        return token

    def order_migration(self, kind: str) -> None:
        """Begin to go over to another type: give the worker time to stop and commit (F2).

        With a commit unknown nothing could be kept, so we stay; the next plan orders it again.
        """
        if self.poisoned is not None or kind == self.kind or kind not in self.config.protocol_types:
            return
        self.reason = f"the group becomes one of type {kind}"
        self.prepare(0)
        # A member that stays makes all the others wait, so even a slow batch is better waited for.
        hold_ms = self.config.rebalance_timeout_ms // 2
        self.migrates_to, self.migration_token = kind, self._announce_join(hold_ms, migration=True)

    def end_hold(self, token: int) -> None:
        """A unit is over. That of a migration in time means that we may leave for it."""
        if self.holds.pop(token, None) is not None and token == self.migration_token:
            self.migration_token = None

    def go_over(self) -> None:
        """Leave the group, to join one of another type; what we hold stays ours to claim (F2)."""
        if self.migration_token is not None:  # the unit took too long: stay, and be ordered again
            self.migrates_to = self.migration_token = None
            return
        self.leave_by_ms = self.now_ms + self.config.leave_timeout_ms
        self.move_to(MembershipState.MIGRATING)

    def gone_over(self) -> None:
        """Join as the other type: our id was of the group we left."""
        assert self.migrates_to is not None
        self.drop(msg.Heartbeat, msg.LeaveGroup)
        self.kind, self.migrates_to = self.migrates_to, None
        self.insist_until_ms = self.now_ms + self.config.rebalance_timeout_ms
        self.member_id = ""
        self.generation = self.newest = -1
        self.poisoned = None  # what is unknown is of a membership that we gave up
        self.join_sent = False
        self.prepare(0)

    def mismatch(self) -> bool:
        """Try again as the other type, or as the same while we insist; False: there is no use."""
        c = self.config
        self.mismatches += 1
        insists = self.insist_until_ms is not None and self.now_ms < self.insist_until_ms
        if len(c.protocol_types) < 2 or (not insists and self.mismatches > MOST_MISMATCHES):
            return False
        if self.generation >= 0:  # it became a group of another type without us
            self.forget_id(f"the group is no longer of type {self.kind}")
        if insists:
            self.mismatches = 0
            self.prepare(min(self.retries.next_ms(), INSIST_MS))
        else:
            self.insist_until_ms = None
            self.kind = next(kind for kind in c.protocol_types if kind != self.kind)
            self.prepare(self.pause_ms())
        return True

    def describe(self) -> None:
        """Ask for the metadata to join with."""
        if self.now_ms >= self.reduced_until_ms:
            self.reduced = 0
        if self.force or self.poisoned is not None:
            self.nonce += 1
            self.force, self.forced = False, True
        self.description += 1
        self.move_to(MembershipState.DESCRIBING)
        self.out.append(
            NeedMetadata(
                self.description,
                self.member_id,
                self.generation,
                self.nonce,
                self.reduced,
                self.reason,
                self.kind,
            )
        )

    def send_join(self) -> None:
        """Send JoinGroup with the metadata at hand; no commit may be in flight (M2)."""
        assert not self.in_flight.of(msg.OffsetCommit), "JoinGroup beside a commit in flight"
        c = self.config
        protocol_type, protocols = self.metadata
        self.move_to(MembershipState.JOINING)
        self.join_sent = True
        self.restarted = self.restarted or (c.instance_id is not None and not self.member_id)
        request = msg.JoinGroup(
            c.group,
            self.member_id,
            c.instance_id,
            protocol_type,
            protocols,
            c.session_timeout_ms,
            c.rebalance_timeout_ms,
            self.reason,
        )
        self.send(request, ev.Connection.JOIN, c.rebalance_timeout_ms + c.request_timeout_ms)

    def send_sync(self, assignments: tuple[tuple[str, bytes], ...]) -> None:
        """Send SyncGroup; a leader sends all assignments."""
        c = self.config
        self.move_to(MembershipState.SYNCING)
        request = msg.SyncGroup(
            c.group,
            self.newest,
            self.member_id,
            c.instance_id,
            self.metadata[0],
            self.protocol_name,
            assignments,
        )
        self.send(request, ev.Connection.JOIN, c.rebalance_timeout_ms + c.request_timeout_ms)

    def deliver(self, assignment: bytes) -> None:
        """Take the assignment of the newest generation; join again if that was wanted meanwhile."""
        # It may be the generation that there was: then no leader planned with our description.
        self.force = self.force or (self.described and self.generation == self.newest)
        self.generation, self.described = self.newest, False
        # A static successor may be handed its predecessor's assignment, without a rebalance.
        self.force = self.force or (self.restarted and self.forced)
        self.join_sent = self.forced = False
        self.insist_until_ms, self.mismatches = None, 0
        self.retries.reset()
        self.size_retries.reset()
        self.heartbeat_at_ms = self.now_ms + self.config.heartbeat_interval_ms
        self.move_to(MembershipState.STABLE)
        part = (self.generation, self.member_id, assignment, self.leads, self.restarted)
        self.out.append(ev.Assigned(*part))
        self.restarted = False
        if self.poisoned != self.generation:
            self.poisoned = None
        if self.force or self.poisoned is not None:
            self.want_join(self.reason, force=True)

    def lose_tasks(self, reason: str) -> None:
        """Give up every claim; commits in flight count as lost with it (M1)."""
        self.last_problem = reason
        if self.generation >= 0:
            self.out.append(ev.Lost(reason))
            self.losses += 1
        for flight in self.drop(msg.OffsetCommit):
            self.out.append(ev.CommitDone(flight.token, ev.CommitOutcome.LOST))
        self.generation = -1
        self.poisoned = None
        self.holds.clear()
        self.migrates_to = self.migration_token = None

    def forget_id(self, reason: str) -> None:
        """Give up the member id, and with it every claim."""
        self.lose_tasks(reason)
        self.drop(msg.Heartbeat)
        self.member_id = ""
        self.newest = -1
        self.join_sent = False

    def stall(self, reason: str) -> None:
        """Leave because the worker does; come back when it makes progress."""
        self.drop(msg.JoinGroup, msg.SyncGroup)
        self.lose_tasks(reason)
        if self.member_id and self.linked():
            self.send_leave(reason)
        self.forget_id(reason)
        self.move_to(MembershipState.STALLED)

    def send_leave(self, reason: str) -> None:
        """Send LeaveGroup for our member id."""
        request = msg.LeaveGroup(self.config.group, self.member_id, self.config.instance_id, reason)
        self.send(request, ev.Connection.MAIN, self.config.leave_timeout_ms)

    def begin_leaving(self, reason: str, *, quiet: bool) -> None:
        """Stop joining; LeaveGroup follows when the commits in flight are answered."""
        self.drop(msg.JoinGroup, msg.SyncGroup)
        self.reason, self.quiet = reason, quiet
        self.leave_by_ms = self.now_ms + self.config.leave_timeout_ms
        self.goodbye_by_ms = self.now_ms + self.config.leave_timeout_ms // 2
        self.retry_at_ms = self.now_ms
        self.move_to(MembershipState.LEAVING)

    def fail(self, error: GroupError) -> None:
        """End the membership with an error that no retry mends."""
        self.lose_tasks(str(error))
        self._end(MembershipState.FAILED)
        self.out.append(ev.Failed(error))

    def refuse(self, kind: RequestKind, verdict: Verdict) -> None:
        """End the membership with the error that an answer stands for."""
        group, instance_id = self.config.group, self.config.instance_id
        if verdict.remedy is Remedy.FENCED:
            joined = f"another process joined group {group} with group.instance.id {instance_id}"
            self.fail(FencedError(f"{verdict}: {joined}"))
            return
        hint = f" ({_HINTS[verdict.code]})" if verdict.code in _HINTS else ""
        text = f"{kind} of group {group} was refused: {verdict}{hint}"
        self.fail(GroupRightError(text, group) if verdict.code == 30 else FatalGroupError(text))

    def left(self) -> None:
        """End as wanted."""
        for flight in self.drop(msg.OffsetCommit):
            self.out.append(ev.CommitDone(flight.token, ev.CommitOutcome.UNKNOWN))
        self._end(MembershipState.LEFT)
        self.out.append(ev.Left())

    def _end(self, state: MembershipState) -> None:
        for flight in self.drop(msg.OffsetFetch):
            self.out.append(ev.FetchDone(flight.token, ev.FetchOutcome.RETRY))
        self.drop(msg.JoinGroup, msg.SyncGroup, msg.Heartbeat, msg.LeaveGroup)
        self.generation = self.newest = -1
        self.member_id = ""
        self.join_sent = False
        self.poisoned = None
        self.holds.clear()
        self.move_to(state)
