"""Both clients read the same of a real broker: all that columns hold, and what is no record."""

from __future__ import annotations

import struct
import time
from uuid import uuid4

import attrs
import pytest
from confluent_kafka import Producer

from streamlet.config import Settings
from streamlet.coordinator.group_client import group_client
from streamlet.coordinator.messages import (
    Committed,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchAnswer,
)
from streamlet.errors import BrokerError
from streamlet.kafka.client import KafkaAdmin, source_type, transactional_type
from streamlet.kafka.native.choice import ClientName
from streamlet.kafka.ports import NewTopic, OutgoingRecords, PartitionBatch
from streamlet.testing import FaultProxy, ProxiedRequest
from streamlet.testing.faults.refusals import refusal
from streamlet.types import TopicPartition
from tests.kafka_clients import NATIVE_ONLY

pytestmark = [pytest.mark.integration, NATIVE_ONLY]

CLIENTS: tuple[ClientName, ...] = ("python", "native")


@pytest.fixture
def topic(bootstrap_servers: str) -> str:
    """Three partitions: records in transactions with gaps, headers of all kinds, and short ones."""
    name = f"columns-{uuid4().hex[:8]}"
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(name, 3, 1)])
    admin.close()
    writer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": name})
    writer.init_transactions()
    for end in ("commit", "abort", "commit"):
        writer.begin_transaction()
        for number in range(40):
            writer.produce(name, b"%d" % number, b"k", partition=0, timestamp=1 + number)
        assert writer.flush(300) == 0  # else nothing of it may be there when it is aborted
        getattr(writer, f"{end}_transaction")()
    plain = Producer({"bootstrap.servers": bootstrap_servers})
    plain.produce(name, None, None, partition=1, timestamp=7)
    plain.produce(name, b"", b"", partition=1, timestamp=2**40)
    plain.produce(name, b"v", b"k", partition=1, headers=[("a", b"1"), ("a", None), ("é", b"")])
    plain.produce(name, b"x" * 300_000, b"k", partition=1)
    for number in range(500):
        plain.produce(name, b"%d" % number, None, partition=2, timestamp=5)
    assert plain.flush(300) == 0
    return name


