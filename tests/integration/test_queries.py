"""Queries of the stores of running instances, against a real broker."""

from __future__ import annotations

import threading
from pathlib import Path
from uuid import uuid4

import attrs
import pytest
from confluent_kafka import Producer

import streamlet as sl
from streamlet.app import App
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.state.query_errors import InvalidStateStoreError, StreamsNotStartedError

pytestmark = pytest.mark.integration

KEYS = [f"k{number}" for number in range(12)]


def counting(servers: str, topic: str, folder: Path, name: str) -> App:
    """An application that counts the records of keys."""
    config = {"state.dir": str(folder), "commit.interval.ms": 50}
    app = App(name, bootstrap_servers=servers, config=config, http_port=0)
    app.stream(topic, key=str, value=str).group_by_key().count(store="counts")
    return app


class Running:
    """A run on a thread of its own."""

    def __init__(self, app: App, instance: str) -> None:
        self.app = app
        self._thread = threading.Thread(target=app.run, kwargs={"name": instance, "timeout": 400})
        self._thread.start()

    def close(self) -> None:
        self.app.close()
        self._thread.join(300)


@attrs.define
class HttpReader:
    """Reads keys over HTTP on each instance that reports an address, and passes positions on."""

    seen: dict[str, tuple[int, sl.Position]] = attrs.field(factory=dict)
    #: The keys that each instance has answered since ``until`` began.
    answered: dict[str, set[str]] = attrs.field(factory=dict)

    def read(self, apps: list[App]) -> None:
        """Ask each instance for each key; most of them are another one's."""
        for url in addresses(apps):
            for key in KEYS:
                self._read(url, key)

    def _read(self, url: str, key: str) -> None:
        count, position = self.seen.get(key, (0, sl.Position()))
        kind = sl.KeyValueStore[str, int]
        store = sl.connect(url).store("counts", kind, at_least=position, timeout=9)
        try:
            value = store.get(key)
        except InvalidStateStoreError as error:
            if error.passing:
                return
            raise
        assert (value or 0) >= count, (key, url, value, count, position)
        self.seen[key] = value or 0, store.position
        if value is not None:
            self.answered.setdefault(url, set()).add(key)


def addresses(apps: list[App]) -> set[str]:
    """The addresses of the instances that run, as they report them."""
    found = set()
    for app in apps:
        try:
            found |= {one.url for one in app.metadata_for_all() if one.url is not None}
        except StreamsNotStartedError:
            continue
    return found


@attrs.define
class Reader:
    """Reads keys on instances in turn, and passes the position of each answer on."""

    apps: list[App]
    seen: dict[str, tuple[int, sl.Position]] = attrs.field(factory=dict)
    #: The keys that each instance has answered since ``until`` began.
    answered: dict[int, set[str]] = attrs.field(factory=dict)
    http: HttpReader = attrs.field(factory=HttpReader)

    def read(self, place: int, key: str) -> None:
        """Ask one instance for a key; it may have the task or not."""
        count, position = self.seen.get(key, (0, sl.Position()))
        bound = sl.PositionBound.at(position)
        request = sl.StateQueryRequest("counts", sl.KeyQuery(key), bound, timeout=0)
        try:
            found = self.apps[place].query(request)
        except InvalidStateStoreError:
            return
        value = found.only_partition_result.result or 0
        assert value >= count, (key, place, found, self.seen[key])
        self.seen[key] = value, found.position.merged(position)
        self.answered[place].add(key)

    def until(self, places: set[int]) -> None:
        """Read until each of these instances has answered, and over HTTP each of them each key."""
        self.answered = {place: set() for place in range(len(self.apps))}
        self.http.answered = {}
        while (
            not all(self.answered[place] for place in places)
            or len(set().union(*self.answered.values())) < len(KEYS)
            or not all(count for count, _ in self.seen.values())
            or [*map(len, self.http.answered.values())].count(len(KEYS)) < len(places)
        ):
            self.http.read(self.apps)
            for key in KEYS:
                for place in range(len(self.apps)):
                    self.read(place, key)


@attrs.define
class Writer:
    """Writes each key again and again, on a thread of its own."""

    servers: str
    topic: str
    over: threading.Event = attrs.field(factory=threading.Event)

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        while not self.over.is_set():
            for key in KEYS:
                producer.produce(self.topic, b"", key.encode())
            producer.flush(60)


def test_counts_of_a_key_never_go_back_for_a_reader_that_passes_its_position_on(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """Its task moves between two instances and back; the writer places keys as librdkafka does."""
    mark = uuid4().hex[:8]
    topic, name = f"in-{mark}", f"counts-{mark}"
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(topic, 3, 1)])
    admin.close()
    apps = [counting(bootstrap_servers, topic, tmp_path / one, name) for one in "ab"]
    with pytest.raises(StreamsNotStartedError):
        apps[0].store("counts").get("k0")
    reader, writer = Reader(apps), Writer(bootstrap_servers, topic)
    writing = threading.Thread(target=writer.run)
    writing.start()
    first = Running(apps[0], "a")
    try:
        reader.until({0})
        second = Running(apps[1], "b")
        try:
            reader.until({0, 1})
        finally:
            second.close()
        reader.until({0})
        stores = apps[0].store("counts", sl.KeyValueStore[str, int], timeout=60)
        assert {key for key, _ in stores.all()} == set(KEYS)
        newest = apps[0].store("counts", sl.KeyValueStore[str, int], newest=True, timeout=60)
        assert all((newest.get(key) or 0) >= count for key, (count, _) in reader.seen.items())
    finally:
        writer.over.set()
        writing.join()
        first.close()
