"""Nothing waits for a client that does not end."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from streamlet.kafka import admin, farewell, sink, source
from streamlet.kafka.admin import KafkaAdmin
from streamlet.kafka.farewell import HeldClient, let_go
from streamlet.kafka.ports import OutgoingRecords
from streamlet.kafka.sink import KafkaSink
from streamlet.kafka.source import KafkaSource
from streamlet.types import TopicPartition


class Endless:
    """Stands for a client of librdkafka that ends when it is told so, and else never."""

    may_end = threading.Event()
    ended_on: ClassVar[list[threading.Thread]] = []

    def __init__(self, config: Any = None) -> None: ...

    def __del__(self) -> None:
        self._end()

    def _end(self) -> None:
        self.ended_on.append(threading.current_thread())
        self.may_end.wait()

    def __len__(self) -> int:
        return 0

    def close(self) -> None:
        """As a consumer ends."""
        self._end()

    def purge(self, *, blocking: bool) -> None:
        """A purge that waits for threads of the client may take for ever, too."""
        assert not blocking

    def produce(self, *record: object) -> None: ...

    def poll(self, timeout: float) -> int:
        return 0

    def list_topics(self, *topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={}, brokers={})

    def incremental_assign(self, partitions: Any) -> None: ...


@pytest.fixture(autouse=True)
def endless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    Endless.may_end.clear()
    monkeypatch.setattr(farewell, "WAIT_S", 0.01)
    for module, name in ((sink, "Producer"), (source, "Consumer"), (admin, "AdminClient")):
        monkeypatch.setattr(module, name, Endless)
    yield
    Endless.may_end.set()


def closed_source() -> None:
    reads = KafkaSource("localhost:1")
    reads.assign({TopicPartition("in", 0): 0})
    reads.close()


def dropped_admin() -> None:
    KafkaAdmin("localhost:1")


def replaced_admin() -> None:
    asks = KafkaAdmin("localhost:1")
    asks._loss._said = True
    asks.topics()


def closed_sink() -> None:
    KafkaSink("localhost:1").close()


def reset_sink() -> None:
    writes = KafkaSink("localhost:1")
    writes.reset()
    writes.send(OutgoingRecords("out", [b"k"], [b"v"]))
    writes.close()
    writes.close()
    writes.fence()


@pytest.mark.parametrize(
    "freed",
    [closed_source, dropped_admin, replaced_admin, closed_sink, reset_sink],
)
def test_what_frees_a_client_does_not_wait_for_its_end(freed: Callable[[], None]) -> None:
    Endless.ended_on.clear()
    freed()
    assert Endless.ended_on
    assert {one.name for one in Endless.ended_on} == {"streamlet-farewell"}


def test_a_client_that_does_not_end_well_is_free_all_the_same(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(farewell, "WAIT_S", 60.0)
    clients = [SimpleNamespace()]
    let_go(clients, lambda client: client.close())
    assert "did not end well" in caplog.text
    assert not clients


def test_where_no_thread_can_begin_a_client_ends_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ended: list[str] = []
    clients = ["one", "two"]
    monkeypatch.setattr(threading.Thread, "start", refused)
    let_go(clients, ended.append)
    assert (clients, ended) == ([], ["two", "one"])


def test_an_owner_that_the_collector_finds_starts_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may find one amid the start of a thread, whose locks are held then."""
    monkeypatch.setattr(farewell, "WAIT_S", 60.0)
    Endless.may_end.set()
    Endless.ended_on.clear()

    class Owner:
        """Has itself, so that only the collector ends it."""

        def __init__(self) -> None:
            self.itself = self
            self.held: HeldClient[Endless] = HeldClient(self)
            self.held.take(Endless())

    Owner()

    def refused(thread: threading.Thread) -> None:
        pytest.fail("a thread was started")

    monkeypatch.setattr(threading.Thread, "start", refused)
    gc.collect()
    assert [one.name for one in Endless.ended_on] == ["streamlet-farewell"]


def test_one_client_is_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farewell, "WAIT_S", 60.0)
    Endless.may_end.set()
    Endless.ended_on.clear()
    held: HeldClient[Endless] = HeldClient()
    for count in range(3):
        held.take(Endless())
        assert len(Endless.ended_on) == count
    held.free()
    assert len(Endless.ended_on) == 3
