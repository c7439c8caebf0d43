"""A machine among brokers that answer anything keeps its promises and never hangs."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from streamlet.coordinator.codes import NAMES
from streamlet.coordinator.events import (
    Answered,
    Assigned,
    AssignmentsReady,
    AssignorFailed,
    BlockJoin,
    CommitDone,
    CommitOutcome,
    CommitWanted,
    CoordinatorFound,
    CoordinatorNotFound,
    Failed,
    FailureKind,
    FetchDone,
    FetchWanted,
    JoinBlocked,
    LeaveWanted,
    Left,
    Lost,
    MetadataReady,
    ProgressMade,
    Rejoin,
    RequestFailed,
    Send,
    StartMembership,
    Tick,
    UnblockJoin,
    WakeAt,
)
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.membership import Membership, MembershipState
from streamlet.coordinator.messages import (
    Committed,
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    LeaveGroupAnswer,
    OffsetCommit,
    OffsetCommitAnswer,
    OffsetFetch,
    OffsetFetchAnswer,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.rebalance.values import NeedMetadata
from streamlet.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ENDED = {MembershipState.LEFT, MembershipState.FAILED}
CODES = [*sorted(NAMES), 999]
KINDS = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetFetch)


class AnyBroker:
    """One walk: what may happen is chosen by a seeded chance, what is promised is asserted."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        strict = self.chance.random() < 0.3
        self.machine = Membership(
            MembershipConfig(
                "g",
                self.chance.choice([None, "i-0"]),
                parked_commit_after_ms=None if strict else 1_000,
                max_poll_interval_ms=60_000,
            )
        )
        self.story: list[str] = []
        self.now_ms = 0
        self.wake_ms = None
        self.open = {}
        self.need = None
        self.generation = 0
        self.asked, self.told = Counter(), Counter()
        self.outcomes = {}
        self.token = 0
        self.claimed = False
        self.unknown_in = set()
        self.tell(StartMembership())

    def tell(self, event):
        """Hand over an event and check everything."""
        self.story.append(f"{self.now_ms} {self.machine.view.state}: {event}")
        self.event = event
        for command in self.machine.handle(event, self.now_ms):
            self.story.append(f"    {command}")
            self.look_at(command)
        self.machine.check_invariants()
        assert all(count == 1 for count in self.told.values()), "answered twice"
        if self.machine.view.state in ENDED:
            assert self.told == self.asked, "a wish was never answered"
        elif self.machine.view.state is not MembershipState.STALLED:
            assert self.machine._wake_at_ms() is not None, "nothing will wake it"

    def look_at(self, command):
        """Note what a command means to the shell, and what it must not mean."""
        match command:
            case Send(number, request):
                assert number not in self.open
                self.open[number] = request
                if isinstance(request, OffsetCommit):
                    assert self.claimed, "a commit without a claim"
                    assert request.generation not in self.unknown_in, "M6"
                if isinstance(request, JoinGroup):
                    assert not any(isinstance(r, OffsetCommit) for r in self.waiting()), "M2"
            case WakeAt(at_ms):
                assert at_ms > self.now_ms
                self.wake_ms = at_ms
            case NeedMetadata():
                self.need = command
            case Assigned(generation):
                assert generation >= 0
                self.claimed = True
                self.unknown_in -= set(range(generation))
            case Lost():
                assert self.claimed, "lost what was never given"
                self.claimed = False
                self.unknown_in.clear()
            case CommitDone(token, outcome):
                self.told[token] += 1
                self.outcomes[token] = outcome
                if outcome is CommitOutcome.UNKNOWN and self.machine.view.generation >= 0:
                    self.unknown_in.add(self.machine.view.generation)
                if outcome is CommitOutcome.LOST:
                    assert not self.claimed or self.machine.view.state in {
                        MembershipState.LEAVING,
                        *ENDED,
                    }
            case FetchDone(token) | JoinBlocked(token):
                self.told[token] += 1
            case Failed() | Left():
                assert self.machine.view.state in ENDED
                self.claimed = False
            case _:
                pass

    def waiting(self):
        """Requests the machine still waits for."""
        waited = {f.number for f in self.machine._member.in_flight.of(*KINDS)}
        return [r for n, r in self.open.items() if n in waited]

    def step(self):
        """Let something happen; mostly what helps, so that walks get somewhere."""
        helpful = [self.help] * 6
        wishes = [self.commit, self.commit, self.fetch, self.hold, self.rejoin, self.progress]
        trouble = [self.answer] * 6 + [self.silence, self.odd, self.wait, self.wait]
        if self.token > 25:
            wishes.append(self.leave)
        self.chance.choice(helpful + wishes + trouble)()

    def help(self):
        """Do what the machine waits for, without an error."""
        state = self.machine.view.state
        if state is MembershipState.DESCRIBING:
            self.describe(self.need.request)
        elif state is MembershipState.ASSIGNING:
            self.tell(AssignmentsReady(self.generation, {"a": b"x"}))
        elif not self.machine._member.linked():
            self.wake()
            self.tell(CoordinatorFound("one"))
        elif self.open:
            self.reply(max(self.open), 0)
        else:
            self.wake()

    def describe(self, request):
        """Answer a NeedMetadata."""
        self.tell(MetadataReady(request, "stream", (("p", b"%d" % self.need.nonce),)))

    def answer(self):
        """Answer anything in flight with anything."""
        if self.open:
            self.reply(self.chance.choice(sorted(self.open)), self.chance.choice(CODES))

    def reply(self, number, error):
        """Answer one request."""
        request = self.open.pop(number)
        second = self.chance.choice([0, error])
        match request:
            case JoinGroup():
                self.generation += self.chance.choice([0, 1, 1, 1, 2])
                member = request.member_id or f"m{number}"
                leader = self.chance.choice([member, "boss"])
                skip = self.chance.random() < 0.2
                answer = JoinGroupAnswer(
                    error, self.generation, "stream", "p", leader, member, skip
                )
            case SyncGroup():
                answer = SyncGroupAnswer(error, b"x")
            case Heartbeat():
                answer = HeartbeatAnswer(error)
            case LeaveGroup():
                answer = LeaveGroupAnswer(error)
            case OffsetCommit():
                answer = OffsetCommitAnswer({T0: error, T1: second})
            case OffsetFetch():
                answer = OffsetFetchAnswer(second, {T0: Committed(1, "", error)})
        self.tell(Answered(number, answer))

    def silence(self):
        """A request is lost, or its answer."""
        if self.open:
            number = self.chance.choice(sorted(self.open))
            del self.open[number]
            self.tell(
                RequestFailed(
                    number, self.chance.choice((FailureKind.TIMEOUT, FailureKind.DISCONNECTED))
                )
            )

    def odd(self):
        """Something late, doubled or out of place."""
        event = self.chance.choice(
            [
                CoordinatorFound("two"),
                CoordinatorFound("one"),
                CoordinatorNotFound(self.chance.choice([None, 14, 15, 999])),
                MetadataReady(0, "stream", (("p", b""),)),
                AssignmentsReady(self.generation - 1, {}),
                AssignorFailed(self.generation, "no topics"),
                AssignorFailed(self.generation - 1, "no topics"),
                HeartbeatAnswer(0),
                UnblockJoin(self.token),
                RequestFailed(10_000, FailureKind.TIMEOUT),
            ]
        )
        self.tell(Answered(10_000, event) if isinstance(event, HeartbeatAnswer) else event)

    def wish(self, event_of):
        """The worker wants something and is to hear of it once."""
        self.token += 1
        self.asked[self.token] += 1
        self.tell(event_of(self.token))

    def commit(self):
        """Want a commit, sometimes as part of a hold; without, the view said what becomes of it."""
        hold, before = self.chance.choice([None, self.token]), self.machine.view
        self.wish(lambda token: CommitWanted(token, {T0: (1, ""), T1: (2, "")}, hold))
        if hold is None:
            from_ms = before.commits_from_ms
            shut = before.generation >= 0 and (from_ms is None or self.now_ms < from_ms)
            assert shut == (self.outcomes.get(self.token) is CommitOutcome.GATED), before

    def fetch(self):
        """Want committed positions."""
        self.wish(lambda token: FetchWanted(token, (T0,)))

    def hold(self):
        """Want no join for a while."""
        generation = self.machine.view.generation - self.chance.choice([0, 0, 1])
        self.wish(lambda token: BlockJoin(token, generation))

    def rejoin(self):
        """Want a rebalance."""
        self.tell(Rejoin("ready", 0 if self.chance.random() < 0.5 else None))

    def progress(self):
        """The worker goes on."""
        self.tell(ProgressMade())

    def wait(self):
        """Time passes, asked for or not."""
        self.now_ms += self.chance.choice([1, 50, 300, 1_500, 6_000, 20_000])
        self.tell(Tick())

    def wake(self):
        """The machine is woken when it wanted."""
        if self.wake_ms is not None:
            self.now_ms = max(self.now_ms, self.wake_ms)
            self.tell(Tick())

    def leave(self):
        """The worker wants to leave."""
        self.tell(LeaveWanted("enough", self.chance.choice([True, False])))


@pytest.mark.parametrize("seed", range(0, 1_000, 100))
def test_whatever_the_broker_answers_the_machine_keeps_its_promises(seed):
    """A failure shows the seed and the walk's whole story."""
    for one in range(seed, seed + 100):
        walk = None
        try:
            walk = AnyBroker(one)
            for _ in range(150):
                walk.step()
        except AssertionError as error:
            story = [] if walk is None else walk.story
            raise AssertionError("\n".join([f"seed {one}: {error}", *story])) from error
