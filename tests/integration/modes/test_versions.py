"""Programs of two versions in one group: of our bytes, and of the application's topology."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator

import attrs
import pytest

from streamlet.assignor.assign import assign
from streamlet.assignor.values import Copy, Role, Rules, TaskInfo
from streamlet.clock import SystemClock
from streamlet.coordinator.events import Assigned, SessionEvent
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.session import GroupSession
from streamlet.coordinator.transport import Transport
from streamlet.rebalance import wire
from streamlet.rebalance.envelope import open_subscription
from streamlet.rebalance.protocol import TasksProtocol
from streamlet.rebalance.values import NeedMetadata, Subscription
from streamlet.types import TaskId
from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import LONG_SESSIONS, Cluster, Instance, wait_for
from tests.integration.chaos.topics import SLOW_BEAT_S, Load
from tests.integration.learners.scenes import (
    TALKATIVE,
    assert_exact_in_the_end,
    assert_settled,
    await_owners,
)

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

CLOCK = SystemClock()
TASKS = tuple(TaskInfo(TaskId(0, partition), stateful=False) for partition in range(4))


@attrs.define(eq=False)
class Recorded:
    """A protocol that remembers in which versions it described itself."""

    protocol: TasksProtocol
    said: list[int] = attrs.field(factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.protocol, name)

    def subscribe(
        self, need: NeedMetadata, copies: dict[TaskId, Copy]
    ) -> tuple[tuple[str, bytes], ...]:
        """As the protocol does."""
        protocols = self.protocol.subscribe(need, copies)
        self.said.append(wire.read_head(protocols[0][1]).version)
        return protocols


class Member:
    """A session that gives up and takes what it is told to, without doing any work."""

    def __init__(self, servers: str, group: str, name: str, latest: int) -> None:
        self.tasks: frozenset[TaskId] = frozenset()
        self.copies: dict[TaskId, Copy] = {}
        protocol = TasksProtocol(
            Subscription(name, name),
            Rules(),
            assign,
            tasks=lambda: TASKS,
            wall_ms=CLOCK.wall_ms,
            rejoin=lambda reason: self.session.rejoin(reason),
            latest=latest,
        )
        self.protocol = Recorded(protocol)
        config = MembershipConfig(group, session_timeout_ms=60_000, first_nonce=CLOCK.wall_ms())
        self.session = GroupSession(
            config,
            self.protocol,  # type: ignore[arg-type]
            Transport(servers, client_id=name),
            CLOCK,
            self._on_event,
            describe=lambda: self.copies,
        )
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._over = threading.Event()

    def start(self) -> Member:
        """Join."""
        self.session.start()
        self._ticker.start()
        return self

    def _tick(self) -> None:
        while not self._over.wait(0.1):
            self.session.progress()

    def _on_event(self, event: SessionEvent) -> None:
        if isinstance(event, Assigned):
            orders = event.assignment
            self.tasks = orders.active
            copies = {task: Copy(Role.ACTIVE, event.generation) for task in orders.active}
            copies |= {task: Copy(Role.RELEASED) for task in orders.revoke}
            self.copies = copies
            if orders.revoke:
                self.session.rejoin("gave up what it was asked to")

    def end(self) -> None:
        """Leave."""
        self.session.leave("the test is over", 5_000)
        self._over.set()
        self._ticker.join()
        self.session.close()


@pytest.fixture
def make_member(bootstrap_servers: str) -> Iterator[Callable[[str, int], Member]]:
    group, made = f"versions-{uuid.uuid4().hex[:8]}", list[Member]()

    def make(name: str, latest: int) -> Member:
        made.append(Member(bootstrap_servers, group, name, latest).start())
        return made[-1]

    yield make
    for member in made:
        member.end()


def test_a_newer_program_meets_an_older_leader_and_takes_over_from_it(
    make_member: Callable[[str, int], Member],
) -> None:
    """Version probing: it is refused its own version, and raises it when the old one is gone."""
    old = make_member("old", 1)
    wait_for(lambda: len(old.tasks) == 4, "the old one has all tasks")
    new = make_member("new", 2)
    wait_for(
        lambda: (len(old.tasks), len(new.tasks)) == (2, 2),
        lambda: f"both have a share: {old.tasks}, {new.tasks}",
    )
    assert not old.tasks & new.tasks
    assert set(old.protocol.said) == {1}
    assert new.protocol.said[0] == 2
    assert new.protocol.said[-1] == 1
    old.session.leave("replaced", 5_000)
    wait_for(lambda: len(new.tasks) == 4, "the new one has all tasks")
    new.session.rejoin("to speak up")
    wait_for(lambda: new.protocol.said[-1] == 2, lambda: f"it speaks up: {new.protocol.said}")


@pytest.mark.parametrize("latest", [1, wire.VERSION - 1])
def test_older_programs_are_replaced_one_by_one_under_load(
    make_cluster: Callable[..., Cluster], latest: int
) -> None:
    """While one of them is there all speak its version, hand-overs included; then the newest."""
    cluster = make_cluster("counting", **LONG_SESSIONS)
    a, b = (cluster.instance(name, 0, latest=latest) for name in "ab")
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        a.start()
        cluster.await_running()  # it leads, and goes on leading
        b.start()
        await_owners(cluster, a, b)
        assert versions(cluster) == {"a": latest, "b": latest}
        c = cluster.instance("c", 0).start()
        await_owners(cluster, a, b, c)
        assert versions(cluster) == dict.fromkeys("abc", latest)
        known = f"the leader knows version {latest} at most, we know {wire.VERSION}"
        assert f"{known}: joining again" in c.log()
        renewed_b = renewed(cluster, b)
        wait_for(lambda: versions(cluster) == dict.fromkeys("abc", latest), "b is back")
        renewed_a = renewed(cluster, a)
        wait_for(
            lambda: versions(cluster) == dict.fromkeys("abc", wire.VERSION), "all speak the newest"
        )
        assert_settled(cluster)
        await_owners(cluster, renewed_a, renewed_b, c)
        true = load.finish()
    cluster.await_settled()
    living = [renewed_a, renewed_b, c]
    for one in living:
        one.interrupt()
    assert [one.wait() for one in living] == [0, 0, 0], cluster.logs()
    assert_counts_exact(cluster, contents(cluster, living), true)


def renewed(cluster: Cluster, old: Instance) -> Instance:
    """Stop an instance and start the program of today on its state."""
    old.interrupt()
    assert old.wait() == 0, old.log()
    return cluster.instance(old.name, 0, state_of=old).start()


def versions(cluster: Cluster) -> dict[str, int]:
    """The version in which each member described itself, once the group is stable."""
    transport = Transport(cluster.servers, client_id="look")

    def described() -> dict[str, int]:
        group = transport.describe_group(cluster.name, 10_000).result()
        if group.state != "Stable":
            return {}
        said = [open_subscription(m.metadata, group.protocol_type) for m in group.members]
        names = [wire.decode_subscription(one.data).name for one in said]
        found = [wire.read_head(one.data).version for one in said]
        return dict(zip(names, found, strict=True))

    try:
        return wait_for(described, "the group is stable")
    finally:
        transport.close()


def test_two_versions_of_a_topology_share_what_is_the_same_in_both(
    make_cluster: Callable[..., Cluster],
) -> None:
    """A rolling deploy: the part that changed goes on where it was until its last owner stops."""
    cluster = make_cluster("counting", **LONG_SESSIONS)
    old = cluster.instance("old", more=TALKATIVE).start()
    with Load(cluster.servers, cluster.topic("in"), rate=500, beat_s=SLOW_BEAT_S) as load:
        cluster.await_running()
        new = cluster.instance("new", shape="regrouped", more=TALKATIVE).start()
        await_owners(cluster, old, new)
        owners = cluster.owners()
        of_new = {task for task, owner in owners.items() if owner.startswith("new-")}
        assert {task.subtopology for task in of_new} == {0}, owners
        assert old.stop() == 0, old.log()
        await_owners(cluster, new)
        assert_exact_in_the_end(cluster, [new], load)