def read(
    servers: str, topic: str, client: ClientName, *, headers: bool, idle_ms: int
) -> dict[int, PartitionBatch]:
    """All that is read of each partition, of the last from its second record on."""
    make = source_type(client, {})
    source = make(servers, headers=headers, isolation="read_committed")
    ends = {
        TopicPartition(topic, 0): 123,
        TopicPartition(topic, 1): 4,
        TopicPartition(topic, 2): 500,
    }
    source.assign({tp: tp.partition // 2 for tp in ends})
    source.pause(list(ends))
    source.resume(list(ends))
    whole: dict[int, list[PartitionBatch]] = {}
    deadline = time.monotonic() + 300
    while source.positions(list(ends)) != ends:
        assert time.monotonic() < deadline, source.positions(list(ends))
        batches = source.poll(100, 20, idle_ms)
        assert len({batch.partition for batch in batches}) == len(batches)
        for batch in batches:
            whole.setdefault(batch.partition, []).append(batch)
    assert all(source.known_end(tp) == end for tp, end in ends.items())
    source.unassign(list(ends))
    source.close()
    return {partition: joined(batches) for partition, batches in whole.items()}


def joined(batches: list[PartitionBatch]) -> PartitionBatch:
    """One batch; a range of offsets is told from a list of them."""
    for batch in batches:
        gap_free = batch.offsets[-1] - batch.offsets[0] + 1 == len(batch)
        assert isinstance(batch.offsets, range) is gap_free
    heads = [(batch.headers or [None] * len(batch)) for batch in batches]
    return attrs.evolve(
        batches[0],
        offsets=[one for batch in batches for one in batch.offsets],
        keys=[one for batch in batches for one in batch.keys],
        values=[one for batch in batches for one in batch.values],
        timestamps=[one for batch in batches for one in batch.timestamps],
        headers=[one for head in heads for one in head],
    )


@pytest.mark.parametrize(("headers", "idle_ms"), [(True, 0), (False, 200)])
def test_both_clients_read_the_same(
    bootstrap_servers: str, topic: str, headers: bool, idle_ms: int
) -> None:
    python, own = (
        read(bootstrap_servers, topic, client, headers=headers, idle_ms=idle_ms)
        for client in CLIENTS
    )
    assert own == python
    assert (len(own[0]), own[0].offsets[39:41]) == (80, [39, 82])
    assert own[1].keys[:3] == [None, b"", b"k"]
    assert (own[1].headers or [])[2] == (
        [("a", b"1"), ("a", None), ("é", b"")] if headers else None
    )
    assert own[2].offsets == [*range(1, 500)]


def batch_of(rest: bytes, attributes: int) -> bytes:
    """A batch of three records whose header is right, and what is behind it."""
    fields = 0, 2, 0, attributes, 2, 1, 1, -1, -1, -1, 3
    body = struct.pack(">ibIhiqqqhii", *fields) + rest
    return struct.pack(">qi", 0, len(body)) + body


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (batch_of(b"no gzip at all", attributes=1), ["_BAD_COMPRESSION"]),
        (batch_of(b"\xff" * 200, attributes=0), []),
    ],
    ids=["packed", "plain"],
)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_damaged_batch_costs_no_record_and_is_told_where_librdkafka_tells_it(
    bootstrap_servers: str, topic: str, client: ClientName, damaged: bytes, said: list[str]
) -> None:
    def answer(request: ProxiedRequest) -> bytes:
        made = request.answer(refusal(request, 0) or b"")
        for part in (part for one in made.responses for part in one.partitions):
            part.records, part.high_watermark, part.last_stable_offset = damaged, 3, 3
        return request.written(made)

    read, errors = 0, []
    deadline = time.monotonic() + 300
    with FaultProxy(bootstrap_servers) as proxy:
        fault = proxy.answer("Fetch", answer, times=1)
        source = source_type(client, {})(proxy.bootstrap_servers)
        source.assign({TopicPartition(topic, 2): 0})
        while read < 500:
            assert time.monotonic() < deadline, (read, errors)
            try:
                read += sum(map(len, source.poll(1_000, 50)))
            except BrokerError as error:
                errors.append(str(error))
        source.close()
    assert (read, fault.happened) == (500, 1)
    assert [word in error for word, error in zip(said, errors, strict=True)] == [True] * len(said)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_transaction_commits_its_records_and_positions_or_none_of_them(
    bootstrap_servers: str, client: ClientName
) -> None:
    name = f"transactions-{uuid4().hex[:8]}"
    at = TopicPartition(name, 0)
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(name, 1, 1)])
    sink = transactional_type(client, {})(name, 60_000, bootstrap_servers)
    assert sink.has_room(hurried=False)

    def commit(number: int) -> int:
        """Send two records, one of them with headers, and commit a position of that number."""
        value = b"%d" % number
        sink.send(OutgoingRecords(name, [b"k"], [value], [number]))
        sink.send(OutgoingRecords(name, [b"k"], [value], [number], 0, [[("h", value)]]))
        sink.seal({at: (number, f"é {number}")})
        return sink.commit(OffsetCommit(name, -1, "", None, {at: (number, f"é {number}")}), 60_000)

    assert commit(1) == 0
    sink.send(OutgoingRecords(name, [b"k"], [b"2"]))
    sink.flush(60_000)
    sink.reset()
    assert commit(3) == 0
    stale = OffsetCommit(name, 7, "gone", None, {at: (4, "")})
    sink.send(OutgoingRecords(name, [b"k"], [b"4"]))
    sink.seal(stale.offsets)
    assert sink.commit(stale, 60_000) in (22, 25), "such a member is not in the group"
    sink.close()
    source = source_type(client, {})(bootstrap_servers, headers=True, isolation="read_committed")
    source.assign({at: 0})
    found: list[PartitionBatch] = []
    deadline = time.monotonic() + 300
    while sum(map(len, found)) < 4:
        assert time.monotonic() < deadline, found
        found += source.poll(100, 50)
    source.close()
    assert [value for batch in found for value in batch.values] == [b"1", b"1", b"3", b"3"]
    settings = Settings.load({"bootstrap.servers": bootstrap_servers})
    with group_client(settings) as group:
        answer = group.ask(OffsetFetch(name, (at,)), 300_000).result(300)
    assert isinstance(answer, OffsetFetchAnswer)
    assert answer.committed == {at: Committed(3, "é 3")}
    admin.close()
