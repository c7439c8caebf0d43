"""Edges of producer and consumer against a real broker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from streamlet.coordinator.commit_metadata import METADATA_MAX_BYTES
from streamlet.coordinator.commit_texts import commit_limit
from streamlet.errors import (
    DeliveryError,
    OutOfRangeError,
    RecordRefusedError,
    UndeliveredError,
)
from streamlet.kafka.client import KafkaAdmin, KafkaSink, KafkaSource, sink_type, source_type
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.native.choice import ClientName
from streamlet.kafka.poll_bound import HEADER_BYTES, HELD_BYTES
from streamlet.kafka.ports import Headers, NewTopic, OutgoingRecords, PartitionBatch
from streamlet.testing import FaultProxy, ProxiedRequest
from streamlet.types import TopicPartition
from tests.kafka_clients import CLIENTS, EACH_CLIENT

pytestmark = pytest.mark.integration

MakeTopic = Callable[[int], str]
MakeSink = Callable[..., KafkaSink]


@pytest.fixture
def make_topic(bootstrap_servers: str) -> MakeTopic:
    """Creates a topic with so many partitions; its name."""

    def make(partitions: int) -> str:
        name = f"client-{uuid4().hex[:8]}"
        KafkaAdmin(bootstrap_servers).create_topics([NewTopic(name, partitions, 1)])
        return name

    return make


@pytest.fixture(params=CLIENTS)
def make_sink(bootstrap_servers: str, request: pytest.FixtureRequest) -> Iterator[MakeSink]:
    """Opens producers; all are closed at the end."""
    opened: list[KafkaSink] = []
    kind = sink_type(request.param, {})

    def make(timeout_ms: int = 60_000, **config: object) -> KafkaSink:
        opened.append(kind(bootstrap_servers, config, delivery_timeout_ms=timeout_ms))
        return opened[-1]

    yield make
    for sink in opened:
        sink.close()


def read(servers: str, topic: str, partitions: int, count: int) -> list[PartitionBatch]:
    """All records of a topic, once there are ``count``."""
    source = KafkaSource(servers, headers=True)
    source.assign({TopicPartition(topic, number): 0 for number in range(partitions)})
    found: list[PartitionBatch] = []
    deadline = time.monotonic() + 300
    while sum(map(len, found)) < count:
        assert time.monotonic() < deadline, f"{sum(map(len, found))} of {count} records"
        found += source.poll(1_000, 100)
    source.close()
    return found


@pytest.mark.parametrize("headers", [None, [("h", b"1")]])
def test_keys_land_on_javas_partitions(
    bootstrap_servers: str,
    make_topic: MakeTopic,
    make_sink: MakeSink,
    headers: list[tuple[str, bytes | None]] | None,
) -> None:
    """The keys of Kafka's own test of murmur2, and others; on both ways to send."""
    topic, sink = make_topic(7), make_sink()
    keys = [b"21", b"foobar", b"a-little-bit-long-string", b"abc", b"\xff\x00", "é".encode()]
    keys += [b"key-%d" % number for number in range(50)]
    extra = None if headers is None else [headers] * len(keys)
    sink.send(OutgoingRecords(topic, keys, [b""] * len(keys), headers=extra))
    sink.flush(60_000)
    batches = read(bootstrap_servers, topic, 7, len(keys))
    landed = {key: batch.partition for batch in batches for key in batch.keys}
    assert landed == {key: partition_of(key, 7) for key in keys}


def test_a_record_of_the_year_1970_stays_there(
    bootstrap_servers: str, make_topic: MakeTopic, make_sink: MakeSink
) -> None:
    """The client takes a timestamp of 0 for "now"; the millisecond behind it is written."""
    topic, sink = make_topic(1), make_sink()
    sink.send(OutgoingRecords(topic, [b"k"] * 3, [b"v"] * 3, timestamps=[0, 7, 0]))
    sink.send(OutgoingRecords(topic, [b"k"], [b"v"], timestamps=[0], headers=[[("h", None)]]))
    sink.flush(60_000)
    batches = read(bootstrap_servers, topic, 1, 4)
    times = [t for batch in batches for t in batch.timestamps]
    for batch in batches:
        low, high = batch.span or (0, max(times))
        assert all(low <= time <= high for time in batch.timestamps)
    assert times == [1, 7, 1, 1]


