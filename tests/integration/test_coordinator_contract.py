"""The fake coordinator and a real broker answer the same scripts in the same words.

The scripts are those of ``tests/unit/testing/test_coordinator_scripts.py``. A difference is a bug
of the fake, or a broker that changed.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from streamlet.coordinator.events import Connection
from streamlet.coordinator.messages import Answer, Heartbeat, HeartbeatAnswer, Request
from streamlet.coordinator.transport import Transport
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.testing.broker import KafkaBroker, broker_choice
from tests.group_script import GroupScript

pytestmark = pytest.mark.integration

SCRIPTS = sorted((Path(__file__).parents[1] / "unit/testing/coordinator_scripts").glob("*.txt"))
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
NOT_YET = (14, 15, 16)
TOPICS = [NewTopic("t", 4, 1)]


class BrokerWire:
    """Carries a script's requests to a broker; each client has its own connections."""

    limit_ms = 20_000
    parked_ms = 150

    def __init__(self, bootstrap_servers: str, broker: KafkaBroker | None = None) -> None:
        self._servers = bootstrap_servers
        self._broker = broker
        self._group = ""
        self._transports: dict[str, Transport] = {}

    def send(self, client: str, request: Request, connection: Connection) -> Future[Answer]:
        if client not in self._transports:
            self._transports[client] = Transport(self._servers, client_id=client)
        future = self._transports[client].send(request, connection, 60_000)
        if connection is Connection.MAIN:
            future.result(300)  # only a JoinGroup or SyncGroup may be parked
        return future

    def warm_up(self, group: str) -> None:
        """Wait until the group's part of a fresh broker's offsets topic is loaded."""
        self._group = group
        while True:
            answer = self.send("first", Heartbeat(group, 1, "nobody", None), Connection.MAIN)
            came = answer.result(self.limit_ms / 1000)
            assert isinstance(came, HeartbeatAnswer)
            if came.error not in NOT_YET:
                return
            time.sleep(0.05)

    def hang_up(self, client: str) -> None:
        self._transports[client].hang_up(Connection.JOIN)

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1000)  # the broker's own timers are the subject

    def restart(self) -> None:
        assert self._broker is not None
        self._broker.kill()
        self._broker.start()
        self.warm_up(self._group)

    def close(self) -> None:
        for transport in self._transports.values():
            transport.close()


@pytest.fixture(scope="module")
def limited_broker() -> Iterator[KafkaBroker]:
    """A broker that may be killed, with short sessions and small groups."""
    if broker_choice() != "embedded":
        pytest.skip("needs a broker with other settings than the test run's")
    settings = {"group.min.session.timeout.ms": "500", "group.max.size": "2"}
    with KafkaBroker(properties=settings) as broker:
        KafkaAdmin(broker.bootstrap_servers).create_topics(TOPICS)
        yield broker


def play(path: Path, wire: BrokerWire) -> list[str]:
    group = f"{path.stem}-{uuid.uuid4()}"
    try:
        wire.warm_up(group)
        return GroupScript(wire, group).play(path.read_text())
    finally:
        wire.close()


def scripts(*, limited: bool) -> list[Path]:
    return [p for p in SCRIPTS if p.stem.startswith("limited") == limited]


@pytest.mark.parametrize("path", scripts(limited=False), ids=lambda p: p.stem)
def test_the_broker_answers_as_the_script_says(path: Path, bootstrap_servers: str) -> None:
    KafkaAdmin(bootstrap_servers).create_topics(TOPICS)

    assert play(path, BrokerWire(bootstrap_servers))


@pytest.mark.parametrize("path", scripts(limited=True), ids=lambda p: p.stem)
def test_a_limited_broker_answers_as_the_script_says(
    path: Path, limited_broker: KafkaBroker
) -> None:
    wire = BrokerWire(limited_broker.bootstrap_servers, limited_broker)

    assert play(path, wire)
