"""Two ways to drive membership machines: one by hand, and several against the fake coordinator."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from streamlet.coordinator.events import (
    Abandon,
    Answered,
    Assigned,
    AssignmentsReady,
    Command,
    CommitDone,
    CommitWanted,
    CoordinatorFound,
    Event,
    Failed,
    FailureKind,
    FetchDone,
    FindCoordinator,
    JoinBlocked,
    Left,
    Lost,
    MetadataReady,
    ProgressMade,
    RequestFailed,
    Send,
    StartMembership,
    Tick,
    WakeAt,
)
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.membership import Membership
from streamlet.coordinator.messages import (
    Answer,
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    JoinGroupAnswer,
    OffsetCommit,
    OffsetCommitAnswer,
    Request,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.rebalance.values import JoinedMember, NeedMetadata, RunAssignor
from streamlet.testing.coordinator import FakeCoordinator
from streamlet.types import TopicPartition

T0 = TopicPartition("t", 0)


class ByHand:
    """One machine whose coordinator is the test. Every call checks the invariants."""

    def __init__(self, **settings: Any) -> None:
        self.config = MembershipConfig("g", **settings)
        self.machine = Membership(self.config)
        self.now_ms = 0
        self.sent: list[Send] = []
        self.commands: list[Command] = []
        self.wake_ms: int | None = None
        self.need: NeedMetadata | None = None  # the last one, None once described

    def tell(self, event: Event) -> list[Command]:
        """Handle an event; WakeAt commands are noted and left out of the answer."""
        commands = self.machine.handle(event, self.now_ms)
        self.machine.check_invariants()
        for command in commands:
            match command:
                case Send():
                    self.sent.append(command)
                case WakeAt(at_ms):
                    self.wake_ms = at_ms
                case NeedMetadata():
                    self.need = command
                case Abandon(number):
                    self.sent = [send for send in self.sent if send.number != number]
        self.commands = [c for c in commands if not isinstance(c, WakeAt)]
        return self.commands

    def answer(self, answer: Answer, kind: type[Request] | None = None) -> list[Command]:
        """Answer the oldest request (of a kind)."""
        return self.tell(Answered(self.take(kind).number, answer))

    def fail(self, failure: FailureKind, kind: type[Request] | None = None) -> list[Command]:
        """Let the oldest request (of a kind) fail."""
        return self.tell(RequestFailed(self.take(kind).number, failure))

    def take(self, kind: type[Request] | None = None) -> Send:
        """Take the oldest request (of a kind) out of those sent."""
        wanted = object if kind is None else kind
        send = next(send for send in self.sent if isinstance(send.request, wanted))
        self.sent.remove(send)
        return send

    def requests(self) -> list[Request]:
        """Requests sent and not answered."""
        return [send.request for send in self.sent]

    def wait(self, ms: int) -> list[Command]:
        """Let time pass in one go."""
        self.now_ms += ms
        return self.tell(Tick())

    def advance(self, ms: int) -> list[Command]:
        """Let time pass, waking the machine when it asked for it; all commands together."""
        until, commands = self.now_ms + ms, []
        while self.wake_ms is not None and self.wake_ms <= until:
            self.now_ms = max(self.now_ms, self.wake_ms)
            self.wake_ms = None
            commands += self.tell(Tick())
        self.now_ms = until
        return commands + self.tell(Tick())

    def until(self, kind: type[Command], ms: int = 120_000) -> Command:
        """Let time pass, answering heartbeats, until a command of a kind; maybe among the last."""
        commands, until = self.commands, self.now_ms + ms
        while not (found := [c for c in commands if isinstance(c, kind)]):
            assert self.now_ms < until, f"no {kind.__name__} in {ms} ms"
            commands = self.advance(5)
            for beat in [s for s in self.sent if isinstance(s.request, Heartbeat)]:
                self.sent.remove(beat)
                commands += self.tell(Answered(beat.number, HeartbeatAnswer(0)))
        return found[0]

    def describe(self, metadata: bytes = b"m") -> list[Command]:
        """Answer the last NeedMetadata."""
        need, self.need = self.need, None
        assert need is not None
        return self.tell(MetadataReady(need.request, "stream", (("p", metadata),)))

    def start(self) -> list[Command]:
        """Start and find the coordinator; the machine asks for its description."""
        self.tell(StartMembership())
        return self.tell(CoordinatorFound("one"))

    def join(self, member_id: str = "a", generation: int = 1) -> ByHand:
        """Start and get as far as STABLE, as a follower."""
        self.start()
        self.rejoin(member_id, generation)
        return self

    def rejoin(self, member_id: str = "a", generation: int = 1, assignment: bytes = b"x") -> None:
        """From DESCRIBING to STABLE, as a follower."""
        self.describe()
        self.answer(join_ok(member_id, generation), JoinGroup)
        self.answer(SyncGroupAnswer(0, assignment), SyncGroup)

    def beat(self, error: int = 0) -> list[Command]:
        """Wait for the next heartbeat and answer it."""
        for _ in range(1_000):
            if any(isinstance(request, Heartbeat) for request in self.requests()):
                break
            self.advance(10)
        return self.answer(HeartbeatAnswer(error), Heartbeat)

    def commit(self, token: int = 1, offset: int = 5, hold: int | None = None) -> list[Command]:
        """Want a commit of one partition."""
        return self.tell(CommitWanted(token, {T0: (offset, "")}, hold))

    def commit_answer(self, *errors: int) -> list[Command]:
        """Answer the commit in flight, an error a partition."""
        answer = OffsetCommitAnswer({TopicPartition("t", n): e for n, e in enumerate(errors)})
        return self.answer(answer, OffsetCommit)


def join_ok(
    member_id: str = "a",
    generation: int = 1,
    leader: str = "boss",
    members: tuple[JoinedMember, ...] = (),
    skip: bool = False,
) -> JoinGroupAnswer:
    """A JoinGroup answer without error."""
    return JoinGroupAnswer(0, generation, "stream", "p", leader, member_id, skip, members)


@attrs.define
class Seat:
    """One machine in a ``World`` and all it was told to do."""

    name: str
    machine: Membership
    metadata: Callable[[NeedMetadata], bytes]
    assign: Callable[[RunAssignor], dict[str, bytes]]
    wake_ms: int | None = None
    delivered: list[Assigned[bytes]] = attrs.field(factory=list)
    lost: list[str] = attrs.field(factory=list)
    commits: dict[int, CommitDone] = attrs.field(factory=dict)
    fetches: dict[int, FetchDone] = attrs.field(factory=dict)
    holds: dict[int, bool] = attrs.field(factory=dict)
    ended: Command | None = None
    alive: bool = True
    works: bool = True  # tells progress each time it is woken
    listen: Callable[[Command], None] = lambda command: None  # after everything else
    story: list[str] = attrs.field(factory=list)


class World:
    """Machines, one fake coordinator and one clock; messages take ``latency_ms`` each way."""

    def __init__(self, latency_ms: int = 1, coordinator: FakeCoordinator | None = None) -> None:
        self.coordinator = coordinator or FakeCoordinator()
        self.latency_ms = latency_ms
        self.now_ms = 0
        self.seats: dict[str, Seat] = {}
        self.cut: set[str] = set()  # names whose messages are lost
        self.drop_answers: set[str] = set()  # names whose answers are lost
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._tokens = 0

    def add(
        self,
        name: str,
        metadata: Callable[[NeedMetadata], bytes] | None = None,
        assign: Callable[[RunAssignor], dict[str, bytes]] | None = None,
        **settings: Any,
    ) -> Seat:
        """Start a member."""
        config = MembershipConfig("g", **settings)
        seat = Seat(
            name,
            Membership(config),
            metadata or (lambda need: f"{name}:{need.nonce}".encode()),
            assign or (lambda run: {m.member_id: m.metadata for m in run.members}),
        )
        self.seats[name] = seat
        self.tell(seat, StartMembership())
        return seat

    def tell(self, seat: Seat, event: Event) -> None:
        """Hand an event to a machine and carry out what it wants."""
        if not seat.alive:
            return
        commands = seat.machine.handle(event, self.now_ms)
        seat.machine.check_invariants()
        for command in commands:
            self._do(seat, command)

    def _do(self, seat: Seat, command: Command) -> None:
        seat.story.append(f"{self.now_ms} {command}")
        match command:
            case FindCoordinator():
                if seat.name not in self.cut:
                    self.later(lambda: self.tell(seat, CoordinatorFound("one")))
            case Send(number, request, _, _):
                if seat.name not in self.cut:
                    self.later(lambda: self._arrive(seat.name, number, request))
            case NeedMetadata(number):
                self.tell(seat, MetadataReady(number, "stream", (("p", seat.metadata(command)),)))
            case RunAssignor(generation):
                assignments = seat.assign(command)
                self.later(lambda: self.tell(seat, AssignmentsReady(generation, assignments)))
            case Assigned():
                seat.delivered.append(command)
            case Lost(reason):
                seat.lost.append(reason)
            case CommitDone(token):
                seat.commits[token] = command
            case FetchDone(token):
                seat.fetches[token] = command
            case JoinBlocked(token, granted):
                seat.holds[token] = granted
            case WakeAt(at_ms):
                seat.wake_ms = at_ms
            case Failed() | Left():
                seat.ended = command
            case Abandon():
                pass
        seat.listen(command)

    def later(self, action: Callable[[], None], ms: int | None = None) -> None:
        """Do something when a message has had its time, or after ``ms``."""
        self._sequence += 1
        at_ms = self.now_ms + (self.latency_ms if ms is None else ms)
        heapq.heappush(self._queue, (at_ms, self._sequence, action))

    def _arrive(self, name: str, number: int, request: Request) -> None:
        self._return(self.coordinator.handle((name, number), request, self.now_ms, name))

    def _return(self, answers: list[tuple[Any, Answer]]) -> None:
        for (name, number), answer in answers:
            if name not in self.cut and name not in self.drop_answers:
                seat = self.seats[name]
                event = Answered(number, answer)
                self.later(lambda seat=seat, event=event: self.tell(seat, event))

    def crash(self, name: str) -> None:
        """Stop a member without a word."""
        self.seats[name].alive = False

    def restart(self) -> None:
        """Fail the coordinator over: parked requests are lost, their connections cut."""
        for name, number in self.coordinator.restart(self.now_ms):
            failed = RequestFailed(number, FailureKind.DISCONNECTED)
            self.later(lambda name=name, failed=failed: self.tell(self.seats[name], failed))

    def commit(self, seat: Seat, offset: int = 5) -> int:
        """Want a commit; its token."""
        self._tokens += 1
        self.tell(seat, CommitWanted(self._tokens, {T0: (offset, "")}))
        return self._tokens

    def run(self, ms: int) -> None:
        """Let time pass."""
        until = self.now_ms + ms
        while (at_ms := self._next_ms()) is not None and at_ms <= until:
            self.now_ms = max(self.now_ms, at_ms)
            self._turn()
        self.now_ms = until

    def _next_ms(self) -> int | None:
        times = [seat.wake_ms for seat in self.seats.values() if seat.alive]
        times += [self._queue[0][0] if self._queue else None, self.coordinator.next_deadline()]
        return min((t for t in times if t is not None), default=None)

    def _turn(self) -> None:
        self._return(self.coordinator.tick(self.now_ms))
        while self._queue and self._queue[0][0] <= self.now_ms:
            heapq.heappop(self._queue)[2]()
        for seat in self.seats.values():
            if seat.alive and seat.wake_ms is not None and seat.wake_ms <= self.now_ms:
                seat.wake_ms = None
                self.tell(seat, ProgressMade() if seat.works else Tick())

    def settled(self) -> bool:
        """All live members have the same generation."""
        live = [s for s in self.seats.values() if s.alive and s.ended is None]
        generations = {s.machine.view.generation for s in live}
        return len(generations) == 1 and all(s.machine.view.state == "stable" for s in live)


@pytest.fixture
def by_hand() -> type[ByHand]:
    """Drive one machine by hand."""
    return ByHand


@pytest.fixture
def world() -> World:
    """Members around a fake coordinator."""
    return World()
