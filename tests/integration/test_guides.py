"""The programs of the documents that need a broker, run as printed; only the names are others."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from prometheus_client import REGISTRY, generate_latest

import streamlet as sl
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.runtime.metrics.consumer import ConsumerCollector
from tests.integration.chaos.support import wait_for

pytestmark = pytest.mark.integration

DOCS = Path(__file__).parents[2] / "docs"
TOKEN = "a" * 32
NAMES = re.compile(r'"(orders|flights|arrivals|billing|shop)"')
BLOCK = re.compile(r"^```python(?: title=\"[^\"]+\")? test=\"broker\"\n(.*?)^```$", re.M | re.S)


class Enough(Exception):
    """A program that would go on for ever has shown what it shows."""


class Guides:
    """The programs, with names that no other test of the session uses."""

    def __init__(self, servers: str) -> None:
        self._mark, self._servers = uuid4().hex[:8], servers
        admin = KafkaAdmin(servers)
        admin.create_topics([NewTopic(self.name(one), 1, 1) for one in ("orders", "flights")])
        admin.close()
        producer = Producer({"bootstrap.servers": servers})
        producer.produce(self.name("orders"), struct.pack(">q", 3), b"ann")
        assert producer.flush(300) == 0

    def name(self, printed: str) -> str:
        """The name in the place of a printed one."""
        return f"{printed}-{self._mark}"

    def programs(self, page: str) -> list[str]:
        """The programs of a page that need a broker."""
        found = BLOCK.findall((DOCS / page).read_text("utf-8"))
        assert found
        text = "\0".join(found).replace("localhost:9092", self._servers)
        return re.sub(NAMES, lambda one: f'"{self.name(one[1])}"', text).split("\0")


@pytest.fixture
def guides(bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guides:
    for name, value in {
        "BOOTSTRAP_SERVERS": bootstrap_servers,
        "STATE_DIR": str(tmp_path),
        "HTTP_PORT": "0",
        "HTTP_TOKEN": TOKEN,
        "TOKEN": TOKEN,
    }.items():
        monkeypatch.setenv(f"STREAMLET_{name}", value)
    return Guides(bootstrap_servers)


def test_a_consumer_shows_its_records(guides: Guides) -> None:
    shown: list[Any] = []

    def show(*words: Any) -> None:
        shown.extend(words)
        raise Enough

    (program,) = guides.programs("consumer.md")
    with pytest.raises(Enough):
        exec(program, {"print": show})
    assert shown == [guides.name("orders"), 0, 0, b"ann", struct.pack(">q", 3)]


def test_a_consumers_metrics_are_served(guides: Guides) -> None:
    (program,) = guides.programs("metrics.md")
    names: dict[str, Any] = {}
    try:
        exec(program, names)
        assert b"streamlet_consumer_num_rebalance_total" in generate_latest(REGISTRY)
    finally:
        names["consumer"].close()
        for collector in [*REGISTRY._collector_to_names]:
            if isinstance(collector, ConsumerCollector):
                REGISTRY.unregister(collector)


def test_state_is_read_from_inside_and_from_outside(guides: Guides) -> None:
    here, positions, elsewhere = guides.programs("queries.md")
    names: dict[str, Any] = {}
    exec(here, names)
    app: sl.App = names["app"]
    try:
        exec(positions, names)
        wait_for(lambda: names["counts"].get("ann") == 1, "the order is counted")
        wait_for(lambda: any(one.url for one in app.metadata_for_all()), "it has an address")
        (url,) = {one.url for one in app.metadata_for_all()}
        exec(elsewhere.replace("http://host-7:8080", str(url)), names)
        assert names["counts"].get("ann") == 1
        (outside,) = guides.programs("howto/query-from-outside.md")
        exec(outside.replace('"http://localhost:8080"', f'"{url}", token="{TOKEN}"'), names)
        assert names["counts"].get("ann") == 1
    finally:
        app.stop()
