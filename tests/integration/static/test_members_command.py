"""``streamlet members`` and its twins in Python, on a real broker that asks for permission."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from typer.testing import CliRunner

from streamlet.app import App
from streamlet.coordinator.events import Connection
from streamlet.coordinator.messages import (
    Answer,
    JoinGroup,
    JoinGroupAnswer,
    Request,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.coordinator.transport import Transport
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.rebalance.wire import encode_assignment, encode_subscription
from streamlet.testing.broker import KafkaBroker, broker_choice
from streamlet.tools.main import build
from streamlet.types import TaskId
from tests.integration.chaos.support import wait_for
from tests.integration.scaling.test_authorisation import in_force
from tests.integration.test_status_command import SESSION_MS

pytestmark = pytest.mark.integration

#: Everybody may do everything with what no ACL is about.
ASKING = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    if broker_choice() != "embedded":
        pytest.skip("needs a broker with an authorizer")
    with KafkaBroker(properties=ASKING) as broker:
        yield broker.bootstrap_servers


@attrs.define
class Player:
    """A static member of an application, joined by hand."""

    transport: Transport
    group: str
    instance_id: str | None
    member_id: str = ""

    def ask(self, request: Request) -> Answer:
        return self.transport.send(request, Connection.JOIN, 60_000).result(300)

    def join(self) -> Player:
        said = Subscription("process", "h1", 0, 1.0, 1, (bytes(8),), instance_id=self.instance_id)
        answer = wait_for(lambda: self._join_once(encode_subscription(said)), "it may join")
        if answer.error == 79:  # MEMBER_ID_REQUIRED: a dynamic member joins twice
            self.member_id = answer.member_id
            answer = wait_for(lambda: self._join_once(encode_subscription(said)), "it may join")
        assert answer.error == 0
        self.member_id = answer.member_id
        told = encode_assignment(Assignment(active=frozenset({TaskId(0, 0)})))
        me = (self.group, answer.generation, self.member_id, self.instance_id)
        synced = self.ask(SyncGroup(*me, "stream", "p", ((self.member_id, told),)))
        assert isinstance(synced, SyncGroupAnswer)
        assert synced.error == 0
        return self

    def _join_once(self, metadata: bytes) -> JoinGroupAnswer | None:
        joining = JoinGroup(
            self.group,
            self.member_id,
            self.instance_id,
            "stream",
            (("p", metadata),),
            SESSION_MS,
            60_000,
        )
        answer = self.ask(joining)
        assert isinstance(answer, JoinGroupAnswer)
        # LOAD_IN_PROGRESS, NOT_AVAILABLE, NOT_COORDINATOR: a fresh broker makes its topic first.
        return None if answer.error in (14, 15, 16) else answer


@pytest.fixture
def member(servers: str) -> Iterator[Callable[[str | None], Player]]:
    """``member("a-0")``: an application whose only member has this static id."""
    open_: list[Transport] = []

    def make(instance_id: str | None) -> Player:
        open_.append(Transport(servers, client_id="h1"))
        return Player(open_[-1], f"members-{uuid.uuid4().hex[:8]}", instance_id).join()

    yield make
    for transport in open_:
        transport.close()


def run(servers: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON document of ``streamlet members``."""
    command = ["members", *arguments, "--json", "--bootstrap-servers", servers]
    result = CliRunner().invoke(build(), command)
    return result.exit_code, json.loads(result.stdout)


def test_a_static_member_is_listed_and_removed_and_the_answer_says_so_per_id(
    member: Callable[[str | None], Player], servers: str
) -> None:
    group = member("a-0").group
    assert run(servers, "list", group) == (
        0,
        {"members": [{"member": "h1-0", "instance_id": "a-0", "state": "RUNNING"}]},
    )
    gone = {"instance_id": "gone", "ok": False, "error": "UNKNOWN_MEMBER_ID"}
    removed = {"instance_id": "a", "ok": True, "error": None}
    both = ("--instance-id", "a", "--instance-id", "gone")
    assert run(servers, "remove", group, *both) == (1, {"results": [removed, gone]})
    assert run(servers, "list", group) == (0, {"members": []})
    # Nobody runs it any more: an answer, not a crash.
    again = {"instance_id": "a", "ok": False, "error": "UNKNOWN_MEMBER_ID"}
    assert run(servers, "remove", group, "--instance-id", "a") == (1, {"results": [again]})


def test_a_program_sees_the_ids_and_removes_them(
    member: Callable[[str | None], Player], servers: str
) -> None:
    app = App(member("a-0").group, bootstrap_servers=servers)
    (instance,) = app.metadata()
    assert instance.instance_ids == ("a-0",)
    assert instance.members[0].active_tasks == (TaskId(0, 0),)
    assert [(r.instance_id, r.ok) for r in app.remove_members(["a-0"])] == [("a-0", True)]
    assert app.metadata() == ()
    assert App(f"never-{uuid.uuid4().hex}", bootstrap_servers=servers).metadata() == ()


def test_a_dynamic_member_has_no_id(member: Callable[[str | None], Player], servers: str) -> None:
    _, found = run(servers, "list", member(None).group)
    assert found["members"][0]["instance_id"] is None


def test_an_unknown_application_is_named_as_kafka_does(servers: str) -> None:
    code, found = run(servers, "remove", "no-such-app", "--instance-id", "a")
    assert code == 3
    assert "no application 'no-such-app'" in found["error"]["message"]
    assert "INVALID_GROUP_ID" in found["error"]["message"]
    assert run(servers, "list", "no-such-app")[0] == 3


@pytest.mark.parametrize("wrong", [(), ("--instance-id", "")])
def test_no_id_is_a_wrong_call(servers: str, wrong: tuple[str, ...]) -> None:
    result = CliRunner().invoke(build(), ["members", "remove", "flights", *wrong])
    assert result.exit_code == 2


def rule(servers: str, group: str, operation: AclOperation, permission: AclPermissionType) -> None:
    """Everybody, or nobody, may do this with the group from now on."""
    binding = AclBinding(
        ResourceType.GROUP,
        group,
        ResourcePatternType.LITERAL,
        "User:*",
        "*",
        operation,
        permission,
    )
    client = AdminClient({"bootstrap.servers": servers})
    (future,) = client.create_acls([binding]).values()
    future.result(300)
    wait_for(lambda: in_force(client, binding), "the broker heeds the rule")


def test_a_missing_permission_is_named(
    member: Callable[[str | None], Player], servers: str
) -> None:
    """An operator may look without being allowed to change, or neither."""
    group = member("a-0").group
    remove = ("remove", group, "--instance-id", "a-0")
    refused = {"instance_id": "a-0", "ok": False, "error": "GROUP_AUTHORIZATION_FAILED"}

    rule(servers, group, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    assert run(servers, *remove) == (1, {"results": [refused]})

    rule(servers, group, AclOperation.DESCRIBE, AclPermissionType.DENY)
    code, found = run(servers, *remove)
    assert code == 1
    assert "GROUP_AUTHORIZATION_FAILED" in found["error"]["message"]
