"""What streamlet writes and reads with a real schema registry, Apicurio, started once.

All that a registry may answer otherwise is in ``tests/unit/registry``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from google.protobuf import descriptor_pb2

import streamlet as sl
from streamlet.broker.registry import fetched
from streamlet.errors import BrokerError, RegistryError, SerdeError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.registry.client import default_registry
from tests.integration.doors import make_certificates
from tests.registry_server import RegistryServer, mutual_tls

pytestmark = pytest.mark.integration


class Shell:
    """Runs ``streamlet registry`` as one user, whose folders are all in a temporary one."""

    def __init__(self, home: Path) -> None:
        folders = {"XDG_STATE_HOME": home / "state", "XDG_DATA_HOME": home / "data", "TMPDIR": home}
        short_lived = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
        paths = {name: str(path) for name, path in folders.items()}
        self.env = {**os.environ, **short_lived, **paths}

    def run(self, *words: str, exit_code: int = 0) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "streamlet", "registry", *words, "--json"],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == exit_code, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def schema_registry(shell: Shell) -> Iterator[str]:
    """The address of a registry, which must run in the end as in the beginning."""
    try:
        fetched()
    except BrokerError as error:
        pytest.skip(f"no schema registry to try with: {error}")
    shell.run("status", exit_code=3)
    started = shell.run("start", "--port", "0")
    try:
        assert started["ready"] is True
        yield started["url"]
        (found,) = shell.run("status")["registries"]
        assert found == started
    finally:
        (stopped,) = shell.run("stop")["stopped"]
    assert stopped["pid"] == started["pid"]
    shell.run("status", exit_code=3)


@dataclass
class Order:
    item: str
    total: int
    note: str | None = None


def test_what_a_registry_says(schema_registry: str) -> None:
    registry = sl.registry.Registry(schema_registry, timeout_ms=60_000)
    with pytest.raises(SerdeError, match="has no schema id 4711"):
        registry.by_id(4711)
    known = sl.registry.avro(Order, registry=registry).of_topic("a", "value")
    value = Order("lamp", 3)
    assert known.decode(known.encode(value)) == value
    older = make_dataclass("Order", [("item", str), ("total", int)])
    raw = sl.registry.avro(older, registry=registry, subject="record").encode(older("cup", 1))
    assert known.decode(raw) == Order("cup", 1)
    missing = sl.registry.avro(Order, registry=registry, register=False)
    with pytest.raises(RegistryError, match="no such schema under the subject b-value"):
        missing.of_topic("b", "value").encode(value)
    with pytest.raises(RegistryError, match="refuses the schema"):
        registry.id_of("a-value", sl.registry.RegistrySchema("AVRO", "{nope"), register=True)
    for serde, one in (
        (sl.registry.json(Order, registry=registry), value),
        (
            sl.registry.protobuf(descriptor_pb2.UninterpretedOption.NamePart, registry=registry),
            descriptor_pb2.UninterpretedOption.NamePart(name_part="x", is_extension=True),
        ),
    ):
        bound: Any = serde.of_topic(type(one).__name__, "value")
        assert bound.decode(bound.encode(one)) == one
        assert bound.decode(bound.encode(one)) == one


def test_a_registry_behind_tls_and_a_login_is_that_of_the_environment(
    schema_registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_certificates(tmp_path)
    login = "Basic bWU6c2VjcmV0"
    with RegistryServer(tls=mutual_tls(tmp_path), wanted=login, behind=schema_registry) as door:
        for name, value in (
            ("URL", door.url),
            ("BASIC_AUTH_USER_INFO", "me:secret"),
            ("CA", str(tmp_path / "ca.pem")),
            ("CERTIFICATE", str(tmp_path / "client.pem")),
            ("KEY", str(tmp_path / "client.key")),
        ):
            monkeypatch.setenv(f"SCHEMA_REGISTRY_{name}", value)
        default_registry.cache_clear()
        try:
            serde = sl.registry.avro(Order).of_topic("secured", "value")
            raw = serde.encode(Order("lamp", 3))
            assert sl.registry.avro(registry=sl.registry.Registry(schema_registry)).decode(raw) == {
                "item": "lamp",
                "total": 3,
                "note": None,
            }
            assert serde.decode(raw) == Order("lamp", 3)
        finally:
            default_registry.cache_clear()
        monkeypatch.setenv("SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO", "me:wrong")
        with pytest.raises(RegistryError, match="check username and password"):
            sl.registry.Registry.from_environment().by_id(1)


def test_a_schema_that_refers_to_another_one_is_read_with_it(schema_registry: str) -> None:
    registry = sl.registry.Registry(schema_registry, timeout_ms=60_000)
    line = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "string"}]}
    registry.id_of("lines", sl.registry.RegistrySchema("AVRO", json.dumps(line)), register=True)
    lines = {"type": "record", "name": "Two", "fields": [{"name": "a", "type": "Line"}]}
    reference = sl.registry.SchemaReference("Line", "lines", 1)
    outer = sl.registry.RegistrySchema("AVRO", json.dumps(lines), (reference,))
    known = registry.id_of("twos", outer, register=True)
    raw = b"\0" + known.to_bytes(4, "big") + b"\2x"
    assert sl.registry.avro(registry=registry).decode(raw) == {"a": {"n": "x"}}


def test_an_application_goes_on_when_the_registry_is_back_and_loses_nothing(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    with RegistryServer() as server:
        registry = sl.registry.Registry(server.url)
        serde = sl.registry.avro(Order, registry=registry, subject="record")
        mark = uuid4().hex[:8]
        admin = KafkaAdmin(bootstrap_servers)
        admin.create_topics([NewTopic(f"{name}-{mark}", 1, 1) for name in ("orders", "large")])
        admin.close()
        producer = Producer({"bootstrap.servers": bootstrap_servers})
        for total in range(3):
            producer.produce(f"orders-{mark}", serde.encode(Order("lamp", total)), b"k")
        assert producer.flush(300) == 0
        fresh = sl.registry.avro(Order, registry=sl.registry.Registry(server.url))
        app = sl.App(
            f"shop-{mark}",
            bootstrap_servers=bootstrap_servers,
            on_error="skip",
            config={"state.dir": str(tmp_path)},
        )
        app.stream(f"orders-{mark}", key=str, value=fresh).to(f"large-{mark}")
        server.bad, server.bad_count = (503, b""), 4  # two times three tries
        found = [result.value for result in app.run(count=3, timeout=300)]
        assert found == [Order("lamp", total) for total in range(3)]
        assert server.bad_count == 0
