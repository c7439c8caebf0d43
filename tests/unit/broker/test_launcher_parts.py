"""The embedded broker's parts, without a broker."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import streamlet.testing
from streamlet.broker import storage
from streamlet.broker.jars import cache_folder, jars, locked
from streamlet.broker.java import java_version
from streamlet.broker.port import PortReservation
from streamlet.broker.probe import serves
from streamlet.broker.record import BrokerRecord, running
from streamlet.errors import BrokerError, ConfigError
from streamlet.testing.broker import broker_choice, serving_as


def reply(correlation: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation) + body


ONE_BROKER = reply(7, struct.pack(">iih4sih", 1, 5, 4, b"host", 9092, -1))
TWO_BROKERS = reply(
    7, struct.pack(">iih1sih2sih0sih", 2, 5, 1, b"h", 9092, 2, b"r1", 6, 0, b"", 9093, -1)
)
NO_BROKER = reply(7, struct.pack(">i", 0))
PRODUCER_ID = reply(7, struct.pack(">ihqh", 0, 0, 4000, 0))
NO_PRODUCER_ID_YET = reply(7, struct.pack(">ihqh", 0, 14, -1, -1))


@contextmanager
def answering(answers: Sequence[bytes]) -> Iterator[int]:
    """A server that takes one connection, answers one request after another, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                for answer in answers:
                    connection.recv(1000)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("nodes", "expected"), [([], True), ([5], True), ([6, 5], True), ([5, 7], False)]
)
def test_a_broker_of_several_serves_when_it_knows_the_others(
    nodes: list[int], expected: bool
) -> None:
    with answering([TWO_BROKERS, PRODUCER_ID][: 1 + expected]) as port:
        assert serves("127.0.0.1", port, nodes=nodes) is expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([ONE_BROKER, PRODUCER_ID], True, id="serving"),
        pytest.param([NO_BROKER], False, id="not registered yet"),
        pytest.param([ONE_BROKER, NO_PRODUCER_ID_YET], False, id="still loading"),
        pytest.param([ONE_BROKER], False, id="closed between the answers"),
        pytest.param([b""], False, id="closed at once"),
        pytest.param([ONE_BROKER[:10]], False, id="closed in the middle"),
        pytest.param([reply(6, struct.pack(">i", 1))], False, id="another's answer"),
        pytest.param([b"HTTP/1.1 400 Bad Request\r\n\r\n"], False, id="not Kafka"),
        pytest.param([reply(7, b"")], False, id="too short to be an answer"),
    ],
)
def test_only_a_broker_that_takes_records_counts_as_serving(
    answers: Sequence[bytes], expected: bool
) -> None:
    with answering(answers) as port:
        assert serves("127.0.0.1", port) is expected


def test_a_port_nobody_listens_on_serves_nothing() -> None:
    with PortReservation() as reserved:
        assert not serves("127.0.0.1", reserved.port)


def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not serves("127.0.0.1", silent.getsockname()[1], timeout_ms=50)


def test_reserved_ports_differ_and_a_listener_may_take_one() -> None:
    with PortReservation() as one, PortReservation() as other:
        assert one.port != other.port
        with socket.create_server(("127.0.0.1", one.port)):
            pass


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.8"\n', 21),
        ('JAVA_VERSION="1.8.0_392"\n', 8),
        ('JAVA_VERSION="25"\n', 25),
        ("nothing of the kind\n", 0),
    ],
)
def test_the_version_of_a_java_is_read_from_its_folder(
    tmp_path: Path, release: str, version: int
) -> None:
    (tmp_path / "release").write_text(release)
    assert java_version(tmp_path) == 0, "without bin/java it is none"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    assert java_version(tmp_path) == version


