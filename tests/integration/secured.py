"""A broker at which users log in over TLS, and may do what they were allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
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
from streamlet.rights import Right
from streamlet.testing import KafkaBroker
from tests.certificates import RSA, self_signed
from tests.integration.chaos.support import wait_for

PASSWORD = "let-me-in"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@attrs.frozen
class SecuredBroker:
    """The broker; at ``open_door`` all may do all, at ``door`` users log in."""

    broker: KafkaBroker
    door: str
    certificate: Path

    @property
    def open_door(self) -> str:
        """``host:port`` of the superuser."""
        return self.broker.bootstrap_servers

    def login(self, user: str, password: str = PASSWORD) -> dict[str, str]:
        """The settings of a user."""
        return {
            "bootstrap.servers": self.door,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.certificate),
        }

    def allow(self, rights: Mapping[str, Sequence[Right]]) -> None:
        """Give users rights, and wait until the broker goes by them."""
        admin = AdminClient({"bootstrap.servers": self.open_door})
        rules = [_rule(user, right) for user, some in rights.items() for right in some]
        for future in admin.create_acls(rules).values():
            future.result()
        wanted = set(map(str, rules))
        everything = AclBindingFilter(
            *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
            *(AclOperation.ANY, AclPermissionType.ANY),
        )

        def in_force() -> bool:
            return wanted <= set(map(str, admin.describe_acls(everything).result()))

        wait_for(in_force, "the broker goes by the rights")


def _rule(user: str, right: Right) -> AclBinding:
    kind = {"cluster": "BROKER"}.get(right.kind, right.kind.upper().replace("-", "_"))
    ids = right.kind == "transactional-id"
    pattern = ResourcePatternType.PREFIXED if ids else ResourcePatternType.LITERAL
    return AclBinding(
        *(ResourceType[kind], right.name or "kafka-cluster", pattern, f"User:{user}", "*"),
        *(AclOperation[right.operation], AclPermissionType.ALLOW),
    )


@contextmanager
def secured_broker(folder: Path, users: Sequence[str]) -> Iterator[SecuredBroker]:
    """A broker that knows these users, as long as the block lasts."""
    certificate, store = make_certificate(folder)
    logins = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    with ExitStack() as stack:
        ports = [stack.enter_context(PortReservation()) for _ in range(3)]
        first, second, controller = (reserved.port for reserved in ports)
        doors = f"PLAINTEXT://{HOST}:{first},USERS://{HOST}:{second}"
        broker = KafkaBroker(
            first,
            properties={
                "listeners": f"{doors},CONTROLLER://{HOST}:{controller}",
                "advertised.listeners": doors,
                "controller.quorum.voters": f"1@{HOST}:{controller}",
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_SSL"
                ),
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.users.plain.sasl.jaas.config": f"{_LOGIN} {logins};",
                "listener.name.users.ssl.keystore.type": "PEM",
                "listener.name.users.ssl.keystore.location": str(store),
                "authorizer.class.name": (
                    "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
                ),
                "super.users": "User:ANONYMOUS",
            },
        )
        with broker:
            yield SecuredBroker(broker, f"{HOST}:{second}", certificate)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for loopback that signs itself, and the broker's key store with it."""
    self_signed(folder, RSA, "-addext", "subjectAltName=IP:127.0.0.1")
    certificate, store = folder / "ca.pem", folder / "store.pem"
    store.write_text((folder / "key.pem").read_text() + certificate.read_text())
    return certificate, store