def test_a_topic_that_does_not_exist_is_told_apart_from_a_broker_that_is_away(
    make_sink: MakeSink,
) -> None:
    sink = make_sink(10_000)  # of which half is a topic waited for
    sink.send(OutgoingRecords("client-no-such-topic", [b"k"], [b"v"]))
    with pytest.raises(DeliveryError, match=r"to client-no-such-topic: .*; create") as no:
        sink.flush(60_000)
    assert not isinstance(no.value, UndeliveredError)


def test_a_broker_tells_how_long_the_text_beside_a_position_may_be(bootstrap_servers: str) -> None:
    with contextlib.closing(KafkaAdmin(bootstrap_servers)) as admin:
        assert commit_limit(admin) == METADATA_MAX_BYTES
        assert admin.broker_setting("no.such.setting") is None


def test_a_push_sends_what_would_linger(
    bootstrap_servers: str, make_topic: MakeTopic, make_sink: MakeSink
) -> None:
    topic, sink = make_topic(1), make_sink(**{"linger.ms": 120_000, "message.timeout.ms": 300_000})
    sink.send(OutgoingRecords(topic, [b"k"], [b"v"]))
    deadline = time.monotonic() + 300
    while len(sink._producer):  # until then the client may have no connection
        assert time.monotonic() < deadline, "it lingers"
        sink.push()
    assert read(bootstrap_servers, topic, 1, 1)[0].keys == [b"k"]


@pytest.mark.parametrize("partitions", [None, [0, 0, 0]])
def test_a_record_that_is_too_large_is_named_by_its_place(
    make_topic: MakeTopic, make_sink: MakeSink, partitions: list[int] | None
) -> None:
    topic, sink = make_topic(1), make_sink()
    values: list[bytes | None] = [b"small", b"x" * 2_000_000, b"small"]
    with pytest.raises(RecordRefusedError, match=r"too large; .*message\.max\.bytes") as why:
        sink.send(OutgoingRecords(topic, [b"k"] * 3, values, partitions=partitions))
    assert why.value.index == 1


@pytest.mark.parametrize("headers", [None, [("h", b"1")]])
def test_a_full_queue_is_waited_for_and_loses_and_repeats_nothing(
    bootstrap_servers: str,
    make_topic: MakeTopic,
    make_sink: MakeSink,
    headers: list[tuple[str, bytes | None]] | None,
) -> None:
    topic = make_topic(1)
    sink = make_sink(**{"queue.buffering.max.messages": 5})
    values: list[bytes | None] = [b"%d" % number for number in range(200)]
    extra = None if headers is None else [headers] * len(values)
    sink.send(OutgoingRecords(topic, [b"k"] * len(values), values, headers=extra))
    sink.flush(60_000)
    batches = read(bootstrap_servers, topic, 1, len(values))
    assert [value for batch in batches for value in batch.values] == values


def test_an_offset_that_is_gone_is_told_with_its_partition_and_costs_no_record(
    bootstrap_servers: str,
    make_topic: MakeTopic,
    make_sink: MakeSink,
    request: pytest.FixtureRequest,
) -> None:
    """Records that come with the error are returned first, and the other partition goes on."""
    topic, sink, admin = make_topic(2), make_sink(), KafkaAdmin(bootstrap_servers)
    here, gone = (TopicPartition(topic, number) for number in range(2))
    for partition in (0, 1):
        sink.send(OutgoingRecords(topic, [b"k"] * 100, [b"v"] * 100, partitions=partition))
    sink.flush(60_000)
    admin.delete_records({gone: 50})
    deadline = time.monotonic() + 300
    while admin.start_offsets([gone])[gone] < 50:
        assert time.monotonic() < deadline, "the records are still there"
    client: ClientName = request.node.callspec.params["make_sink"]
    source = source_type(client, {})(bootstrap_servers)
    source.assign({here: 0, gone: 10})
    read, raised = 0, []
    while read < 100 or not raised:
        assert time.monotonic() < deadline, f"{read} records, {raised}"
        try:
            read += sum(len(b) for b in source.poll(1_000, 50) if b.partition == here.partition)
        except OutOfRangeError as error:
            raised.append(error.partition)
    assert raised == [gone]
    source.assign({gone: 60})
    while read < 140:
        assert time.monotonic() < deadline, f"{read} records"
        read += sum(map(len, source.poll(1_000, 50)))
    assert read == 140
    source.close()


