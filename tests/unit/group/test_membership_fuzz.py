"""A machine among brokers that answer anything keeps its promises and never hangs."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamlet.group.codes import NAMES
from streamlet.group.commands import (
    CommitOutcome,
    CommitResult,
    Deliver,
    Fail,
    FetchResult,
    HoldResult,
    Left,
    LoseTasks,
    NeedMetadata,
    Send,
    WakeAt,
)
from streamlet.group.events import (
    Answered,
    AssignmentsReady,
    AssignorFailed,
    CommitWanted,
    CoordinatorFound,
    CoordinatorNotFound,
    Failure,
    FetchWanted,
    HoldEnded,
    HoldWanted,
    LeaveWanted,
    MetadataReady,
    ProgressMade,
    RejoinWanted,
    RequestFailed,
    Start,
    Tick,
)
from streamlet.group.member_config import MembershipConfig
from streamlet.group.membership import Membership, State
from streamlet.group.messages import (
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
from streamlet.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CODES = st.sampled_from([0, *sorted(NAMES), 999])
ENDED = {State.LEFT, State.FAILED}


class AnyBroker(RuleBasedStateMachine):
    """The rules are what may happen, the invariants what is promised to shell and worker."""

    @initialize(static=st.booleans(), strict=st.booleans())
    def start(self, static, strict):
        self.machine = Membership(
            MembershipConfig(
                "g",
                "i-0" if static else None,
                parked_commit_after_ms=None if strict else 1_000,
                max_poll_interval_ms=60_000,
            )
        )
        self.now_ms = 0
        self.wake_ms = None
        self.open = {}
        self.need = None
        self.generation = 0
        self.asked, self.told = Counter(), Counter()
        self.token = 0
        self.claimed = False
        self.unknown_in = set()
        self.commits = {}
        self.tell(Start())

    def tell(self, event):
        for command in self.machine.handle(event, self.now_ms):
            self.look_at(command)
        self.machine.check_invariants()

    def look_at(self, command):
        match command:
            case Send(number, request):
                assert number not in self.open
                self.open[number] = request
                if isinstance(request, OffsetCommit):
                    assert self.claimed, "a commit without a claim"
                    assert request.generation not in self.unknown_in, "M6"
                    self.commits[number] = request.generation
                if isinstance(request, JoinGroup):
                    assert not any(isinstance(r, OffsetCommit) for r in self.waiting()), "M2"
            case WakeAt(at_ms):
                assert at_ms > self.now_ms
                self.wake_ms = at_ms
            case NeedMetadata():
                self.need = command
            case Deliver(_, generation):
                assert generation >= 0
                self.claimed = True
            case LoseTasks():
                assert self.claimed, "lost what was never given"
                self.claimed = False
            case CommitResult(token, outcome):
                self.told[token] += 1
                if outcome is CommitOutcome.UNKNOWN:
                    self.unknown_in.add(self.last_commit_generation)
                if outcome is CommitOutcome.LOST:
                    assert not self.claimed or self.machine.state in {State.LEAVING, *ENDED}
            case FetchResult(token) | HoldResult(token):
                self.told[token] += 1
            case Fail() | Left():
                assert self.machine.state in ENDED
                self.claimed = False
            case _:
                pass

    def waiting(self):
        """Requests the machine still waits for."""
        waited = {f.number for f in self.machine._member.flights.of(*KINDS)}
        return [r for n, r in self.open.items() if n in waited]

    @rule(moved=st.booleans())
    def coordinator_found(self, moved):
        self.tell(CoordinatorFound("two" if moved else "one"))

    @rule(error=st.sampled_from([None, 14, 15, 16, 999]))
    def coordinator_not_found(self, error):
        self.tell(CoordinatorNotFound(error))

    @rule(turns=st.integers(1, 5), leads=st.booleans())
    def all_goes_well(self, turns, leads):
        """Without this, chance rarely gets as far as an assignment."""
        for _ in range(turns):
            self.coordinator_found(False)
            if self.machine.state is State.DESCRIBING:
                self.described(False)
            if self.machine.state is State.ASSIGNING:
                self.planned(False, False)
            for number in sorted(self.open)[:2]:
                self.reply(number, 0, 0, 1, leads)
            if self.machine.state is State.PREPARING:
                self.woken()

    @precondition(lambda self: self.open)
    @rule(data=st.data(), error=CODES, second=CODES, bump=st.integers(0, 2), leads=st.booleans())
    def answer(self, data, error, second, bump, leads):
        number = data.draw(st.sampled_from(sorted(self.open)))
        self.reply(number, error, data.draw(st.sampled_from([0, error, second])), bump, leads)

    @precondition(lambda self: self.machine.state in (State.JOINING, State.SYNCING))
    @rule(error=CODES, leads=st.booleans())
    def join_or_sync_answered(self, error, leads):
        (number,) = [n for n, r in self.open.items() if isinstance(r, JoinGroup | SyncGroup)][-1:]
        self.reply(number, error, error, 1, leads)

    def reply(self, number, error, second, bump, leads):
        request = self.open.pop(number)
        match request:
            case JoinGroup():
                self.generation += bump
                member = request.member_id or f"m{number}"
                answer = JoinGroupAnswer(
                    error, self.generation, "stream", "p", member if leads else "boss", member
                )
            case SyncGroup():
                answer = SyncGroupAnswer(error, b"x")
            case Heartbeat():
                answer = HeartbeatAnswer(error)
            case LeaveGroup():
                answer = LeaveGroupAnswer(error)
            case OffsetCommit():
                self.last_commit_generation = request.generation
                answer = OffsetCommitAnswer({T0: error, T1: second})
            case OffsetFetch():
                answer = OffsetFetchAnswer(second, {T0: Committed(1, "", error)})
        self.tell(Answered(number, answer))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), kind=st.sampled_from(Failure))
    def no_answer(self, data, kind):
        number = data.draw(st.sampled_from(sorted(self.open)))
        request = self.open.pop(number)
        if isinstance(request, OffsetCommit):
            self.last_commit_generation = request.generation
        self.tell(RequestFailed(number, kind))

    @precondition(lambda self: self.machine.state is State.DESCRIBING)
    @rule(stale=st.booleans())
    def described(self, stale):
        request = self.need.request - stale
        self.tell(MetadataReady(request, "stream", (("p", b"%d" % self.need.nonce),)))

    @precondition(lambda self: self.machine.state is State.ASSIGNING)
    @rule(fails=st.booleans(), stale=st.booleans())
    def planned(self, fails, stale):
        generation = self.generation - stale
        self.tell(
            AssignorFailed(generation, "no topics")
            if fails
            else AssignmentsReady(generation, {"a": b"x"})
        )

    @rule()
    def rejoin_wanted(self):
        self.tell(RejoinWanted("ready"))

    @rule(hold=st.none() | st.integers(1, 30))
    def commit_wanted(self, hold):
        self.token += 1
        self.asked[self.token] += 1
        self.tell(CommitWanted(self.token, {T0: (1, ""), T1: (2, "")}, hold))

    @rule()
    def fetch_wanted(self):
        self.token += 1
        self.asked[self.token] += 1
        self.tell(FetchWanted(self.token, (T0,)))

    @rule(stale=st.booleans())
    def hold_wanted(self, stale):
        self.token += 1
        self.asked[self.token] += 1
        self.tell(HoldWanted(self.token, self.machine.generation - stale))

    @rule(token=st.integers(1, 30))
    def hold_ended(self, token):
        self.tell(HoldEnded(token))

    @rule()
    def progress(self):
        self.tell(ProgressMade())

    @rule(ms=st.sampled_from([1, 50, 300, 2_000, 20_000, 70_000]))
    def time_passes(self, ms):
        self.now_ms += ms
        self.last_commit_generation = self.machine.generation
        self.tell(Tick())

    @rule()
    def woken(self):
        if self.wake_ms is not None:
            self.now_ms = max(self.now_ms, self.wake_ms)
            self.last_commit_generation = self.machine.generation
            self.tell(Tick())

    @precondition(lambda self: self.token > 12)
    @rule(quietly=st.booleans())
    def leave(self, quietly):
        self.last_commit_generation = self.machine.generation
        self.tell(LeaveWanted("enough", quietly))

    @invariant()
    def every_wish_is_answered_once(self):
        assert all(self.told[token] <= 1 for token in self.told)
        if getattr(self, "machine", None) is not None and self.machine.state in ENDED:
            assert self.told == self.asked

    @invariant()
    def something_wakes_it(self):
        if getattr(self, "machine", None) is not None and self.machine.state not in ENDED:
            quiet = self.machine.state is State.STALLED
            assert quiet or self.machine._wake_at_ms() is not None


KINDS = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetFetch)
TestAnyBroker = AnyBroker.TestCase
TestAnyBroker.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
