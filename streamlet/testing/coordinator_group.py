"""One classic group inside the fake coordinator: who is a member, and what each request does to it.

It has the coordinator's time, timers and answers. What moves the group between its states::

            first join                 all have joined, or time is up
    EMPTY ────────────▶ PREPARING ─────────────────────────────────▶ COMPLETING
      ▲                    ▲  ▲                                           │ the leader's
      │ none joined        │  └── new member, changed metadata, leave ────┤ SyncGroup
      └────────────────────┘                                              ▼
                           └── the same, or the leader rejoins ──────── STABLE

The behaviour is that of Apache Kafka's ``GroupMetadataManager``; a contract test runs the same
scripts against this class and against a real broker and compares the answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from streamlet.coordinator.messages import (
    Heartbeat,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.testing.coordinator_desk import (
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    OK,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR,
    CoordinatorMember,
    GroupPhase,
    RequestId,
)
from streamlet.testing.coordinator_roster import Roster

if TYPE_CHECKING:
    from streamlet.testing.coordinator import FakeCoordinator


@attrs.define(eq=False)
class ClassicGroup:
    """The group: its phase, its generation and what is parked."""

    name: str
    desk: FakeCoordinator
    state: GroupPhase = GroupPhase.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    roster: Roster = attrs.field(factory=Roster)
    pending: set[str] = attrs.field(factory=set)  # got an id, have not joined with it
    unsynced: set[str] = attrs.field(factory=set)  # joined, have not sent SyncGroup
    initial: bool = False  # inside the rebalance that leaves EMPTY
    grown: bool = False  # a member came during the initial delay

    # -- JoinGroup -----------------------------------------------------------------------------

    def join(self, request_id: RequestId, request: JoinGroup, client: str) -> None:
        """Answer a JoinGroup now, or park it."""
        known = request.member_id
        if not self._has_room(known):
            self.remove(known)
            self._refuse_join(request_id, "", GROUP_MAX_SIZE_REACHED)
        elif not self._supports(request):
            self._refuse_join(request_id, known, INCONSISTENT_GROUP_PROTOCOL)
        elif not known:
            self._join_stranger(request_id, request, client)
        elif known in self.pending:
            self._add(request_id, request, known)
        elif (error := self.roster.check(known, request.instance_id)) != OK:
            self._refuse_join(request_id, known, error)
        else:
            self._join_again(request_id, request, self.roster.members[known])

    def _refuse_join(self, request_id: RequestId, member_id: str, error: int) -> None:
        self.desk.answer(request_id, JoinGroupAnswer(error, member_id=member_id))

    def _has_room(self, member_id: str) -> bool:
        limit = self.desk.rules.max_group_size
        member = self.roster.get(member_id)
        if self.state is GroupPhase.EMPTY:
            return True
        if self.state is GroupPhase.PREPARING:
            # Those already waiting are counted, so that the last to rejoin are the ones left out.
            waiting = sum(m.join_request is not None for m in self.roster)
            return (member is not None and member.join_request is not None) or waiting < limit
        return member is not None or len(self.roster) < limit

    def _supports(self, request: JoinGroup) -> bool:
        if self.state is GroupPhase.EMPTY:
            return bool(request.protocol_type and request.protocols)
        # With no members left but ids handed out, any name is one that all members have.
        common = self.roster.common_protocols()
        return request.protocol_type == self.protocol_type and (
            not len(self.roster) or any(name in common for name, _ in request.protocols)
        )

    def _join_stranger(self, request_id: RequestId, request: JoinGroup, client: str) -> None:
        new_id = self.desk.new_id(request.instance_id or client)
        if request.instance_id is None:
            self.pending.add(new_id)
            self.desk.schedule(
                self.name,
                f"heartbeat {new_id}",
                request.session_timeout_ms,
                lambda: self.expire(new_id),
            )
            self._refuse_join(request_id, new_id, MEMBER_ID_REQUIRED)
        elif (old := self.roster.static_member(request.instance_id)) is not None:
            self._replace(request_id, request, old, new_id)
        else:
            self._add(request_id, request, new_id)

    def _add(self, request_id: RequestId, request: JoinGroup, member_id: str) -> None:
        if not self.roster:
            self.protocol_type = request.protocol_type
        member = CoordinatorMember.of(request, member_id, is_new=True, join_request=request_id)
        self.roster.add(member)
        self.pending.discard(member_id)
        self.grown = self.grown or self.initial
        self.keep_alive(member, self.desk.rules.new_member_timeout_ms)
        self._rebalance_or_complete()

    def _join_again(
        self, request_id: RequestId, request: JoinGroup, member: CoordinatorMember
    ) -> None:
        unchanged = member.protocols == request.protocols
        leads = member.member_id == self.roster.leader
        if self.state is GroupPhase.EMPTY:
            self._refuse_join(request_id, member.member_id, UNKNOWN_MEMBER_ID)
        elif (self.state is GroupPhase.COMPLETING and unchanged) or (
            self.state is GroupPhase.STABLE and unchanged and not leads
        ):
            # It may only have missed our answer; a stable group does not move for that. A leader
            # that asks is different: it has a reason that its metadata does not show.
            self.desk.answer(request_id, self._joined(member, leads))
        else:
            self._update(member, request, request_id)
            self._rebalance_or_complete()

    def _update(self, member: CoordinatorMember, request: JoinGroup, request_id: RequestId) -> None:
        """Take over what it says now; a join of it that was parked will never be answered."""
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.join_request = request_id

    def _replace(
        self, request_id: RequestId, request: JoinGroup, old: CoordinatorMember, new_id: str
    ) -> None:
        """A static member came back without its id: the newcomer takes the place of the old."""
        self._answer_join(old, JoinGroupAnswer(FENCED_INSTANCE_ID, member_id=old.member_id))
        self._answer_sync(old, SyncGroupAnswer(FENCED_INSTANCE_ID))
        self.desk.cancel(self.name, f"heartbeat {old.member_id}")
        member = self.roster.replace(old, new_id)
        self.keep_alive(member)
        self._update(member, request, request_id)
        if self.state is GroupPhase.STABLE and self.protocol == self.roster.vote():
            # No other member hears of it, and the metadata stored for it changes all the same.
            self.desk.store(self)
            leads = self.roster.leader == new_id
            self._answer_join(
                member, attrs.evolve(self._joined(member, leads), skip_assignment=leads)
            )
        elif self.state is GroupPhase.COMPLETING:
            self._prepare()
        else:
            self._rebalance_or_complete()

    def _joined(self, member: CoordinatorMember, with_members: bool) -> JoinGroupAnswer:
        return JoinGroupAnswer(
            OK,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.roster.leader or "",
            member.member_id,
            members=self.roster.listed(self.protocol) if with_members else (),
        )

    # -- the join phase ------------------------------------------------------------------------

    def _rebalance_or_complete(self) -> None:
        if self.state is GroupPhase.PREPARING:
            self.complete_if_joined()
        else:
            self._prepare()

    def _prepare(self) -> None:
        if self.state is GroupPhase.COMPLETING:
            self._drop_assignments(REBALANCE_IN_PROGRESS)
        self.unsynced.clear()
        self.desk.cancel(self.name, "sync")
        self.initial, self.grown = self.state is GroupPhase.EMPTY, False
        self.state = GroupPhase.PREPARING
        if self.initial:
            delay = self.desk.rules.initial_rebalance_delay_ms
            remaining = max(self.roster.rebalance_timeout_ms() - delay, 0)
            self._wait_for_more(delay, delay, remaining)
        elif self._all_joined() and not self.desk.held(self.name):
            self._complete()
        else:
            self.desk.schedule(
                self.name, "join", self.roster.rebalance_timeout_ms(), self._complete
            )

    def _wait_for_more(self, delay: int, waited: int, remaining: int) -> None:
        def over() -> None:
            if self.grown and remaining:
                self.grown = False
                more = min(self.desk.rules.initial_rebalance_delay_ms, remaining)
                self._wait_for_more(more, more, max(remaining - waited, 0))
            else:
                self.initial = False
                if not self.desk.held(self.name):
                    self._complete()

        self.desk.schedule(self.name, "join", delay, over)

    def complete_if_joined(self) -> None:
        """End the join phase if nothing keeps it open."""
        if (
            self.state is GroupPhase.PREPARING
            and not self.initial
            and self._all_joined()
            and not self.desk.held(self.name)
        ):
            self._complete()

    def _all_joined(self) -> bool:
        return not self.pending and all(m.join_request is not None for m in self.roster)

    def _complete(self) -> None:
        """Begin the next generation with those who joined, and the static ones who did not."""
        self.desk.cancel(self.name, "join")
        self.initial = False
        for member in self.roster:
            if member.join_request is None and member.instance_id is None:
                self.remove(member.member_id)
        if self.roster and not self.roster.elect():
            self.desk.schedule(
                self.name, "join", self.roster.rebalance_timeout_ms(), self._complete
            )
            return
        self.generation += 1
        if not self.roster:
            self.state, self.protocol = GroupPhase.EMPTY, None
            self.desk.store(self)
            return
        self.protocol = self.roster.vote()
        self.state = GroupPhase.COMPLETING
        for member in self.roster:
            self._answer_join(member, self._joined(member, member.member_id == self.roster.leader))
            member.is_new = False
            self.keep_alive(member)
        self.unsynced = set(self.roster.members)
        self.desk.schedule(self.name, "sync", self.roster.rebalance_timeout_ms(), self._expire_sync)

    # -- SyncGroup -----------------------------------------------------------------------------

    def sync(self, request_id: RequestId, request: SyncGroup) -> None:
        """Answer a SyncGroup, or keep it until the leader's came."""
        error = self._check_sync(request)
        if error != OK:
            self.desk.answer(request_id, SyncGroupAnswer(error))
            return
        member = self.roster.members[request.member_id]
        self.unsynced.discard(member.member_id)
        if not self.unsynced:
            self.desk.cancel(self.name, "sync")
        member.sync_request = request_id
        if self.state is GroupPhase.COMPLETING and member.member_id == self.roster.leader:
            self._assign(dict(request.assignments))
        elif self.state is GroupPhase.STABLE:
            self._answer_sync(member, self._assigned(member))

    def _check_sync(self, request: SyncGroup) -> int:
        error = self.roster.check(request.member_id, request.instance_id)
        if error != OK:
            return error
        if request.generation != self.generation:
            return ILLEGAL_GENERATION
        if (request.protocol_type, request.protocol_name) != (self.protocol_type, self.protocol):
            return INCONSISTENT_GROUP_PROTOCOL
        return REBALANCE_IN_PROGRESS if self.state is GroupPhase.PREPARING else OK

    def _assign(self, assignments: dict[str, bytes]) -> None:
        for member in self.roster:
            member.assignment = assignments.get(member.member_id, b"")
        if not self.desk.store(self):
            self._drop_assignments(UNKNOWN_SERVER_ERROR)
            self._prepare()
            return
        self.state = GroupPhase.STABLE
        for member in self.roster:
            if self._answer_sync(member, self._assigned(member)):
                self.keep_alive(member)

    def _assigned(self, member: CoordinatorMember) -> SyncGroupAnswer:
        return SyncGroupAnswer(OK, member.assignment)

    def _drop_assignments(self, error: int) -> None:
        for member in self.roster:
            member.assignment = b""
            if self._answer_sync(member, SyncGroupAnswer(error)):
                self.keep_alive(member)

    def _expire_sync(self) -> None:
        """Remove members that joined and never asked for their assignment."""
        for member_id in sorted(self.unsynced):
            self.remove(member_id)
        self._prepare()

    # -- the others ----------------------------------------------------------------------------

    def heartbeat(self, request: Heartbeat) -> int:
        """The code to answer with; a good member gets another session timeout."""
        error = self.roster.check(request.member_id, request.instance_id)
        if error != OK:
            return error
        if request.generation != self.generation:
            return ILLEGAL_GENERATION
        if self.state is GroupPhase.EMPTY:
            return UNKNOWN_MEMBER_ID
        self.keep_alive(self.roster.members[request.member_id])
        return REBALANCE_IN_PROGRESS if self.state is GroupPhase.PREPARING else OK

    def leave(self, request: LeaveGroup) -> int:
        """Take the member out; a static id without a member id removes its holder."""
        member_id = request.member_id
        if not member_id:
            holder = self.roster.static_member(request.instance_id)
            if holder is None:
                return UNKNOWN_MEMBER_ID
            member_id = holder.member_id
        elif member_id not in self.pending:
            error = self.roster.check(member_id, request.instance_id)
            if error != OK:
                return error
        self._take_out(member_id)
        if self.state is GroupPhase.PREPARING:
            self.complete_if_joined()
        elif self.state is not GroupPhase.EMPTY:
            self._prepare()  # even if it only ever had an id: so the broker does
        return OK

    def expire(self, member_id: str) -> None:
        """The session timeout has passed without a sign of life."""
        member = self.roster.get(member_id)
        if member_id not in self.pending and (member is None or member.waits):
            return
        self._take_out(member_id)
        if self.state is GroupPhase.PREPARING:
            self.complete_if_joined()
        elif member is not None and self.state is not GroupPhase.EMPTY:
            self._prepare()

    def _take_out(self, member_id: str) -> None:
        member = self.roster.get(member_id)
        if member is not None:
            self._answer_join(member, JoinGroupAnswer(UNKNOWN_MEMBER_ID))
        self.remove(member_id)

    def remove(self, member_id: str) -> None:
        """Strike it off the list; what it waited for is never answered."""
        self.roster.remove(member_id)
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)
        self.desk.cancel(self.name, f"heartbeat {member_id}")

    def keep_alive(self, member: CoordinatorMember, timeout_ms: int | None = None) -> None:
        """Give the member another session timeout from now."""
        self.desk.schedule(
            self.name,
            f"heartbeat {member.member_id}",
            member.session_timeout_ms if timeout_ms is None else timeout_ms,
            lambda: self.expire(member.member_id),
        )

    def _answer_join(self, member: CoordinatorMember, answer: JoinGroupAnswer) -> None:
        if member.join_request is not None:
            request_id, member.join_request = member.join_request, None
            self.desk.answer(request_id, answer)

    def _answer_sync(self, member: CoordinatorMember, answer: SyncGroupAnswer) -> bool:
        if member.sync_request is None:
            return False
        request_id, member.sync_request = member.sync_request, None
        self.desk.answer(request_id, answer)
        return True