@EACH_CLIENT
def test_a_poll_ends_where_its_headers_hold_too_much(
    bootstrap_servers: str, make_topic: MakeTopic, client: ClientName
) -> None:
    """Two partitions; every second record has 3,000 headers, and no record is lost or repeated."""
    topic, count = make_topic(2), 100
    sink = sink_type(client, {})(bootstrap_servers)
    many: Headers = [(f"h{number}", b"v") for number in range(3_000)]
    values: list[bytes | None] = [b"%d" % number for number in range(count)]
    headers = [many if number % 2 else None for number in range(count)]
    for partition in (0, 1):
        sink.send(OutgoingRecords(topic, [b"k"] * count, values, None, partition, headers))
    sink.flush(60_000)
    sink.close()
    source = source_type(client, {})(bootstrap_servers, headers=True)
    ends = {TopicPartition(topic, number): count for number in (0, 1)}
    source.assign(dict.fromkeys(ends, 0))
    at, polls = dict.fromkeys(ends, 0), 0
    wait_ms, deadline = 60_000, time.monotonic() + 300
    while at != ends:
        assert time.monotonic() < deadline, at
        batches, wait_ms = source.poll(2 * count, wait_ms), 50
        polls += bool(batches)
        held = 0
        for batch in batches:
            tp = TopicPartition(topic, batch.partition)
            assert batch.offsets[0] == at[tp]
            at[tp] = batch.offsets[-1] + 1
            assert list(batch.headers or [None]) == headers[batch.offsets[0] : at[tp]]
            held += sum(map(len, filter(None, batch.headers or ())))
        assert held * HEADER_BYTES <= HELD_BYTES
        known = source.positions(list(ends))
        assert known == {tp: at[tp] for tp in known}
        assert all(tp in known for tp, offset in at.items() if offset)
    source.close()
    assert polls > 1


class Refusal:
    """The broker is to refuse a topic's first batch, when the second is on its way already."""

    def __init__(self, topic: str) -> None:
        self._topic = topic.encode()
        self._first = b""

    def __call__(self, request: ProxiedRequest) -> bytes:
        """To be a rewriting of Produce: the first batch goes to a topic that does not exist."""
        if not self._first:
            self._first = request.frame.replace(self._topic, b"x" * len(self._topic))
            return b""
        return self._first + request.frame


@EACH_CLIENT
def test_a_record_that_librdkafka_only_believes_to_be_written_is_not_taken_for_written(
    bootstrap_servers: str, make_topic: MakeTopic, client: ClientName
) -> None:
    """The broker refuses a producer's first batch to a partition and takes its second."""
    topic = make_topic(1)
    with FaultProxy(bootstrap_servers) as proxy:
        refused = proxy.rewrite("Produce", Refusal(topic), times=2)
        sink = sink_type(client, {})(proxy.bootstrap_servers, delivery_timeout_ms=20_000)
        try:
            sink.introduce([topic])
            sink.send(OutgoingRecords(topic, [b"a"], [b"1"], None, 0))
            refused.wait(timeout_ms=300_000)
            sink.send(OutgoingRecords(topic, [b"a"], [b"2"], None, 0))
            with pytest.raises(UndeliveredError, match=f"not sure to be written: {topic} "):
                sink.flush(30_000)
            assert refused.happened == 2
            sink.reset()
            sink.send(OutgoingRecords(topic, [b"a", b"a"], [b"1", b"2"], None, 0))
            sink.flush(30_000)
        finally:
            sink.close()
    values = [value for batch in read(bootstrap_servers, topic, 1, 3) for value in batch.values]
    assert values == [b"2", b"1", b"2"]  # without the first it would have been lost


def test_offsets_are_asked_for_again_when_the_connection_breaks(
    bootstrap_servers: str, make_topic: MakeTopic, make_sink: MakeSink
) -> None:
    """librdkafka answers such a request without an error and without offsets."""
    topic = make_topic(2)
    sink = make_sink()
    sink.send(OutgoingRecords(topic, [b"a"], [b"1"], None, 0))
    sink.flush(30_000)
    with FaultProxy(bootstrap_servers) as proxy:
        admin = KafkaAdmin(proxy.bootstrap_servers)
        admin.topics()
        broken = proxy.disconnect("ListOffsets", times=2)
        ends = admin.end_offsets([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    assert ends == {TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 0}
    assert broken.happened == 2
