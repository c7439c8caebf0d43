"""A Kafka broker's files before its first start: settings and formatted storage.

Formatting is a Java program of its own and costs a start of the virtual machine. What it writes is
one file that depends on Kafka's version only, and one small text with fresh ids; so it is run once
per version, its file is kept in the cache, and the text is written here.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from streamlet.broker.jars import cache_folder, jars, locked
from streamlet.broker.java import java_executable
from streamlet.broker.port import HOST, localhost_is_ipv6_only
from streamlet.errors import BrokerError
from streamlet.own_files import make_own_folder, open_own_file

KAFKA_VERSION = "4.1.1"
#: Name of the set of its jars.
JARS = f"kafka-{KAFKA_VERSION}"
#: The file that makes a folder of logs a formatted one.
_META = "meta.properties"
_COORDINATES = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")


#: Set for brokers that live for a test or a demo and must keep records of any age.
_SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # After a kill the controller waits this long before it believes that the broker is a new one.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # Written twice a second for other controllers; a third of what an idle broker costs.
    "metadata.max.idle.interval.ms": "0",
    # Event times of years ago are normal here; retention goes by them, so it is off.
    "log.retention.ms": "-1",
    # The default of 128 MiB is taken from a small heap at once.
    "log.cleaner.dedupe.buffer.size": "16777216",
}


#: Settings that say how many replicas a topic has, and for how many of them a write waits.
_REPLICAS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_IN_SYNC = (
    "min.insync.replicas",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.min.isr",
)
_MOST_REPLICAS = 3


@attrs.frozen
class Cluster:
    """The brokers of one cluster.

    Attributes:
        controller_ports: of each, by number from 1.
        properties: settings of the user's, which win over ours.
    """

    controller_ports: tuple[int, ...]
    properties: Mapping[str, str]

    @property
    def settings(self) -> dict[str, str]:
        """Settings that all of its brokers have."""
        replicas = min(len(self.controller_ports), _MOST_REPLICAS)
        voters = [f"{node}@{HOST}:{port}" for node, port in enumerate(self.controller_ports, 1)]
        return {
            **_SETTINGS,
            **dict.fromkeys(_REPLICAS, str(replicas)),
            **dict.fromkeys(_IN_SYNC, str(max(1, replicas - 1))),
            "controller.quorum.voters": ",".join(voters),
        }


@attrs.frozen
class BrokerFiles:
    """The files of one broker.

    Attributes:
        folder: of its settings, log file and data.
        node_id: its number in the cluster, from 1.
        port: for clients.
        cluster: all of them.
        cluster_id: of a cluster that was not there before.
    """

    folder: Path
    node_id: int
    port: int
    cluster: Cluster
    cluster_id: str

    @property
    def settings_file(self) -> Path:
        """The broker's properties."""
        return self.folder / "server.properties"

    def write(self) -> None:
        """Write the settings, and format the storage unless it is.

        Raises:
            OSError: the folder cannot be made, or belongs to another user.
        """
        logs = self.folder / "logs"
        format_storage(logs, self.node_id, self.cluster_id)
        write_settings(self.settings_file, logs, self.node_id, self.port, self.cluster)


def cluster_files(folder: Path, cluster: Cluster, ports: Sequence[int]) -> list[BrokerFiles]:
    """The files of each broker of a cluster that keeps its data in a folder.

    Raises:
        BrokerError: the folder is one of another number of brokers.
    """
    count = len(ports)
    before = _brokers_in(folder)
    if before not in (0, count):
        raise BrokerError(
            f"{folder} has the data of {before} broker{'s' * (before > 1)}, not of {count}: "
            "start as many, or give another folder"
        )
    folders = [folder] if count == 1 else [folder / str(node) for node in range(1, count + 1)]
    known = [found for one in folders if (found := _cluster_id(one / "logs")) is not None]
    cluster_id = known[0] if known else _fresh_id()
    return [
        BrokerFiles(own, node, port, cluster, cluster_id)
        for node, (own, port) in enumerate(zip(folders, ports, strict=True), 1)
    ]


def _brokers_in(folder: Path) -> int:
    """The number of brokers whose data is in a folder."""
    if (folder / "logs" / _META).exists():
        return 1
    return len([*folder.glob(f"[0-9]*/logs/{_META}")])


def _cluster_id(logs: Path) -> str | None:
    """The id of the cluster that a formatted folder belongs to."""
    try:
        text = (logs / _META).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = re.search(r"^cluster\.id=(.+)$", text, re.MULTILINE)
    return None if found is None else found[1].strip()


def kafka_jars() -> list[Path]:
    """Kafka's jars, fetched when they are not there yet."""
    return jars(JARS, _COORDINATES)


def write_settings(file: Path, logs: Path, node_id: int, port: int, cluster: Cluster) -> None:
    """Write a broker's properties, passwords among them; the user's win over what is set here."""
    clients = f"PLAINTEXT://{HOST}:{port}"
    controller_port = cluster.controller_ports[node_id - 1]
    settings = {
        **cluster.settings,
        "node.id": str(node_id),
        "listeners": f"{clients},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": clients,
        "log.dirs": str(logs),
    }
    if localhost_is_ipv6_only():
        settings["listeners"] += f",IPV6://[::1]:{port}"
        settings["advertised.listeners"] += f",IPV6://[::1]:{port}"
        settings["listener.security.protocol.map"] += ",IPV6:PLAINTEXT"
    settings.update(cluster.properties)
    written = open_own_file(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(written, "w") as opened:
        opened.write("".join(f"{key}={value}\n" for key, value in settings.items()))


def format_storage(logs: Path, node_id: int, cluster_id: str) -> None:
    """Format an empty log folder; one that is formatted already is left as it is.

    Raises:
        OSError: the folder cannot be made, or belongs to another user.
    """
    make_own_folder(logs)
    if (logs / _META).exists():
        return
    shutil.copy(_bootstrap_records(), logs / "bootstrap.checkpoint")
    ids = f"node.id={node_id}\ncluster.id={cluster_id}\ndirectory.id={_fresh_id()}\n"
    (logs / _META).write_text(f"version=1\n{ids}")


def _fresh_id() -> str:
    """A uuid in Kafka's spelling: 22 letters of base64url, the first of them no dash."""
    # With its highest bit cleared the first byte cannot become the letter that is a dash.
    raw = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([raw[0] & 0x7F]) + raw[1:]).decode().rstrip("=")


def _bootstrap_records() -> Path:
    """The file of feature levels as Kafka's formatter writes it, made once per version."""
    kept = cache_folder() / f"kafka-{KAFKA_VERSION}.checkpoint"
    if not kept.exists():
        with locked(kept.with_name(f"{kept.name}.lock")):
            if not kept.exists():
                _run_formatter(kafka_jars(), kept)
    return kept


def _run_formatter(class_path: Sequence[Path], kept: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="streamlet-format-") as folder:
        logs, settings = Path(folder) / "logs", Path(folder) / "server.properties"
        logs.mkdir()
        write_settings(settings, logs, 1, 1, Cluster((2,), {}))
        command = (
            *(str(java_executable()), "-cp", ":".join(map(str, class_path))),
            *("kafka.tools.StorageTool", "format", "-t", _fresh_id(), "-c", str(settings)),
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerError(f"cannot format Kafka's storage: {done.stderr or done.stdout}")
        part = kept.with_name(f"{kept.name}.part")
        shutil.copy(logs / "bootstrap.checkpoint", part)
        part.rename(kept)
