"""The session's thread, over a fake coordinator in real time; the machine has tests of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping

import attrs
import pytest

from streamlet.assignor.values import Copy, Role
from streamlet.clock import SystemClock
from streamlet.coordinator.events import (
    Assigned,
    CommitDone,
    CommitOutcome,
    Failed,
    FailureKind,
    Left,
    Lost,
    SessionEvent,
)
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.ports import TransportError
from streamlet.coordinator.session import GroupSession
from streamlet.coordinator.states import MembershipState
from streamlet.coordinator.transport import Transport
from streamlet.errors import BrokerError, FatalGroupError, FencedError, TimedOutError
from streamlet.rebalance.values import NeedMetadata, RunAssignor
from streamlet.testing.coordinator import FakeCoordinator
from streamlet.types import TaskId, TopicPartition
from tests.coordinator_transport import FakeCluster, FakeTransport
from tests.two_tasks import TwoTasks

T0 = TopicPartition("t", 0)
CLOCK = SystemClock()
WAIT_S = 300


class Member:
    """A session with its events in a queue."""

    def __init__(
        self, transport: FakeTransport | Transport, config: MembershipConfig, **options: object
    ) -> None:
        self.protocol = TwoTasks()
        self.events: queue.Queue[SessionEvent] = queue.Queue()
        self.member_ids: queue.Queue[str] = queue.Queue()
        self.transport = transport
        self.session = GroupSession(
            config,
            self.protocol,
            transport,
            CLOCK,
            self.events.put,
            on_member_id=self.member_ids.put,
            **options,  # type: ignore[arg-type]
        )

    def next(self, kind: type[attrs.AttrsInstance]) -> SessionEvent:
        """The next event of a kind; others before it are dropped."""
        while True:
            event = self.events.get(timeout=WAIT_S)
            if isinstance(event, kind):
                return event

    def assigned(self, tasks: int) -> Assigned:
        """The next assignment of so many tasks."""
        while True:
            event = self.next(Assigned)
            assert isinstance(event, Assigned)
            if len(event.assignment.active) == tasks:
                return event

    def outcome(self, token: int) -> CommitOutcome:
        while True:
            event = self.next(CommitDone)
            assert isinstance(event, CommitDone)
            if event.token == token:
                return event.outcome


CONFIG = MembershipConfig("g", heartbeat_interval_ms=20)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(FakeCoordinator(), CLOCK) as cluster:
        yield cluster


@pytest.fixture
def enter(cluster: FakeCluster) -> Iterator[Callable[..., Member]]:
    members: list[Member] = []

    def enter(config: MembershipConfig = CONFIG, **options: object) -> Member:
        member = Member(cluster.transport(), config, **options)
        members.append(member)
        member.session.start()
        return member

    yield enter
    for member in members:
        member.session.close()


def test_two_members_share_the_tasks_and_one_that_leaves_gives_its_share_back(
    enter: Callable[..., Member],
) -> None:
    a = enter()
    assert a.assigned(2).leader
    b = enter()
    tasks = a.assigned(1).assignment.active | b.assigned(1).assignment.active
    assert tasks == {TaskId(0, 0), TaskId(0, 1)}

    assert b.session.leave("done", 5_000)

    assert b.next(Left) == Left()
    assert len(a.assigned(2).assignment.active) == 2


def test_a_commit_is_answered_and_its_positions_can_be_read(enter: Callable[..., Member]) -> None:
    a = enter()
    a.assigned(2)

    a.session.commit(7, {T0: (5, "mark")})

    assert a.outcome(7) is CommitOutcome.ACCEPTED
    committed = a.session.fetch_committed([T0], 1_000)[T0]
    assert (committed.offset, committed.metadata) == (5, "mark")
    assert a.session.fetch_committed([], 1_000) == {}


def test_unstable_positions_are_waited_for_and_then_an_error(
    cluster: FakeCluster, enter: Callable[..., Member]
) -> None:
    a = enter()
    cluster.coordinator.offsets.mark_unstable("g", T0)

    with pytest.raises(TimedOutError, match=r"of t-0: a transaction .* is open for 50 ms"):
        a.session.fetch_committed([T0], 50)


def test_a_wish_that_a_join_tells_of_already_needs_no_other(enter: Callable[..., Member]) -> None:
    """It arose before the description and reaches the session after it."""
    a = enter()
    a.assigned(2)
    b = enter()
    b.assigned(1)
    described, generation = b.protocol.described, b.session.view.generation
    subscribe = b.protocol.subscribe

    def wish(need: NeedMetadata, copies: Mapping[TaskId, Copy]) -> tuple[tuple[str, bytes], ...]:
        if len(described) == before:
            b.session.rejoin("a learner is ready", before)
        return subscribe(need, copies)

    before = len(described)
    b.protocol.subscribe = wish  # type: ignore[method-assign]
    for number in (1, 2):
        a.session.rejoin("mine")
        while b.assigned(1).generation < generation + number:
            pass
    assert [need.reason for need, _ in described[before:]] == ["rebalance in progress"] * 2


def test_a_wish_that_arose_after_the_description_needs_a_join_of_its_own(
    enter: Callable[..., Member],
) -> None:
    a = enter()
    a.assigned(2)
    a.session.rejoin("a learner is ready", len(a.protocol.described))
    assert a.assigned(2).generation == 2


def test_a_join_says_what_the_copies_are_when_it_is_sent(enter: Callable[..., Member]) -> None:
    copies: dict[TaskId, Copy] = {}
    a = enter(describe=lambda: dict(copies))
    a.assigned(2)

    copies[TaskId(0, 0)] = Copy(Role.ACTIVE, generation=1)
    a.session.rejoin("changed")
    a.assigned(2)

    (first, none), (second, some) = a.protocol.described
    assert (dict(none), dict(some)) == ({}, copies)
    assert second.nonce > first.nonce


def test_an_expired_member_is_told_that_its_tasks_are_lost_and_comes_back(
    cluster: FakeCluster, enter: Callable[..., Member]
) -> None:
    a = enter()
    before = a.assigned(2)
    cluster.coordinator.expire("g", before.member_id, CLOCK.now_ms())

    a.next(Lost)

    assert a.assigned(2).member_id != before.member_id


def test_each_member_id_is_reported_before_the_first_assignment_under_it(
    cluster: FakeCluster, enter: Callable[..., Member]
) -> None:
    a = enter()
    first = a.assigned(2).member_id
    assert a.member_ids.get_nowait() == first
    cluster.coordinator.expire("g", first, CLOCK.now_ms())

    second = a.assigned(2).member_id
    assert [a.member_ids.get_nowait() for _ in range(2)] == ["", second]

    a.session.leave("done", WAIT_S * 1000)
    assert a.member_ids.get(timeout=WAIT_S) == "", "who left is not to be removed"


def test_a_commit_made_before_the_loss_was_seen_is_not_sent_under_the_new_id(
    cluster: FakeCluster, enter: Callable[..., Member]
) -> None:
    """The worker sat in a user function while its member expired and joined anew."""
    a = enter()
    before = a.assigned(2)
    cluster.coordinator.expire("g", before.member_id, CLOCK.now_ms())
    a.assigned(2)  # the thread has a new id; the worker has not looked yet

    a.session.commit(1, {T0: (5, "stale")})
    assert a.outcome(1) is CommitOutcome.LOST

    a.session.progress()  # its next round begins with looking
    a.session.commit(2, {T0: (6, "fresh")})
    assert a.outcome(2) is CommitOutcome.ACCEPTED
    assert a.session.fetch_committed([T0], 1_000)[T0].offset == 6


def test_a_commit_asked_for_before_the_loss_is_not_sent_however_late_it_arrives(
    cluster: FakeCluster, enter: Callable[..., Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's thread stood still between looking and sending."""
    a = enter()
    before = a.assigned(2)
    put, late = a.session.put, []
    monkeypatch.setattr(a.session, "put", late.append)
    a.session.commit(1, {T0: (5, "stale")})
    monkeypatch.setattr(a.session, "put", put)
    cluster.coordinator.expire("g", before.member_id, CLOCK.now_ms())
    a.assigned(2)
    a.session.progress()

    put(late[0])

    assert a.outcome(1) is CommitOutcome.LOST
    assert a.session.fetch_committed([T0], 1_000)[T0].offset == -1


