"""Windows over ten retentions of event time: neither stores nor changelogs grow with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import attrs
import pytest
from confluent_kafka import Producer

import streamlet as sl
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.serdes.windowed import Windowed
from streamlet.state.directory import StateDirectory
from streamlet.state.task_state import TaskState
from streamlet.tasks.opening import TaskOpener
from streamlet.types import TaskId, TopicPartition
from tests.integration.chaos.support import wait_for

pytestmark = pytest.mark.integration

RETENTIONS = 10
RETENTION_MS = 10_000
#: Each key once a second, in a window of its own.
KEYS = 300
RECORDS = KEYS * RETENTION_MS // 1_000
STORES = ("tumbling", "hopping", "sliding", "sessions")
Windows = dict[str, dict[Windowed[str], int]]


#: Records of each changelog: between its start and its end, and ever written.
Lengths = dict[str, tuple[int, int]]


@attrs.define
class Bench:
    """An application with a store of each kind of windows, over a topic with one partition."""

    servers: str
    root: Path
    name: str = attrs.field(factory=lambda: f"windows-{uuid4().hex[:8]}")
    now_ms: int = 0
    sent: int = 0
    seen: int = 0

    @property
    def input(self) -> TopicPartition:
        return TopicPartition(f"{self.name}-in", 0)

    def changelog(self, store: str) -> TopicPartition:
        return TopicPartition(f"{self.name}-{store}-changelog", 0)

    def app(self, host: str) -> sl.App:
        folder = self.root / host
        config = {
            "state.dir": str(folder),
            "commit.interval.ms": 100,
            "repartition.purge.interval.ms": 100,
        }
        app = sl.App(self.name, bootstrap_servers=self.servers, config=config)
        stream = app.stream(self.input.topic, key=str, value=str)
        stream.foreach(self._see)
        grouped = stream.group_by_key()
        kinds = (
            sl.tumbling("1s"),
            sl.hopping("2s", "1s"),
            sl.sliding("500ms"),
            sl.session("400ms"),
        )
        for windows, store in zip(kinds, STORES, strict=True):
            kept = sl.Materialized(store, retention=RETENTION_MS)
            grouped.windowed_by(windows).count(store=kept)
        return app

    def _see(self, key: str, value: str) -> None:
        self.seen += 1

    def produce(self) -> None:
        """The records of one retention."""
        producer = Producer({"bootstrap.servers": self.servers})
        for number in range(RECORDS):
            at_ms = self.now_ms + number * RETENTION_MS // RECORDS
            producer.produce(self.input.topic, b"x", f"k{number % KEYS}", timestamp=at_ms + 1)
        assert producer.flush(300) == 0
        self.now_ms += RETENTION_MS
        self.sent += RECORDS

    def lengths(self, admin: KafkaAdmin) -> Lengths:
        logs = {store: self.changelog(store) for store in STORES}
        starts, ends = admin.start_offsets([*logs.values()]), admin.end_offsets([*logs.values()])
        return {store: (ends[tp] - starts[tp], ends[tp]) for store, tp in logs.items()}

    def rows(self, host: str) -> dict[str, int]:
        """The number of rows that the stores of a host have on disk."""
        with self._opened(host) as state:
            return {
                name: sum(1 for _ in store.commits.backing.scan(None, None))
                for name, store in state.stores.items()
            }

    def windows(self, host: str) -> Windows:
        """What the stores of a host show."""
        with self._opened(host) as state:
            return {name: dict(store.range()) for name, store in state.stores.items()}

    @contextmanager
    def _opened(self, host: str) -> Iterator[TaskState]:
        directory = StateDirectory(self.root / host, self.name)
        opened = TaskOpener(self.app(host).topology(), directory, 1 << 20)(TaskId(0, 0))
        try:
            yield opened.state
        finally:
            opened.close()


@pytest.fixture
def bench(bootstrap_servers: str, admin: KafkaAdmin, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(bootstrap_servers, tmp_path)
    admin.create_topics([NewTopic(bench.input.topic, 1, 1)])
    yield bench
    admin.delete_topics([one for one in admin.topics() if one.startswith(bench.name)])


def running(app: sl.App, work: Callable[[], None]) -> None:
    """Work while an application runs, and close it."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            app.run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        work()
    finally:
        app.close()
        thread.join(300)
    assert not thread.is_alive()
    assert errors == []


def test_stores_and_changelogs_are_flat_over_ten_retentions(
    bench: Bench, admin: KafkaAdmin
) -> None:
    """And what is left of the changelogs restores all of it."""
    measured: list[Lengths] = []

    def short() -> bool:
        """Tell if each changelog is as long as what is written in three retentions at most."""
        measured[-1:] = [bench.lengths(admin)]
        written = 3.2 / len(measured)
        return all(
            end >= 0.9 * bench.sent and length <= written * end + 10
            for length, end in measured[-1].values()
        )

    def work() -> None:
        for _ in range(RETENTIONS):
            bench.produce()
            measured.append({})
            wait_for(short, lambda: f"{bench.seen} of {bench.sent}: {measured}")

    running(bench.app("one"), work)
    kept, rows = bench.windows("one"), bench.rows("one")
    assert all(len(windows) > 0.9 * RECORDS for windows in kept.values())
    assert all(count < 2.5 * RECORDS for count in rows.values()), rows

    bench.seen = 0
    restored = bench.app("two")
    ready = threading.Event()
    restored.set_state_listener(lambda new, old: new == "RUNNING" and ready.set())
    running(restored, lambda: wait_for(ready.is_set, lambda: "it restores"))
    assert bench.seen == 0
    assert bench.windows("two") == kept
    print(*(f"after {n} retentions: {one}" for n, one in enumerate(measured, 1)), rows, sep="\n")
