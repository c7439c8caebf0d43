"""Topics that others write in transactions: which records count, positions, lag and status."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as RawPartition

import streamlet as sl
from streamlet.coordinator.messages import OffsetCommit
from streamlet.kafka.client import KafkaAdmin, TransactionalSink, source_type
from streamlet.kafka.native.choice import ClientName
from streamlet.kafka.ports import NewTopic, OutgoingRecords
from streamlet.testing import FaultProxy
from streamlet.types import TopicPartition
from tests.integration.chaos.support import wait_for
from tests.integration.chaos.topics import read_all
from tests.kafka_clients import EACH_CLIENT

pytestmark = pytest.mark.integration


@pytest.fixture
def name(bootstrap_servers: str) -> Iterator[str]:
    name = f"txn-{uuid4().hex[:8]}"
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(f"{name}-{one}", 1, 1) for one in ("in", "rates", "out")])
    yield name
    admin.delete_topics([one for one in admin.topics() if one.startswith(name)])
    admin.close()


class Writer:
    """A producer with transactions."""

    def __init__(self, servers: str, name: str) -> None:
        self.producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
        self.producer.init_transactions()

    def write(self, topic: str, count: int, end: str = "commit", value: bytes = b"v") -> None:
        """One transaction; ``end`` is commit, abort or "" to leave it open."""
        self.producer.begin_transaction()
        for _ in range(count):
            self.producer.produce(topic, value, b"k")
        self.producer.flush()
        if end:
            getattr(self.producer, f"{end}_transaction")()


def counting(servers: str, name: str, state: Path, isolation: str) -> sl.App:
    config: dict[str, Any] = {
        **{"state.dir": str(state), "commit.interval.ms": 200, "session.timeout.ms": 6000},
        "consumer.isolation.level": isolation,
    }
    app = sl.App(name, bootstrap_servers=servers, config=config)
    rates = app.global_table(f"{name}-rates", key=str, value=str)
    records = app.stream(f"{name}-in", key=str, value=str)
    priced = records.left_join(rates, lambda v, rate: rate or v, on=lambda k, v: k)
    priced.group_by_key().count(store="n").to_stream().to(f"{name}-out")
    return app


def committed(servers: str, name: str) -> int:
    """The group's position in the input."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": name})
    try:
        (found,) = consumer.committed([RawPartition(f"{name}-in", 0)], timeout=60)
        return int(found.offset)
    finally:
        consumer.close()


@pytest.mark.parametrize(("isolation", "count"), [("read_committed", 40), ("read_uncommitted", 60)])
def test_aborted_records_count_only_where_they_are_asked_for(
    bootstrap_servers: str, name: str, tmp_path: Path, isolation: str, count: int
) -> None:
    """Markers and aborted records at the end are no lag: positions go on behind them."""
    writer = Writer(bootstrap_servers, name)
    writer.write(f"{name}-rates", 1)
    for end in ("commit", "commit", "abort"):
        writer.write(f"{name}-in", 20, end)
    app = counting(bootstrap_servers, name, tmp_path, isolation)
    results = app.run(count=count, timeout=60)
    assert [result.value for result in results][-1] == count
    thread = threading.Thread(target=app.run, kwargs={"name": "one"})
    thread.start()
    try:
        end = 63  # three markers
        wait_for(lambda: committed(bootstrap_servers, name) == end, "the position is at the end")
    finally:
        app.close()
        thread.join()


@EACH_CLIENT
def test_ends_are_those_of_what_can_be_read(
    bootstrap_servers: str, name: str, client: ClientName
) -> None:
    writer = Writer(bootstrap_servers, name)
    writer.write(f"{name}-in", 3)
    writer.write(f"{name}-in", 5, end="")
    at = TopicPartition(f"{name}-in", 0)
    for isolation, end in ((True, 4), (False, 9)):
        admin = KafkaAdmin(bootstrap_servers, read_committed=isolation)
        assert (admin.readable_ends([at])[at], admin.end_offsets([at])[at]) == (end, 9)
        assert admin.readable_ends([at], read_committed=not isolation) == {at: 13 - end}
        admin.close()
    source = source_type(client, {})(bootstrap_servers, isolation="read_committed")
    source.assign({at: 0})
    wait_for(lambda: [source.poll(10, 100), source.held_from(at)][1] == 4, "what is held is known")
    assert source.known_end(at) == 4
    writer.producer.commit_transaction()
    wait_for(lambda: [source.poll(10, 100), source.held_from(at)][1] is None, "nothing is held")
    assert (source.known_end(at), source.positions([at])[at]) == (10, 10)
    source.close()


def test_an_end_that_the_client_sent_twice_ends_no_later_transaction(
    bootstrap_servers: str, name: str
) -> None:
    """It does so by itself where an answer is missing, and reports the success of the second."""
    topic, offsets = f"{name}-out", {TopicPartition(f"{name}-in", 0): (1, "")}
    with FaultProxy(bootstrap_servers) as proxy:
        config = {"client.id": name, "socket.timeout.ms": 2_000}
        sink = TransactionalSink(name, 60_000, proxy.bootstrap_servers, config)
        first = proxy.hold("EndTxn")
        sink.send(OutgoingRecords(topic, [b"k"], [(1).to_bytes(8, "big")], partitions=0))
        sink.seal(offsets)
        assert sink.commit(OffsetCommit(name, -1, "", None, offsets), 60_000) == 0
        assert first.happened
        sink.send(OutgoingRecords(topic, [b"k"], [(2).to_bytes(8, "big")], partitions=0))
        sink.flush(60_000)
        first.release()
        first.wait(ended=True)
        sink.reset()  # the second transaction is given up
        sink.close()
    assert [record.number for record in read_all(bootstrap_servers, topic, [0])] == [1]
