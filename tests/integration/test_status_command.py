"""``streamlet status`` against a real broker, for a group whose member is played by this test."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from typer.testing import CliRunner

from streamlet.coordinator.events import Connection
from streamlet.coordinator.messages import (
    Answer,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    OffsetCommit,
    OffsetCommitAnswer,
    Request,
    SyncGroup,
)
from streamlet.coordinator.transport import Transport
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.rebalance.wire import encode_assignment, encode_subscription
from streamlet.tools.main import build
from streamlet.types import TaskId, TopicPartition
from tests.integration.chaos.support import wait_for

pytestmark = pytest.mark.integration


#: Nobody sends heartbeats for a member that is joined by hand.
SESSION_MS = 600_000


@attrs.define
class Player:
    """A member of a group of its own, joined by hand."""

    transport: Transport
    group: str = attrs.field(factory=lambda: f"status-{uuid.uuid4().hex[:8]}")
    member_id: str = ""
    generation: int = -1

    def ask(self, request: Request, connection: Connection = Connection.MAIN) -> Answer:
        return self.transport.send(request, connection, 60_000).result(300)

    def join(self, metadata: bytes, kind: str = "stream") -> None:
        answer = wait_for(lambda: self._join_once(metadata, kind), "it may join")
        if answer.error == 79:  # MEMBER_ID_REQUIRED: join again with the id just given
            self.member_id = answer.member_id
            answer = wait_for(lambda: self._join_once(metadata, kind), "it may join")
        assert answer.error == 0
        self.member_id, self.generation = answer.member_id, answer.generation

    def _join_once(self, metadata: bytes, kind: str) -> JoinGroupAnswer | None:
        protocols = (("streamlet", metadata),)
        request = JoinGroup(self.group, self.member_id, None, kind, protocols, SESSION_MS, 20_000)
        answer = self.ask(request, Connection.JOIN)
        assert isinstance(answer, JoinGroupAnswer)
        # LOAD_IN_PROGRESS, NOT_AVAILABLE, NOT_COORDINATOR: a fresh broker makes its topic first.
        return None if answer.error in (14, 15, 16) else answer

    def sync(self, assignment: bytes, kind: str = "stream") -> None:
        mine = ((self.member_id, assignment),)
        me = (self.group, self.generation, self.member_id, None)
        answer = self.ask(SyncGroup(*me, kind, "streamlet", mine), Connection.JOIN)
        assert answer.error == 0  # type: ignore[union-attr]

    def commit(self, topic: str, offset: int) -> None:
        offsets = {TopicPartition(topic, 0): (offset, "")}
        me = (self.group, self.generation, self.member_id, None)
        answer = self.ask(OffsetCommit(*me, offsets))
        assert isinstance(answer, OffsetCommitAnswer)
        assert set(answer.errors.values()) == {0}

    def leave(self) -> None:
        self.ask(LeaveGroup(self.group, self.member_id, None))


@pytest.fixture
def player(bootstrap_servers: str) -> Iterator[Player]:
    transport = Transport(bootstrap_servers, client_id="h1")
    try:
        yield Player(transport)
    finally:
        transport.close()


def run(servers: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON document of ``streamlet status``."""
    command = ["status", *arguments, "--json", "--bootstrap-servers", servers]
    result = CliRunner().invoke(build(), command)
    return result.exit_code, json.loads(result.stdout)


SUBSCRIPTION = encode_subscription(
    Subscription("process-1", "h1", 0, 1.0, 1, (bytes(8),), stateful=frozenset({0}))
)


def test_an_application_is_shown_with_its_tasks_and_lag(
    player: Player, bootstrap_servers: str
) -> None:
    admin = KafkaAdmin(bootstrap_servers)
    topic = f"{player.group}-input"
    admin.create_topics([NewTopic(topic, 2, 1)])
    admin.close()
    player.join(SUBSCRIPTION)
    plan = Assignment(
        active=frozenset({TaskId(0, 0)}), leader=player.member_id, generation=player.generation
    )
    player.sync(encode_assignment(plan))
    player.commit(topic, 0)

    code, found = run(bootstrap_servers, player.group, "--check")

    assert code == 0
    assert found["application"] == player.group
    assert found["group"]["state"] == "Stable"
    assert found["group"]["protocol_type"] == "stream"
    assert found["group"]["generation"] == player.generation
    assert found["group"]["leader"] == "h1-0"
    [instance] = found["instances"]
    [member] = instance["members"]
    assert member["member_id"] == player.member_id
    assert [(task["task"], task["role"]) for task in member["tasks"]] == [("0_0", "active")]
    assert found["input_lag"] == {topic: {"0": 0}}
    assert found["violations"] == []

    player.leave()
    code, found = run(bootstrap_servers, player.group)
    assert code == 0
    assert found["group"]["state"] == "Empty"
    assert found["instances"] == []
    assert found["input_lag"] == {topic: {"0": 0, "1": 0}}  # nobody says that 1 is another's
    assert run(bootstrap_servers, player.group, "--check")[0] == 3


def test_a_task_that_nobody_runs_fails_the_check(player: Player, bootstrap_servers: str) -> None:
    player.join(SUBSCRIPTION)
    plan = Assignment(active=frozenset({TaskId(0, 1)}), generation=player.generation)
    player.sync(encode_assignment(plan))
    code, found = run(bootstrap_servers, player.group, "--check")
    assert code == 1
    assert "U1" in {violation["rule"] for violation in found["violations"]}
    assert run(bootstrap_servers, player.group)[0] == 0


def test_tasks_without_a_member_are_shown_and_fail_the_check_unless_they_wait(
    player: Player, bootstrap_servers: str
) -> None:
    """The leader names them: no member has anything of the last tasks of all."""
    player.join(SUBSCRIPTION)
    plan = Assignment(
        active=frozenset({TaskId(0, 0)}),
        leader=player.member_id,
        generation=player.generation,
        unassigned=frozenset({TaskId(0, 1)}),
    )
    player.sync(encode_assignment(plan))
    code, found = run(bootstrap_servers, player.group, "--check")
    assert (code, found["unassigned"]) == (1, [{"task": "0_1", "until_ms": None}])

    player.join(SUBSCRIPTION)
    waits = {"generation": player.generation, "deferral_deadline_ms": 1_700_000_000_000}
    player.sync(encode_assignment(attrs.evolve(plan, **waits)))
    code, found = run(bootstrap_servers, player.group, "--check")
    assert (code, found["violations"]) == (0, [])
    assert found["unassigned"] == [{"task": "0_1", "until_ms": 1_700_000_000_000}]


def test_a_group_of_other_clients_is_no_application(player: Player, bootstrap_servers: str) -> None:
    player.join(b"\0\1\0\0\0\0", "consumer")
    player.sync(b"", "consumer")
    code, found = run(bootstrap_servers, player.group)
    assert code == 3
    assert "a group of other clients" in found["error"]["message"]


def test_an_unknown_application_is_not_found(bootstrap_servers: str) -> None:
    code, found = run(bootstrap_servers, "no-such-application")
    assert code == 3
    assert "there is no application 'no-such-application'" in found["error"]["message"]


def test_an_unreachable_broker_is_named() -> None:
    code, found = run("localhost:1", "flights")
    assert code == 1
    assert "localhost:1" in found["error"]["message"]