def test_jars_that_do_not_exist_fail_and_leave_no_folder(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jgo.maven", None)  # as if the package were not installed
    (cache / "sums").write_text("")
    with pytest.raises(BrokerError, match=re.escape("pip install 'streamlet[broker]'")):
        jars("thing-1.2.3", ["no.such:thing:1.2.3"], sums=cache / "sums")
    assert not (cache / "jars" / "thing-1.2.3").exists()


def test_a_lock_falls_with_its_process(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom streamlet.broker.jars import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    lock, pipe = tmp_path / "lock", subprocess.PIPE
    command = [sys.executable, "-c", program, str(lock)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        entered = threading.Event()

        def enter() -> None:
            with locked(lock):
                entered.set()

        waiter = threading.Thread(target=enter)
        waiter.start()
        assert not entered.wait(0.2)
        holder.kill()
        assert entered.wait(300)
        waiter.join()


def test_an_id_is_kafkas_spelling_of_a_uuid() -> None:
    for _ in range(200):
        assert re.fullmatch(r"[A-Za-f][A-Za-z0-9_-]{21}", storage._fresh_id())


def test_formatted_storage_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("cluster.id=mine\n")
    storage.format_storage(tmp_path, 1, "other")
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


def test_given_properties_win(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    properties = {"log.retention.ms": "5", "mine": "x"}
    storage.write_settings(file, tmp_path, 1, 1, storage.Cluster((2,), properties))
    lines = file.read_text().splitlines()
    assert "log.retention.ms=5" in lines
    assert "log.retention.ms=-1" not in lines
    assert "mine=x" in lines


def test_a_localhost_of_ipv6_alone_has_a_listener_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(*addresses: str) -> str:
        found = [(0, 0, 0, "", (address, 0)) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        cluster = storage.Cluster((2,), {})
        storage.write_settings(tmp_path / "server.properties", tmp_path, 1, 1, cluster)
        return (tmp_path / "server.properties").read_text()

    assert "::1" not in written("127.0.0.1")
    assert "::1" not in written("::1", "127.0.0.1")
    assert "IPV6://[::1]:1" in written("::1")
    assert "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,IPV6:PLAINTEXT" in written("::1")


def test_a_record_of_a_process_that_is_no_broker_is_dropped_with_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process number may belong to somebody else by now; it must not be touched."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    kept, swept = tmp_path / "kept", tmp_path / "swept"
    kept.mkdir()
    swept.mkdir()
    BrokerRecord(1, os.getpid(), str(kept), ephemeral=False).save()
    BrokerRecord(2, os.getpid(), str(swept), ephemeral=True).save()
    assert running(BrokerRecord) == []
    assert kept.exists()
    assert not swept.exists()
    BrokerRecord(1, os.getpid(), str(kept), ephemeral=False).stop()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"port": 1}'])
def test_a_record_that_cannot_be_read_is_dropped(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash of the machine while it was written."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    BrokerRecord(9092, os.getpid(), str(tmp_path), ephemeral=False).save()
    [file] = tmp_path.rglob("9092.json")
    file.write_text(text)
    assert running(BrokerRecord) == []
    assert not file.exists()


@pytest.mark.parametrize("choice", ["embedded", "container", "kafka-1:9092", "[::1]:9092"])
def test_a_choice_of_test_broker(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLET_TEST_BROKER", choice)
    assert broker_choice() == choice


def test_without_a_choice_the_broker_is_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLET_TEST_BROKER", "")
    assert broker_choice() == "embedded"


def test_a_wrong_choice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLET_TEST_BROKER", "docker")
    with pytest.raises(ConfigError, match="'docker'"):
        broker_choice()


def test_a_broker_that_is_there_is_used_as_it_is() -> None:
    with serving_as("kafka-1:9092") as address:
        assert address == "kafka-1:9092"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_folder()


def test_the_testing_package_lists_and_loads_its_names() -> None:
    for name in dir(streamlet.testing):
        assert getattr(streamlet.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="NoSuchThing"):
        streamlet.testing.NoSuchThing  # noqa: B018 - reading it is what fails


@pytest.mark.parametrize(
    ("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_a_write_waits_for_all_replicas_but_one(brokers: int, replicas: str, in_sync: str) -> None:
    settings = storage.Cluster(tuple(range(10, 10 + brokers)), {}).settings
    assert settings["default.replication.factor"] == replicas
    assert settings["offsets.topic.replication.factor"] == replicas
    assert settings["min.insync.replicas"] == in_sync
    assert settings["controller.quorum.voters"].count("@") == brokers


def test_brokers_of_a_cluster_share_its_id_and_have_folders_of_their_own(tmp_path: Path) -> None:
    cluster = storage.Cluster((1, 2, 3), {})
    for files in storage.cluster_files(tmp_path, cluster, [4, 5, 6]):
        files.write()
    metas = [(tmp_path / node / "logs" / "meta.properties").read_text() for node in "123"]
    assert ["node.id=1" in metas[0], "node.id=2" in metas[1], "node.id=3" in metas[2]] == [True] * 3
    assert len({re.findall("cluster.id=(.*)", meta)[0] for meta in metas}) == 1
    again = storage.cluster_files(tmp_path, cluster, [4, 5, 6])
    assert {files.cluster_id for files in again} == {re.findall("cluster.id=(.*)", metas[0])[0]}


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (3, 2)])
def test_a_folder_of_another_number_of_brokers_is_refused(
    tmp_path: Path, before: int, after: int
) -> None:
    """It would begin empty beside the data that is there."""

    def files(count: int) -> list[storage.BrokerFiles]:
        ports = tuple(range(1, count + 1))
        return storage.cluster_files(tmp_path, storage.Cluster(ports, {}), ports)

    for one in files(before):
        one.write()
    with pytest.raises(BrokerError, match=f"has the data of {before} broker"):
        files(after)
