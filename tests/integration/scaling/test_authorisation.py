"""A broker that asks who one is: what an operator may not do is named, and nothing is marked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from streamlet.broker.port import HOST, PortReservation
from streamlet.control.topic import control_topic_name
from streamlet.testing import KafkaBroker
from tests.integration.chaos.support import Cluster, wait_for
from tests.integration.scaling.commands import Answer, await_band, marks, operate

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

_USER = "guest"
_LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_guest="let-me-in";'
_SETTINGS = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": _USER,
    "sasl.password": "let-me-in",
}

SCALE_DOWN = ("scale-down", "--name", "b")
COMMANDS = (SCALE_DOWN, ("replace", "--old", "b", "--new", "a"))


class Guarded:
    """A broker with a second door, at which one says who one is; at the first one may do all.

    Args:
        stack: holds the ports, so that no client is given one of them before the broker.
    """

    def __init__(self, stack: ExitStack) -> None:
        ports = [stack.enter_context(PortReservation()) for _ in range(3)]
        first, second, controller = (reserved.port for reserved in ports)
        self.door = f"{HOST}:{second}"
        doors = f"PLAINTEXT://{HOST}:{first},GUEST://{self.door}"
        self.broker = KafkaBroker(
            first,
            properties={
                "listeners": f"{doors},CONTROLLER://{HOST}:{controller}",
                "advertised.listeners": doors,
                "controller.quorum.voters": f"1@{HOST}:{controller}",
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUEST:SASL_PLAINTEXT"
                ),
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.guest.plain.sasl.jaas.config": _LOGIN,
                "authorizer.class.name": (
                    "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
                ),
                "super.users": "User:ANONYMOUS",
            },
        )

    def allow(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        """Let the guest do this."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        rules = [
            AclBinding(
                *(kind, name, ResourcePatternType.LITERAL, f"User:{_USER}", "*"),
                *(operation, AclPermissionType.ALLOW),
            )
            for operation in operations
        ]
        for future in admin.create_acls(rules).values():
            future.result()
        wait_for(lambda: all(map(partial(in_force, admin), rules)), "the broker heeds the rules")


def in_force(admin: AdminClient, rule: AclBinding) -> bool:
    """Whether the broker goes by a rule: it does so some time after the controller has taken it."""
    given = rule.restype, rule.name, rule.resource_pattern_type, rule.principal, rule.host
    asked = AclBindingFilter(*given, rule.operation, rule.permission_type)
    return rule in admin.describe_acls(asked).result()


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    """It lives as long as the test."""
    with ExitStack() as stack:
        made = Guarded(stack)
        with made.broker:
            yield made


def test_rights_that_are_missing_are_named_and_nobody_is_marked(
    guarded: Guarded, tmp_path: Path
) -> None:
    cluster = Cluster(guarded.broker.bootstrap_servers, tmp_path)
    try:
        a, b = cluster.instance("a", 0).start(), cluster.instance("b", 0).start()
        await_band(cluster, [a, b])
        topic = control_topic_name(cluster.name)

        for command in COMMANDS:
            found = as_guest(guarded, cluster, *command)
            assert found.code == 1
            assert "GROUP_AUTHORIZATION_FAILED" in found.error
            assert f"--operation Describe --group {cluster.name}" in found.error

        guarded.allow(ResourceType.GROUP, cluster.name, AclOperation.DESCRIBE)
        for command in COMMANDS:
            found = as_guest(guarded, cluster, *command)
            assert found.code == 1
            assert f"topic {topic} is not there or may not be seen" in found.error
            assert f"READ on topic {topic}" in found.error

        guarded.allow(ResourceType.TOPIC, topic, AclOperation.READ)
        for command in COMMANDS:
            found = as_guest(guarded, cluster, *command)
            assert found.code == 1
            assert f"WRITE on topic {topic}" in found.error
            assert f"--operation Write --topic {topic}" in found.error
            assert marks(cluster) == []

        guarded.allow(ResourceType.TOPIC, topic, AclOperation.WRITE)
        found = as_guest(guarded, cluster, *SCALE_DOWN)
        assert (found.code, found.document["leaving"]) == (0, ["b"])
        assert b.wait() == 0, b.log()
        a.interrupt()
        assert a.wait() == 0, a.log()
    finally:
        cluster.end()


def test_an_instance_whose_password_is_refused_does_not_wait_for_the_broker(
    guarded: Guarded, tmp_path: Path
) -> None:
    """A broker that is away is waited for; this one answers."""
    cluster = Cluster(guarded.broker.bootstrap_servers, tmp_path)
    try:
        cluster.servers = guarded.door
        wrong = {**_SETTINGS, "sasl.password": "open-sesame"}
        more = [word for key, value in wrong.items() for word in ("--set", f"{key}={value}")]
        instance = cluster.instance("a", more=more).start()
        assert instance.wait() == 1, instance.log()
        assert "uthentication" in instance.log()
        assert "waiting for a broker" not in instance.log()
    finally:
        cluster.end()


def as_guest(guarded: Guarded, cluster: Cluster, command: str, *options: str) -> Answer:
    """What comes of a guest's command."""
    words = [command, cluster.name, *options, "--yes"]
    for key, value in _SETTINGS.items():
        words += ["--set", f"{key}={value}"]
    return operate(cluster, *words, servers=guarded.door)
