"""Headers of records, from the input through repartition topics to outputs and dead letters."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

import streamlet as sl
from streamlet.kafka.client import KafkaAdmin, KafkaSource
from streamlet.kafka.ports import Headers, NewTopic
from streamlet.types import TopicPartition

pytestmark = pytest.mark.integration

ONE: Headers = [("trace", b"one")]
MORE: Headers = [("trace", b"one"), ("empty", b""), ("null", None), ("trace", b"two")]


@pytest.fixture
def name(bootstrap_servers: str) -> Iterator[str]:
    """An application's, with its topics ``NAME-in``, ``NAME-out`` and ``NAME-letters``."""
    admin = KafkaAdmin(bootstrap_servers)
    name = f"headers-{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(f"{name}-{end}", 1, 1) for end in ("in", "out", "letters")])
    yield name
    admin.delete_topics([one for one in admin.topics() if one.startswith(name)])
    admin.close()


def write(bootstrap_servers: str, topic: str, records: list[tuple[str, bytes, Headers]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for key, value, headers in records:
        producer.produce(topic, value, key, headers=list(headers))
    assert producer.flush(300) == 0


def read(
    bootstrap_servers: str, topic: str, count: int
) -> list[tuple[bytes | None, Headers | None]]:
    """Values and headers of a topic's records, once there are ``count``."""
    source = KafkaSource(bootstrap_servers, headers=True)
    source.assign({TopicPartition(topic, 0): 0})
    found: list[tuple[bytes | None, Headers | None]] = []
    deadline = time.monotonic() + 300
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        for batch in source.poll(1_000, 100):
            found += zip(batch.values, batch.headers or [None] * len(batch), strict=True)
    source.close()
    return found


def test_headers_go_through_a_repartition_topic_and_a_count_into_the_output(
    bootstrap_servers: str, name: str, tmp_path: Path
) -> None:
    records: list[tuple[str, bytes, Headers]] = [
        ("k", b"a", []),
        ("k", b"a", ONE),
        ("k", b"a", MORE),
        ("k", b"a", []),
    ]
    write(bootstrap_servers, f"{name}-in", records)
    app = sl.App(name, bootstrap_servers=bootstrap_servers, config={"state.dir": str(tmp_path)})
    words = app.stream(f"{name}-in", key=str, value=str).map_values(str.upper)
    counts = words.group_by(lambda k, v: v, key=str).count(store="n")
    counts.to_stream().map_values(str, value=str).to(f"{name}-out")
    assert len(app.run(count=4, timeout=300)) == 4
    assert read(bootstrap_servers, f"{name}-out", 4) == [
        (b"1", None),
        (b"2", ONE),
        (b"3", MORE),
        (b"4", None),
    ]


def test_a_dead_letter_has_the_headers_of_its_record_before_the_reason(
    bootstrap_servers: str, name: str, tmp_path: Path
) -> None:
    records: list[tuple[str, bytes, Headers]] = [("k", b"1", ONE), ("k", b"bad", MORE)]
    write(bootstrap_servers, f"{name}-in", records)
    app = sl.App(
        name,
        bootstrap_servers=bootstrap_servers,
        config={"state.dir": str(tmp_path)},
        on_error=("dead_letter", f"{name}-letters"),
    )
    app.stream(f"{name}-in", key=str, value=str).map_values(int, value=int).to(f"{name}-out")
    assert len(app.run(count=1, timeout=300)) == 1
    [(value, headers)] = read(bootstrap_servers, f"{name}-letters", 1)
    assert value == b"bad"
    assert headers is not None
    assert list(headers[: len(MORE)]) == MORE
    assert dict(headers)["streamlet.error"] == b"ValueError"
    assert read(bootstrap_servers, f"{name}-out", 1)[0][1] == ONE


def header(trace: int) -> Headers:
    """Those of a record that belongs to this trace."""
    return [("traceparent", f"00-{trace:032x}-{7:016x}-01".encode())]


class Copies(sl.StandbyUpdateListener):
    """Notes what becomes of the copies that a worker reads."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_update_start(self, partition: TopicPartition, store: str, start: int) -> None:
        self.told.append("start")

    def on_update_suspended(
        self, partition: TopicPartition, store: str, offset: int, end: int, reason: str
    ) -> None:
        self.told.append(reason)


def closing(name: str, servers: str, folder: Path, provider: Any) -> sl.App:
    """Counts words in windows that close; by ``suppress``, and by results that are final."""
    config = {"state.dir": str(folder), "commit.interval.ms": 50, "tracing.rows": 10}
    app = sl.App(name, bootstrap_servers=servers, config=config, tracer_provider=provider)
    words = app.stream(f"{name}-in", key=str, value=str).group_by(lambda k, v: v, key=str)
    windows = sl.tumbling("10ms", grace=0)
    waiting = words.windowed_by(windows).count(store="n").suppress(sl.until_window_closes())
    final = words.windowed_by(windows, emit="final").count(store="final")
    closed = waiting.to_stream().merge(final.to_stream())
    closed.map(lambda window, count: (window.key, str(count)), key=str, value=str).to(f"{name}-out")
    return app


def test_a_trace_goes_on_through_state_that_is_handed_over(
    bootstrap_servers: str, name: str, tmp_path: Path
) -> None:
    """A second instance learns the task, the first leaves; what was kept back has its trace."""
    pytest.importorskip("opentelemetry.sdk.trace", reason="needs the extra otel")
    from tests.unit.tracing.spans import Spans

    both = Spans(), Spans()

    def names(number: int) -> set[str]:
        return {span.name for span in both[number].seen()}

    first, second = (
        closing(name, bootstrap_servers, tmp_path / str(at), one.provider)
        for at, one in enumerate(both)
    )
    second.set_standby_update_listener(copies := Copies())
    threads = [
        threading.Thread(target=app.run, kwargs={"name": f"i{at}", "timeout": 300})
        for at, app in enumerate((first, second))
    ]
    deadline = time.monotonic() + 300
    threads[0].start()
    try:
        write(bootstrap_servers, f"{name}-in", [("k", b"a", header(5))])
        while not any("repartition" in one for one in names(0)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        threads[1].start()
        while len(first.metadata()) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        first.drain(timeout=200)
        write(bootstrap_servers, f"{name}-in", [("k", b"b", header(6))])
        out = read(bootstrap_servers, f"{name}-out", 2)
    finally:
        for app, thread in zip((first, second), threads, strict=True):
            app.close()
            if thread.ident is not None:
                thread.join(300)
    for value, headers in out:
        assert value == b"1"
        ((_, parent),) = headers or ()
        assert parent is not None
        assert int(parent[3:35], 16) == 5
    assert {"rebalance", "activate task", "commit", "release task"} <= names(0)
    assert {"rebalance", "activate task", "commit"} <= names(1)
    took = [one for one in both[1].seen() if one.name == "activate task"]
    assert any(one.attributes["streamlet.handover"] for one in took)
    assert copies.told[0] == "start"
    assert "promoted" in copies.told