def test_nothing_is_written_between_a_loss_and_the_workers_next_round(
    cluster: FakeCluster, enter: Callable[..., Member]
) -> None:
    """The session is alive by its new id, but not for what the worker has of the old one."""
    a = enter()
    before = a.assigned(2)
    assert (a.session.alive(), a.session.gated) == (True, False)
    cluster.coordinator.expire("g", before.member_id, CLOCK.now_ms())
    a.assigned(2)

    assert (a.session.alive(), a.session.gated) == (False, True)

    a.session.progress()
    assert (a.session.alive(), a.session.gated) == (True, False)


def test_a_worker_without_progress_leaves_and_comes_back_when_it_goes_on(
    enter: Callable[..., Member],
) -> None:
    a = enter(attrs.evolve(CONFIG, max_poll_interval_ms=100))
    a.assigned(2)

    a.next(Lost)
    while a.session.view.state is not MembershipState.STABLE:  # late again on a busy machine
        a.session.progress()
        threading.Event().wait(0.01)
    a.assigned(2)


def test_a_heartbeat_on_demand_is_answered_or_says_that_we_are_not_in_the_group(
    cluster: FakeCluster, enter: Callable[..., Member]
) -> None:
    a = enter()
    before = a.assigned(2)
    assert a.session.heartbeat_now(5_000)
    assert a.session.alive()
    a.protocol.plan = lambda run: (_ for _ in ()).throw(BrokerError("no topics"))  # type: ignore
    cluster.coordinator.expire("g", before.member_id, CLOCK.now_ms())
    a.next(Lost)

    assert not a.session.heartbeat_now(50)
    assert not a.session.alive()


