"""A real broker before Kafka 2.5 is refused as too old, with exit code 2, and nothing is marked.

Kafka 2.4.1 with the ZooKeeper it needs, from the same source as the embedded broker's jars. No
Kafka without ZooKeeper is old enough, and a newer one cannot be told to speak as an older one does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamlet.broker.jars import jars
from streamlet.broker.java import java_executable
from streamlet.broker.port import HOST, PortReservation
from streamlet.broker.probe import serves
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.tools.main import build
from tests.integration.chaos.fork_server import ROOT
from tests.integration.chaos.support import wait_for
from tests.integration.chaos.topologies import NAME

pytestmark = pytest.mark.integration

VERSION = "2.4.1"
COORDINATES = (f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.28")
APP = "of-today"
SUMS = Path(__file__).with_name(f"kafka-{VERSION}.sha256")
#: Java ends with whoever holds the shell's standard input, however that ends.
LEASHED = '"$@" & read word; kill -KILL $!; wait'

ZOOKEEPER = """
dataDir={folder}/zookeeper
clientPort={zookeeper}
clientPortAddress={host}
admin.enableServer=false
"""
KAFKA = """
broker.id=1
zookeeper.connect={host}:{zookeeper}
listeners=PLAINTEXT://{host}:{kafka}
log.dirs={folder}/logs
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
"""


def fetched() -> list[Path]:
    """The jars of the old distribution.

    Raises:
        BrokerError: they cannot be fetched.
    """
    return jars(f"kafka-{VERSION}", COORDINATES, sums=SUMS)


@contextmanager
def java(main: str, settings: Path) -> Iterator[None]:
    """A program of the old distribution, for as long as the block runs."""
    class_path = ":".join(map(str, fetched()))
    options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path)
    command = (str(java_executable()), *options, main, str(settings))
    with settings.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", LEASHED, "old-broker", *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


@pytest.fixture(scope="module")
def old_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of a broker of Kafka 2.4.1 with the input of an application."""
    folder = tmp_path_factory.mktemp("old-broker")
    with ExitStack() as stack:
        zookeeper, kafka = (stack.enter_context(PortReservation()).port for _ in range(2))
        for name, text in (("zookeeper", ZOOKEEPER), ("kafka", KAFKA)):
            filled = text.format(folder=folder, host=HOST, zookeeper=zookeeper, kafka=kafka)
            (folder / f"{name}.properties").write_text(filled)
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        stack.enter_context(java(main, folder / "zookeeper.properties"))
        stack.enter_context(java("kafka.Kafka", folder / "kafka.properties"))
        log = folder / "kafka.log"
        wait_for(lambda: serves(HOST, kafka), lambda: f"it serves\n{log.read_text()[-3000:]}")
        address = f"{HOST}:{kafka}"
        KafkaAdmin(address).create_topics([NewTopic(f"{APP}-in", 2, 1)])
        yield address


def test_whoever_asks_an_old_broker_is_told_that_it_is_too_old(old_broker: str) -> None:
    """Not that there is no such application, which such a broker would be able to say."""
    for words in (
        ("scale-down", APP, "--percent", "50", "--yes"),
        ("scale-down", APP, "--cancel"),
        ("replace", APP, "--old", "a", "--new", "b", "--yes"),
        ("status", APP),
        ("members", "list", APP),
        ("members", "remove", APP, "--instance-id", "a"),
    ):
        found = CliRunner().invoke(build(), [*words, "--json", "--bootstrap-servers", old_broker])
        assert found.exit_code == 2, (words, found.stderr)
        error = json.loads(found.stdout)["error"]
        assert error["exit_code"] == 2
        assert "UNSUPPORTED_VERSION, the broker is too old, Kafka 2.5 is needed" in error["message"]
        assert "Traceback" not in found.stderr
    here = set(KafkaAdmin(old_broker).topics()) - {"__consumer_offsets"}
    assert here == {f"{APP}-in"}, "nobody was marked"


def test_an_instance_ends_at_once_on_an_old_broker(old_broker: str, tmp_path: Path) -> None:
    """No restart of a worker would mend it."""
    words = ("run", "tests.integration.chaos.topologies:app", "--bootstrap-servers", old_broker)
    ended = subprocess.run(
        [sys.executable, "-m", "streamlet", *words, "--state-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, NAME: APP},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert ended.returncode == 2, ended.stderr
    assert "the broker is too old, Kafka 2.5 is needed" in ended.stderr
    assert "starting it again" not in ended.stderr
    here = set(KafkaAdmin(old_broker).topics()) - {"__consumer_offsets"}
    assert here == {f"{APP}-in"}, "no topic was made"
