"""A Kafka broker's files before its first start: settings and formatted storage.

Formatting is a Java program of its own and costs a start of the virtual machine. What it writes is
one file that depends on Kafka's version only, and one small text with fresh ids; so it is run once
per version, its file is kept in the cache, and the text is written here.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from streamlet.broker.jars import cache_folder, jars, locked
from streamlet.broker.java import java_executable
from streamlet.broker.port import HOST, localhost_is_ipv6_only
from streamlet.errors import BrokerError
from streamlet.own_files import make_own_folder, open_own_file

KAFKA_VERSION = "4.1.1"
#: Name of the set of its jars.
JARS = f"kafka-{KAFKA_VERSION}"
_COORDINATES = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")


#: Set for a broker that is alone, lives for a test or a demo, and must keep records of any age.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # After a kill the controller waits this long before it believes that the broker is a new one.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Written twice a second for other controllers; a third of what an idle broker costs.
    "metadata.max.idle.interval.ms": "0",
    # Event times of years ago are normal here; retention goes by them, so it is off.
    "log.retention.ms": "-1",
    # The default of 128 MiB is taken from a small heap at once.
    "log.cleaner.dedupe.buffer.size": "16777216",
}


def kafka_jars() -> list[Path]:
    """Kafka's jars, fetched when they are not there yet."""
    return jars(JARS, _COORDINATES)


def write_settings(
    file: Path, logs: Path, port: int, controller_port: int, extra: Mapping[str, str]
) -> None:
    """Write the broker's properties, passwords among them; ``extra`` wins over what is set here."""
    clients = f"PLAINTEXT://{HOST}:{port}"
    settings = {
        **_SETTINGS,
        "listeners": f"{clients},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": clients,
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": str(logs),
    }
    if localhost_is_ipv6_only():
        settings["listeners"] += f",IPV6://[::1]:{port}"
        settings["advertised.listeners"] += f",IPV6://[::1]:{port}"
        settings["listener.security.protocol.map"] += ",IPV6:PLAINTEXT"
    settings.update(extra)
    written = open_own_file(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(written, "w") as opened:
        opened.write("".join(f"{key}={value}\n" for key, value in settings.items()))


def format_storage(logs: Path) -> None:
    """Format an empty log folder; one that is formatted already is left as it is.

    Raises:
        OSError: the folder cannot be made, or belongs to another user.
    """
    make_own_folder(logs)
    if (logs / "meta.properties").exists():
        return
    shutil.copy(_bootstrap_records(), logs / "bootstrap.checkpoint")
    ids = f"version=1\nnode.id=1\ncluster.id={_fresh_id()}\ndirectory.id={_fresh_id()}\n"
    (logs / "meta.properties").write_text(ids)


def _fresh_id() -> str:
    """A uuid in Kafka's spelling: 22 letters of base64url, the first of them no dash."""
    # With its highest bit cleared the first byte cannot become the letter that is a dash.
    raw = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([raw[0] & 0x7F]) + raw[1:]).decode().rstrip("=")


def _bootstrap_records() -> Path:
    """The file of feature levels that Kafka's own formatter writes, made once per version."""
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
        write_settings(settings, logs, port=1, controller_port=2, extra={})
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
