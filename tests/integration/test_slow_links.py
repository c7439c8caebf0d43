"""Applications that write more than a quota or a link lets through slow down, and drop nothing."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from streamlet.app import App
from streamlet.config import Settings
from streamlet.kafka.client import KafkaAdmin, KafkaSource
from streamlet.kafka.ports import NewTopic
from streamlet.types import TopicPartition
from tests.integration.chaos.support import wait_for
from tests.integration.commits import assert_all_committed
from tests.integration.slow import narrow, quota

pytestmark = pytest.mark.integration

KEYS, VALUE = 40, b"x" * 1_000


@pytest.mark.parametrize(("slow", "count"), [(quota, 3_600), (narrow, 1_600)])
def test_a_slow_link_slows_an_application_down_and_drops_no_task(
    bootstrap_servers: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    slow: Callable[[str, str], contextlib.AbstractContextManager[str]],
    count: int,
) -> None:
    """A queue of all there is to write would take longer than a session.

    Half of the tasks move meanwhile: what is queued is delivered before.
    """
    mark = uuid4().hex[:8]
    source, out, numbers = f"in-{mark}", f"out-{mark}", f"numbers-{mark}"
    KafkaAdmin(bootstrap_servers).create_topics([NewTopic(t, 2, 1) for t in (source, out, numbers)])
    give(bootstrap_servers, source, count)
    caplog.set_level(logging.INFO)

    def app() -> App:
        made = App(f"slow-{mark}")
        records = made.stream(source, key=str, value=bytes)
        records.to(out)
        records.group_by_key().count(store="n").to_stream().to(numbers)
        return made

    with slow(bootstrap_servers, mark) as servers, running(app(), servers, tmp_path / "1", mark):
        wait_for(lambda: written(bootstrap_servers, out) >= count // 4, "some is written", 120)
        with running(app(), servers, tmp_path / "2", mark):
            wait_for(lambda: "release 0_" in caplog.text, "a task is to move", 120)
            wait_for(lambda: written(bootstrap_servers, out) >= count, "all is written", 120)
    assert_all_committed(bootstrap_servers, f"slow-{mark}")
    assert "lost all tasks" not in caplog.text
    assert written(bootstrap_servers, out) == count
    assert counted(bootstrap_servers, numbers) == {f"k{n}": count // KEYS for n in range(KEYS)}


def give(servers: str, topic: str, count: int) -> None:
    """Write so many records, of all keys in turn."""
    producer = Producer({"bootstrap.servers": servers})
    for number in range(count):
        producer.produce(topic, VALUE, f"k{number % KEYS}".encode())
    assert producer.flush(300) == 0


@contextlib.contextmanager
def running(app: App, servers: str, folder: Path, client: str) -> Iterator[None]:
    """An instance while the block lasts; it must end well."""
    settings = Settings.load(
        {
            "bootstrap.servers": servers,
            "state.dir": str(folder),
            "session.timeout.ms": "6000",
            "producer.client.id": client,
        }
    )
    failures: list[BaseException] = []

    def run() -> None:
        try:
            app.run(timeout=300, settings=settings)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        app.close()
        thread.join(60)
    assert not thread.is_alive()
    assert not failures


def written(servers: str, topic: str) -> int:
    """Records in both partitions of a topic."""
    admin = KafkaAdmin(servers)
    return sum(admin.end_offsets([TopicPartition(topic, 0), TopicPartition(topic, 1)]).values())


def counted(servers: str, topic: str) -> dict[str, int]:
    """The highest number of each key in a topic."""
    left = written(servers, topic)
    found: Counter[str] = Counter()
    source = KafkaSource(servers)
    try:
        source.assign({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0})
        while left:
            for batch in source.poll(10_000, 100):
                left -= len(batch)
                for key, value in zip(batch.keys, batch.values, strict=True):
                    assert key is not None
                    assert value is not None
                    found[key.decode()] = max(found[key.decode()], int.from_bytes(value, "big"))
    finally:
        source.close()
    return dict(found)
