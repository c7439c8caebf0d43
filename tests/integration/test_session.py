"""Sessions on a real broker: joining, leaving, broken connections, restarts, zombies, commits.

The members' protocol is a trivial one: two tasks, given to the members in turn.
"""

from __future__ import annotations

import queue
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest

from streamlet.broker.port import PortReservation
from streamlet.clock import SystemClock
from streamlet.coordinator import events as ev
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.membership import MembershipState
from streamlet.coordinator.messages import (
    Answer,
    Heartbeat,
    JoinGroup,
    JoinGroupAnswer,
    OffsetCommit,
    Request,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.coordinator.ports import TransportError
from streamlet.coordinator.session import GroupSession
from streamlet.coordinator.transport import Transport
from streamlet.errors import BrokerError, FencedError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.testing.broker import KafkaBroker, broker_choice
from streamlet.types import TaskId, TopicPartition
from tests.integration.secured import make_certificate
from tests.two_tasks import TwoTasks

pytestmark = pytest.mark.integration

T0 = TopicPartition("t", 0)
CLOCK = SystemClock()
WAIT_S, WAIT_MS = 300, 300_000
REBALANCE_IN_PROGRESS = 27


@attrs.frozen
class Served:
    """A broker with short sessions; two more listeners ask for a password, one of them by TLS."""

    broker: KafkaBroker
    secured: str
    encrypted: str
    certificate: Path

    @property
    def address(self) -> str:
        return self.broker.bootstrap_servers


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{PLAIN} required user_alice="secret";'


def broker_settings(listeners: str, controller: int, keystore: Path) -> dict[str, str]:
    return {
        "group.min.session.timeout.ms": "500",
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT,ENCRYPTED:SASL_SSL"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": JAAS,
        "listener.name.encrypted.plain.sasl.jaas.config": JAAS,
        "listener.name.encrypted.ssl.keystore.type": "PEM",
        "listener.name.encrypted.ssl.keystore.location": str(keystore),
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if broker_choice() != "embedded":
        pytest.skip("needs a broker with other settings than the test run's, and kills it")
    certificate, store = make_certificate(tmp_path_factory.mktemp("tls"))
    ends = ExitStack()  # holds the ports, so that no client is given one of them before the broker
    ports = [ends.enter_context(PortReservation()) for _ in range(4)]
    port, secured, encrypted, controller = (reserved.port for reserved in ports)
    listeners = (
        f"PLAINTEXT://127.0.0.1:{port},SECURED://127.0.0.1:{secured}"
        f",ENCRYPTED://127.0.0.1:{encrypted}"
    )
    settings = broker_settings(listeners, controller, store)
    with ends, KafkaBroker(port, properties=settings) as broker:
        KafkaAdmin(broker.bootstrap_servers).create_topics([NewTopic("t", 4, 1)])
        yield Served(broker, f"127.0.0.1:{secured}", f"127.0.0.1:{encrypted}", certificate)


class HeldTransport(Transport):
    """Keeps requests of chosen kinds back until told to let them go."""

    held: tuple[type, ...] = ()

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers)
        self._kept: list[tuple[Request, ev.Connection, int, Future[Answer]]] = []
        self.keeping = threading.Event()

    def send(
        self, request: Request, connection: ev.Connection | str, timeout_ms: int
    ) -> Future[Answer]:
        if not isinstance(request, self.held):
            return super().send(request, connection, timeout_ms)
        future: Future[Answer] = Future()
        self._kept.append((request, ev.Connection(connection), timeout_ms, future))
        self.keeping.set()
        return future

    def let_go(self) -> None:
        self.held = ()
        kept, self._kept = self._kept, []
        for request, connection, timeout_ms, future in kept:
            sent = super().send(request, connection, timeout_ms)
            sent.add_done_callback(lambda done, f=future: f.set_result(done.result()))


class Member:
    """A session with its events in a queue."""

    def __init__(self, transport: Transport, config: MembershipConfig) -> None:
        self.events: queue.Queue[ev.SessionEvent] = queue.Queue()
        self.transport = transport
        self.config = config
        self.session = GroupSession(config, TwoTasks(), transport, CLOCK, self.events.put)
        self.session.start()

    def next(self, kind: type[attrs.AttrsInstance]) -> ev.SessionEvent:
        """The next event of a kind; others before it are dropped."""
        while True:
            event = self.events.get(timeout=WAIT_S)
            if isinstance(event, kind):
                return event

    def assigned(self, tasks: int) -> ev.Assigned:
        """The next assignment of so many tasks."""
        while True:
            event = self.next(ev.Assigned)
            assert isinstance(event, ev.Assigned)
            if len(event.assignment.active) == tasks:
                return event

    def commit(self, token: int, offset: int) -> None:
        self.session.progress()
        self.session.commit(token, {T0: (offset, "mark")})

    def outcome(self, token: int) -> ev.CommitOutcome:
        while True:
            event = self.next(ev.CommitDone)
            assert isinstance(event, ev.CommitDone)
            if event.token == token:
                return event.outcome

    def committed(self) -> int:
        return self.session.fetch_committed([T0], WAIT_MS)[T0].offset

    def park(self) -> None:
        """Rejoin beside a member that does not, and wait until the broker holds the join."""
        self.session.rejoin("to be parked")
        deadline = CLOCK.now_ms() + WAIT_MS
        while CLOCK.now_ms() < deadline:
            described = self.transport.describe_group(self.config.group, WAIT_MS).result(WAIT_S)
            if (
                described.state == "PreparingRebalance"
                and self.session.view.state is MembershipState.JOINING
            ):
                return
        raise AssertionError(f"not parked: {self.session.view.state}")


@pytest.fixture
def enter(served: Served) -> Iterator[Callable[..., Member]]:
    members: list[Member] = []
    group = f"session-{uuid.uuid4()}"

    def enter(make: Callable[[str], Transport] = Transport, **settings: str | int | None) -> Member:
        config = MembershipConfig(
            group,
            session_timeout_ms=60_000,
            heartbeat_interval_ms=50,
            first_nonce=len(members) * 1_000,
        )
        member = Member(make(served.address), attrs.evolve(config, **settings))
        members.append(member)
        return member

    yield enter
    for member in members:
        member.session.close()


class RawMember:
    """A member that does nothing by itself: it rejoins only when the test says so."""

    def __init__(self, served: Served, group: str) -> None:
        self.group = group
        self.member_id = ""
        self._transport = Transport(served.address)
        asked = self.join().result(WAIT_S)
        assert isinstance(asked, JoinGroupAnswer)
        self.member_id = asked.member_id

    def join(self) -> Future[Answer]:
        request = JoinGroup(
            self.group, self.member_id, None, "stream", (("p", b"raw"),), 600_000, 600_000
        )
        return self._transport.send(request, ev.Connection.JOIN, WAIT_MS)

    def sync(self, generation: int) -> SyncGroupAnswer:
        request = SyncGroup(self.group, generation, self.member_id, None, "stream", "p")
        answer = self._transport.send(request, ev.Connection.JOIN, WAIT_MS).result(WAIT_S)
        assert isinstance(answer, SyncGroupAnswer)
        return answer

    def enter(self) -> None:
        """Take part in rebalances until one comes to its end."""
        error = REBALANCE_IN_PROGRESS
        while error == REBALANCE_IN_PROGRESS:
            answer = self.join().result(WAIT_S)
            assert isinstance(answer, JoinGroupAnswer)
            error = self.sync(answer.generation).error
        assert error == 0

    def close(self) -> None:
        self._transport.close()


@pytest.fixture
def raw(served: Served) -> Iterator[Callable[[Member], RawMember]]:
    members: list[RawMember] = []

    def beside(member: Member) -> RawMember:
        raw = RawMember(served, member.config.group)
        members.append(raw)
        return raw

    yield beside
    for member in members:
        member.close()


def test_members_share_the_tasks_commit_and_take_over_from_one_that_leaves(
    enter: Callable[..., Member],
) -> None:
    a = enter()
    assert a.assigned(2).leader
    b = enter()
    tasks = a.assigned(1).assignment.active | b.assigned(1).assignment.active
    assert tasks == {TaskId(0, 0), TaskId(0, 1)}
    b.commit(1, 5)
    assert b.outcome(1) is ev.CommitOutcome.ACCEPTED
    assert a.committed() == 5

    assert b.session.leave("done", WAIT_MS)

    b.next(ev.Left)
    assert a.assigned(2).generation == 3


def test_cut_connections_cost_neither_member_id_nor_generation(
    enter: Callable[..., Member],
) -> None:
    a = enter()
    before = a.assigned(2)

    for _ in range(3):
        a.transport.hang_up(ev.Connection.MAIN)
        a.transport.hang_up(ev.Connection.JOIN)
        assert a.session.heartbeat_now(WAIT_MS)

    view = a.session.view
    assert (view.member_id, view.generation) == (before.member_id, before.generation)
    a.session.rejoin("over a new connection")
    assert a.assigned(2).generation == before.generation + 1


def test_a_parked_join_whose_connection_is_cut_is_sent_again_under_the_same_id(
    enter: Callable[..., Member], raw: Callable[[Member], RawMember]
) -> None:
    a = enter()
    before = a.assigned(2)
    other = raw(a)
    other.enter()
    a.assigned(1)
    a.park()

    a.transport.hang_up(ev.Connection.JOIN)
    other.enter()

    assert a.assigned(1).member_id == before.member_id


def test_a_restarted_coordinator_finds_the_group_as_it_was(
    served: Served, enter: Callable[..., Member]
) -> None:
    a = enter(session_timeout_ms=60_000)
    before = a.assigned(2)

    served.broker.kill()
    served.broker.start()

    assert a.session.heartbeat_now(WAIT_MS)
    view = a.session.view
    assert (view.member_id, view.generation) == (before.member_id, before.generation)
    a.commit(1, 8)
    assert a.outcome(1) is ev.CommitOutcome.ACCEPTED


def test_a_static_member_that_restarts_gets_its_tasks_without_a_rebalance(
    enter: Callable[..., Member],
) -> None:
    a = enter(instance_id="a")
    a.assigned(2)
    b = enter(instance_id="b")
    before = b.assigned(1)
    a.assigned(1)
    assert b.session.leave("restart", WAIT_MS)

    again = enter(instance_id="b").assigned(1)

    assert again.restarted
    assert (again.generation, again.assignment) == (before.generation, before.assignment)
    assert again.member_id != before.member_id
    assert a.session.heartbeat_now(WAIT_MS)
    assert a.session.view.state is MembershipState.STABLE
    assert a.session.view.generation == before.generation


def test_the_same_static_id_twice_fences_the_older_process(enter: Callable[..., Member]) -> None:
    older = enter(instance_id="i")
    older.assigned(2)

    enter(instance_id="i").assigned(2)

    older.next(ev.Lost)
    failed = older.next(ev.Failed)
    assert isinstance(failed, ev.Failed)
    assert isinstance(failed.error, FencedError)


def test_a_member_silent_for_longer_than_its_session_loses_its_tasks_and_commits_nothing(
    enter: Callable[..., Member],
) -> None:
    """A process that was stopped for a while: heartbeats go out late, then a commit."""
    zombie = enter(HeldTransport, session_timeout_ms=4_000, request_timeout_ms=20_000)
    assert isinstance(zombie.transport, HeldTransport)
    before = zombie.assigned(2)
    other = enter()
    zombie.assigned(1)
    other.assigned(1)
    zombie.transport.held = (Heartbeat, OffsetCommit, JoinGroup)
    zombie.commit(1, 99)

    other.assigned(2)  # the group went on without it
    zombie.transport.let_go()

    assert zombie.outcome(1) is ev.CommitOutcome.LOST
    assert other.committed() == -1
    assert zombie.assigned(1).member_id != before.member_id


def test_a_commit_is_gated_while_a_join_is_parked_and_goes_through_when_that_takes_long(
    enter: Callable[..., Member], raw: Callable[[Member], RawMember]
) -> None:
    a = enter(parked_commit_after_ms=500)
    a.assigned(2)
    other = raw(a)
    other.enter()
    a.assigned(1)
    a.park()
    assert a.session.gated
    a.commit(1, 1)
    assert a.outcome(1) is ev.CommitOutcome.GATED

    token = 2
    a.commit(token, 2)
    while (outcome := a.outcome(token)) is ev.CommitOutcome.GATED:
        token += 1
        a.commit(token, 2)

    assert outcome is ev.CommitOutcome.ACCEPTED
    assert not a.session.gated
    assert a.committed() == 2


def test_a_commit_overtaken_by_its_own_rebalance_is_switched_and_not_lost(
    enter: Callable[..., Member], raw: Callable[[Member], RawMember]
) -> None:
    """It was sent while our JoinGroup was parked, and arrives when the generation has changed."""
    a = enter(HeldTransport, parked_commit_after_ms=0)
    assert isinstance(a.transport, HeldTransport)
    a.assigned(2)
    other = raw(a)
    other.enter()
    a.assigned(1)
    a.park()
    a.transport.held = (OffsetCommit,)
    a.commit(1, 1)
    assert a.transport.keeping.wait(WAIT_S)
    other.enter()
    a.assigned(1)

    a.transport.let_go()

    assert a.outcome(1) is ev.CommitOutcome.SWITCHED
    assert a.committed() == -1
    a.commit(2, 2)
    assert a.outcome(2) is ev.CommitOutcome.ACCEPTED


@pytest.mark.parametrize("protocol", ["sasl_plaintext", "sasl_ssl"])
def test_a_right_password_lets_in_and_a_wrong_one_is_an_error_at_once(
    served: Served, protocol: str
) -> None:
    address = served.secured if protocol == "sasl_plaintext" else served.encrypted

    def find(password: str) -> None:
        transport = Transport(
            address,
            {
                "security.protocol": protocol,
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": password,
                "ssl.ca.location": str(served.certificate),
            },
        )
        try:
            transport.find_coordinator("g", WAIT_MS).result(WAIT_S)
        finally:
            transport.close()

    find("secret")
    with pytest.raises(TransportError, match="Authentication failed") as failed:
        find("wrong")
    assert failed.value.kind is ev.FailureKind.AUTHENTICATION


def test_a_certificate_that_is_not_trusted_is_an_error_at_once(served: Served) -> None:
    config = {"security.protocol": "ssl"}
    transport = Transport(served.encrypted, config)
    with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED") as failed:
        transport.find_coordinator("g", WAIT_MS).result(WAIT_S)
    transport.close()
    assert failed.value.kind is ev.FailureKind.AUTHENTICATION


def test_a_broker_whose_certificate_is_not_trusted_is_not_spoken_to(served: Served) -> None:
    transport = Transport(served.encrypted, {"security.protocol": "ssl"})

    with pytest.raises(BrokerError, match="certificate verify failed"):
        transport.find_coordinator("g", WAIT_MS).result(WAIT_S)

    transport.close()


def test_the_tools_requests_describe_list_and_remove(
    served: Served, enter: Callable[..., Member]
) -> None:
    a = enter(instance_id="i")
    a.assigned(2)
    transport, group = a.transport, a.config.group

    described = transport.describe_group(group, WAIT_MS).result(WAIT_S)
    listed = transport.list_groups(WAIT_MS).result(WAIT_S)
    removed = transport.remove_members(group, ["i", "nobody"], WAIT_MS).result(WAIT_S)

    [member] = described.members
    assert (described.state, described.protocol_type, described.protocol) == (
        "Stable",
        "stream",
        "p",
    )
    assert (member.instance_id, member.metadata, member.assignment) == ("i", b"nonce 0", b"0 1")
    assert [g.protocol_type for g in listed if g.group == group] == ["stream"]
    assert removed == {"i": 0, "nobody": 25}
    assert transport.describe_group("nobody's", WAIT_MS).result(WAIT_S).state == "Dead"


def test_closing_leaves_no_thread_and_says_nothing(
    served: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    before = set(threading.enumerate())
    member = Member(Transport(served.address), MembershipConfig(f"close-{uuid.uuid4()}"))
    member.assigned(2)

    member.session.close()

    assert set(threading.enumerate()) <= before
    assert capfd.readouterr().err == ""
