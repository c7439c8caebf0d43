"""One broker with a door for each way to connect, and the server that gives tokens for one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import attrs
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streamlet.broker.port import HOST, PortReservation
from streamlet.testing import KafkaBroker
from tests.certificates import openssl
from tests.token_server import SECRET, TokenServer

PASSWORD = "let-me-in"
#: Kafka's protocol of each door but the first, which is open.
DOORS = {
    "scram": "SASL_SSL",
    "mutual": "SSL",
    "tokens": "SASL_PLAINTEXT",
    "plain": "SASL_PLAINTEXT",
}
_SECURITY = "org.apache.kafka.common.security"
_PLAIN = f"{_SECURITY}.plain.PlainLoginModule required"


@attrs.frozen
class Doors:
    """The broker, the ports of its doors, the certificates and the server of tokens."""

    broker: KafkaBroker
    ports: dict[str, int]
    folder: Path
    tokens: TokenServer

    def at(self, door: str) -> str:
        """``host:port`` of a door."""
        return f"{HOST}:{self.ports[door]}"

    def settings(self, door: str) -> dict[str, str]:
        """The settings that open a door."""
        ca = {"ssl.ca.location": str(self.folder / "ca.pem")}
        own = {
            "open": {},
            "scram": {
                **ca,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required "
                f'username="alice" password="{PASSWORD}";',
            },
            "mutual": {
                **ca,
                "security.protocol": "SSL",
                "ssl.certificate.location": str(self.folder / "client.pem"),
                "ssl.key.pem": (self.folder / "client.key").read_text(),
            },
            "tokens": {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
                "sasl.oauthbearer.client.id": "application",
                "sasl.oauthbearer.client.secret": SECRET,
                "sasl.oauthbearer.scope": "kafka",
            },
            "plain": {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": PASSWORD,
            },
        }[door]
        return {"bootstrap.servers": self.at(door), **own}


@contextmanager
def doors(folder: Path) -> Iterator[Doors]:
    """The broker, as long as the block lasts."""
    make_certificates(folder)
    with ExitStack() as stack:
        ports = {
            name: stack.enter_context(PortReservation()).port
            for name in ("open", "control", *DOORS)
        }
        tokens = TokenServer()
        stack.callback(tokens.close)
        broker = KafkaBroker(ports["open"], properties=_properties(ports, folder))
        with broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            known = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
            user = UserScramCredentialUpsertion("alice", known, PASSWORD.encode())
            for done in admin.alter_user_scram_credentials([user]).values():
                done.result()
            yield Doors(broker, ports, folder, tokens)


def _properties(ports: dict[str, int], folder: Path) -> dict[str, str]:
    names = {"open": "PLAINTEXT", **DOORS}
    listeners = ",".join(f"{name.upper()}://{HOST}:{ports[name]}" for name in names)
    protocols = ",".join(f"{name.upper()}:{protocol}" for name, protocol in names.items())
    store = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.both"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
    }
    ours = {
        **{
            f"listener.name.{name}.{key}": v
            for name in ("scram", "mutual")
            for key, v in store.items()
        },
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": (
            f"{_SECURITY}.scram.ScramLoginModule required;"
        ),
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.jaas.config": (
            f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredValidatorAllowableClockSkewMs="60000" unsecuredLoginStringClaim_sub="broker";'
        ),
        "listener.name.tokens.connections.max.reauth.ms": "600000",
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plain.plain.sasl.jaas.config": f'{_PLAIN} user_alice="{PASSWORD}";',
    }
    return {
        **ours,
        "listeners": f"{listeners},CONTROLLER://{HOST}:{ports['control']}",
        "advertised.listeners": listeners,
        "controller.quorum.voters": f"1@{HOST}:{ports['control']}",
        "inter.broker.listener.name": "OPEN",
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{protocols}",
    }


def pack(folder: Path) -> tuple[Path, Path]:
    """The client's certificate and key as PKCS#12, and a folder of CAs with the broker's."""
    names = ("-in", "client.pem", "-inkey", "client.key", "-out", "client.p12")
    openssl(folder, "pkcs12", "-export", *names, "-passout", f"pass:{PASSWORD}")
    (folder / "cas").mkdir()
    hashed = openssl(folder, "x509", "-hash", "-noout", "-in", "ca.pem")
    shutil.copy(folder / "ca.pem", folder / "cas" / f"{hashed}.0")
    return folder / "client.p12", folder / "cas"


def make_certificates(folder: Path) -> None:
    """A CA, ``ca.pem``, and of the broker and of a client ``NAME.pem`` and ``NAME.key`` by it."""
    run = partial(openssl, folder)
    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    # Python 3.13 asks of certificates all that RFC 5280 does.
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    authority = ("-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    run(*new, "-x509", *usage, *authority)
    (folder / "names").write_text(
        f"subjectAltName=IP:{HOST},DNS:localhost\nauthorityKeyIdentifier=keyid\n"
    )
    for name in ("broker", "client"):
        run(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2", "-extfile", "names")
        run("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
    both = (folder / "broker.key").read_text() + (folder / "broker.pem").read_text()
    (folder / "broker.both").write_text(both)
