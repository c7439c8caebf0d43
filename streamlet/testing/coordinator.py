"""A group coordinator in memory that answers as Apache Kafka's does.

Sans-IO: it is handed requests and the time, and returns the answers and their receivers. Requests
have ids because some answers come later, and some never: a JoinGroup is parked until all have
joined, and a second one of the same member takes the place of the first. It speaks the messages of
``streamlet.coordinator.messages``; what it answers is checked against a real broker by a contract
test.

Not imitated: groups of other kinds (consumer, share), the coordinator's log beyond what a restart
brings back, transactional commits (an open one is marked in ``offsets``), authorisation.

A simulation may hold the join phase open until every member it thinks alive has joined (``hold``),
and reads the finished rebalances in ``rounds``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, assert_never

import attrs

from streamlet.coordinator.messages import (
    Answer,
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    LeaveGroupAnswer,
    OffsetCommit,
    OffsetFetch,
    Request,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.testing.coordinator_desk import (
    INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT,
    UNKNOWN_MEMBER_ID,
    BrokerRules,
    CoordinatorMember,
    GroupPhase,
    RequestId,
    Timers,
)
from streamlet.testing.coordinator_group import ClassicGroup
from streamlet.testing.coordinator_offsets import Offsets
from streamlet.testing.coordinator_roster import Roster

Answers: TypeAlias = list[tuple[RequestId, Answer]]


@attrs.frozen
class Round:
    """One finished rebalance: a generation whose leader brought the assignment."""

    group: str
    generation: int
    leader: str
    members: tuple[tuple[str, str | None, bytes], ...]  # member id, static id, metadata
    assignments: Mapping[str, bytes]
    now_ms: int
    protocol_type: str = "stream"


@attrs.frozen
class GroupView:
    """A group as it stands, for assertions and for people."""

    state: GroupPhase
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    members: tuple[str, ...]
    joined: frozenset[str]  # members whose JoinGroup is parked
    pending: frozenset[str]  # ids handed out and not yet used


class FakeCoordinator:
    """Many groups, their timers and their committed offsets."""

    def __init__(
        self,
        rules: BrokerRules | None = None,
        topics: Mapping[str, int] | None = None,
        hold: Callable[[str], bool] | None = None,
    ) -> None:
        """Start without groups.

        Args:
            rules: broker settings.
            topics: partition counts, for commits to topics that do not exist; None: all exist.
            hold: asked, with the group's name, when all have joined: True keeps the join
                phase open until ``release`` or the rebalance timeout.
        """
        self.rules = rules or BrokerRules()
        self.rounds: list[Round] = []
        self.offsets = Offsets(self.rules.offset_metadata_max, topics)
        self._hold = hold
        self._now_ms = 0
        self._groups: dict[str, ClassicGroup] = {}
        self._stored: dict[str, ClassicGroup] = {}  # what a restart brings back
        self._answers: Answers = []
        self._ids = 0
        self._timers = Timers()

    # -- the outside ---------------------------------------------------------------------------

    def handle(
        self, request_id: RequestId, request: Request, now_ms: int, client: str = "member"
    ) -> Answers:
        """Take a request; return the answers it brings about, to itself or to parked ones.

        ``client`` begins the ids of new members. Timers that are due by ``now_ms`` fire first.
        """
        self._fire(now_ms)
        match request:
            case JoinGroup():
                self._join(request_id, request, client)
            case SyncGroup():
                self._sync(request_id, request)
            case Heartbeat():
                self.answer(request_id, HeartbeatAnswer(self._heartbeat(request)))
            case LeaveGroup():
                self.answer(request_id, LeaveGroupAnswer(self._leave(request)))
            case OffsetCommit():
                self.answer(request_id, self.offsets.commit(request, self._group_for(request)))
            case OffsetFetch():
                self.answer(request_id, self.offsets.fetch(request))
            case _:
                assert_never(request)
        self._fire(now_ms)
        return self._drain()

    def tick(self, now_ms: int) -> Answers:
        """Let the timers that are due by now fire, each at its own time, and return the answers."""
        self._fire(now_ms)
        return self._drain()

    def next_deadline(self) -> int | None:
        """The time at which ``tick`` has something to do next, None if nothing is scheduled."""
        return self._timers.next_ms()

    def release(self, group: str, now_ms: int) -> Answers:
        """Ask ``hold`` again, after what it depends on has changed."""
        self._fire(now_ms)
        if group in self._groups:
            self._groups[group].complete_if_joined()
        return self._drain()

    def expire(self, group: str, member_id: str, now_ms: int) -> Answers:
        """Let the member's session time out at once, unless a parked request keeps it alive."""
        self._fire(now_ms)
        if group in self._groups:
            self._groups[group].expire(member_id)
        return self._drain()

    def restart(self, now_ms: int) -> list[RequestId]:
        """Fail over: parked requests are lost and groups are as they were last written.

        Returns the ids of the requests that are never answered; their connections are gone.
        """
        self._fire(now_ms)
        waiting = (
            request_id
            for group in self._groups.values()
            for member in group.roster
            for request_id in (member.join_request, member.sync_request)
        )
        lost = [request_id for request_id in waiting if request_id is not None]
        self._timers.clear()
        self._groups = {name: _copy(group, self) for name, group in self._stored.items()}
        for group in self._groups.values():
            for member in group.roster:
                group.keep_alive(member)
        return lost

    def seed(self, joins: Iterable[tuple[JoinGroup, bytes]], generation: int, now_ms: int) -> None:
        """Put a Stable group there, from its members' joins (with member ids) and assignments.

        The first member leads.
        """
        self._fire(now_ms)
        for join, assignment in joins:
            group = self._group(join.group)
            group.state, group.generation = GroupPhase.STABLE, generation
            group.protocol_type, group.protocol = join.protocol_type, join.protocols[0][0]
            member = CoordinatorMember.of(join, join.member_id, assignment=assignment)
            group.roster.add(member)
            group.keep_alive(member)
            self._stored[group.name] = _copy(group, self)

    def phase(self, group: str) -> GroupPhase | None:
        """The phase of the group, None if there is none."""
        found = self._groups.get(group)
        return None if found is None else found.state

    def view(self, group: str) -> GroupView | None:
        """The group as it stands, None if there is none."""
        found = self._groups.get(group)
        if found is None:
            return None
        joined = (m.member_id for m in found.roster if m.join_request is not None)
        return GroupView(
            found.state,
            found.generation,
            found.protocol_type,
            found.protocol,
            found.roster.leader,
            tuple(found.roster.members),
            frozenset(joined),
            frozenset(found.pending),
        )

    # -- requests ------------------------------------------------------------------------------

    def _join(self, request_id: RequestId, request: JoinGroup, client: str) -> None:
        rules, timeout = self.rules, request.session_timeout_ms
        if not request.group:
            error = INVALID_GROUP_ID
        elif not rules.min_session_timeout_ms <= timeout <= rules.max_session_timeout_ms:
            error = INVALID_SESSION_TIMEOUT
        elif request.member_id and request.group not in self._groups:
            error = UNKNOWN_MEMBER_ID
        else:
            self._group(request.group).join(request_id, request, client)
            return
        self.answer(request_id, JoinGroupAnswer(error, member_id=request.member_id))

    def _sync(self, request_id: RequestId, request: SyncGroup) -> None:
        if request.group in self._groups:
            self._groups[request.group].sync(request_id, request)
        else:
            self.answer(request_id, SyncGroupAnswer(UNKNOWN_MEMBER_ID))

    def _heartbeat(self, request: Heartbeat) -> int:
        group = self._groups.get(request.group)
        return UNKNOWN_MEMBER_ID if group is None else group.heartbeat(request)

    def _leave(self, request: LeaveGroup) -> int:
        group = self._groups.get(request.group)
        return UNKNOWN_MEMBER_ID if group is None else group.leave(request)

    # -- what the groups ask for ----------------------------------------------------------------

    def answer(self, request_id: RequestId, answer: Answer) -> None:
        """Queue the answer for the caller of ``handle`` or ``tick``."""
        self._answers.append((request_id, answer))

    def schedule(self, group: str, key: str, delay_ms: int, action: Callable[[], None]) -> None:
        """Run ``action`` later, in place of what was scheduled under this key: kind and member."""
        self._timers.schedule(group, key, self._now_ms + delay_ms, action)

    def cancel(self, group: str, key: str) -> None:
        """Forget what was scheduled under this key."""
        self._timers.cancel(group, key)

    def new_id(self, prefix: str) -> str:
        """The prefix and a running number."""
        self._ids += 1
        return f"{prefix}-{self._ids}"

    def held(self, group: str) -> bool:
        """True if a simulation wants the join phase to stay open though all have joined."""
        return self._hold is not None and self._hold(group)

    def store(self, group: ClassicGroup) -> bool:
        """Remember the group for a restart; False: the record is too large.

        A Stable generation to be is noted in ``rounds``.
        """
        if group.roster.stored_bytes(group.protocol) > self.rules.record_max_bytes:
            return False
        if group.state is GroupPhase.COMPLETING:
            self.rounds.append(
                Round(
                    group.name,
                    group.generation,
                    group.roster.leader or "",
                    tuple(
                        (m.member_id, m.instance_id, m.metadata(group.protocol))
                        for m in group.roster
                    ),
                    {m.member_id: m.assignment for m in group.roster},
                    self._now_ms,
                    group.protocol_type or "",
                )
            )
        self._stored[group.name] = _copy(group, self)
        return True

    # -- inside --------------------------------------------------------------------------------

    def _group(self, name: str) -> ClassicGroup:
        if name not in self._groups:
            self._groups[name] = ClassicGroup(name, self)
            self._stored[name] = _copy(self._groups[name], self)
        return self._groups[name]

    def _group_for(self, commit: OffsetCommit) -> ClassicGroup | None:
        """The group of a request; a commit without a member founds an empty one."""
        if commit.generation < 0:
            return self._group(commit.group)
        return self._groups.get(commit.group)

    def _fire(self, now_ms: int) -> None:
        assert now_ms >= self._now_ms, "time went back"
        while (due := self._timers.next_ms()) is not None and due <= now_ms:
            at_ms, action = self._timers.pop()
            self._now_ms = max(self._now_ms, at_ms)
            action()
        self._now_ms = now_ms

    def _drain(self) -> Answers:
        answers, self._answers = self._answers, []
        return answers


def _copy(group: ClassicGroup, desk: FakeCoordinator) -> ClassicGroup:
    """The group as its record in the log has it: members, the chosen protocol, the assignment."""
    members = {
        m.member_id: attrs.evolve(
            m,
            protocols=((group.protocol or "", m.metadata(group.protocol)),),
            is_new=False,
            join_request=None,
            sync_request=None,
        )
        for m in group.roster
    }
    return ClassicGroup(
        group.name,
        desk,
        GroupPhase.STABLE if members else GroupPhase.EMPTY,
        group.generation,
        group.protocol_type,
        group.protocol,
        Roster(members, group.roster.leader),
    )