def test_an_assignor_without_a_plan_is_run_again(enter: Callable[..., Member]) -> None:
    a = enter()
    a.assigned(2)
    attempts: list[RunAssignor] = []

    def plan(run: RunAssignor) -> Mapping[str, bytes]:
        attempts.append(run)
        if len(attempts) < 3:
            raise BrokerError("topics are not known yet")
        return {run.members[0].member_id: b"0 1"}

    a.protocol.plan = plan
    a.session.rejoin("again")

    a.assigned(2)
    assert len(attempts) == 3


def test_a_protocol_that_breaks_ends_the_membership_with_its_error(
    enter: Callable[..., Member], caplog: pytest.LogCaptureFixture
) -> None:
    a = enter()
    a.assigned(2)
    a.protocol.plan = lambda run: {}[run]  # type: ignore[index]

    a.session.rejoin("break")

    a.next(Lost)
    failed = a.next(Failed)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, FatalGroupError)
    assert "KeyError" in str(failed.error)
    assert "the membership of group g broke" in caplog.text
    assert a.session.leave("after that", 100)


def test_the_same_static_id_twice_fences_the_older_one(enter: Callable[..., Member]) -> None:
    static = attrs.evolve(CONFIG, instance_id="i")
    older = enter(static)
    older.assigned(2)
    newer = enter(static)

    assert newer.assigned(2).restarted
    failed = older.next(Failed)

    assert isinstance(failed, Failed)
    assert isinstance(failed.error, FencedError)


def test_a_static_member_leaves_quietly_unless_told_otherwise(
    cluster: FakeCluster, enter: Callable[..., Member]
) -> None:
    a = enter(attrs.evolve(CONFIG, instance_id="i"))
    a.assigned(2)
    assert a.session.leave("stop", 5_000)
    view = cluster.coordinator.view("g")
    assert view is not None
    assert len(view.members) == 1

    b = enter(attrs.evolve(CONFIG, instance_id="i"))
    b.assigned(2)
    assert b.session.leave("for good", 5_000, quietly=False)

    view = cluster.coordinator.view("g")
    assert view is not None
    assert view.members == ()


def test_a_broker_that_cannot_be_reached_is_an_error_with_address_and_cause() -> None:
    member = Member(Transport("127.0.0.1:1"), CONFIG, start_timeout_ms=2_000)
    member.session.start()

    failed = member.next(Failed)
    member.session.close()

    assert isinstance(failed, Failed)
    assert isinstance(failed.error, BrokerError)
    assert "127.0.0.1:1" in str(failed.error)
    assert "ECONNREFUSED" in str(failed.error)


def test_a_failure_that_does_not_pass_by_itself_ends_the_membership_at_once(
    cluster: FakeCluster,
) -> None:
    class Refused(FakeTransport):
        def find_coordinator(self, group: str, timeout_ms: int):  # type: ignore[no-untyped-def]
            future = super().find_coordinator(group, timeout_ms)
            future = type(future)()
            future.set_exception(TransportError(FailureKind.AUTHENTICATION, "wrong password"))
            return future

    member = Member(Refused(cluster, "m"), CONFIG)
    member.session.start()

    failed = member.next(Failed)
    member.session.close()

    assert isinstance(failed, Failed)
    assert str(failed.error) == "wrong password"


def test_closing_leaves_no_thread_and_says_nothing(
    cluster: FakeCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    before = set(threading.enumerate())
    member = Member(cluster.transport(), CONFIG)
    member.session.start()
    member.assigned(2)

    member.session.close()

    assert set(threading.enumerate()) == before
    assert capfd.readouterr().err == ""
