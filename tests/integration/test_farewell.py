"""Clients that find no broker any more, though there is one.

A broker that goes down may answer last that there is none: librdkafka then never asks again. And a
host that is gone closes no connection: librdkafka then waits for it for a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import pytest

from streamlet.clock import ManualClock
from streamlet.kafka.broker_loss import ALONE_MS
from streamlet.kafka.client import KafkaAdmin, KafkaSink, KafkaSource
from streamlet.kafka.ports import NewTopic, OutgoingRecords
from streamlet.testing import FaultProxy, ProxiedRequest
from streamlet.types import TopicPartition

pytestmark = pytest.mark.integration

#: Asks for metadata often, so that it is soon told.
OFTEN = {"topic.metadata.refresh.interval.ms": 200}
#: Less than librdkafka waits for a host that is gone.
AGAIN_S, AGAIN_MS = 45, 45_000


def farewell(request: ProxiedRequest) -> bytes:
    """Metadata without a broker, a cluster or partitions of the topics that are asked for."""
    answer = request.new_answer(brokers=[], cluster_id=None, controller_id=-1)
    kind = answer.fields["topics"].data_class
    answer.topics = [
        kind(version=request.version, error_code=5, name=name, topic_id=UUID(int=0), partitions=[])
        for name in request.topics
    ]
    return request.written(answer)


class Scene:
    """A topic of one partition, what writes to it, and a proxy whose broker says farewell."""

    def __init__(self, servers: str, proxy: FaultProxy) -> None:
        self.topic = f"farewell-{uuid4().hex[:8]}"
        self.partition = TopicPartition(self.topic, 0)
        KafkaAdmin(servers).create_topics([NewTopic(self.topic, 1, 1)])
        self.servers, self.through = servers, proxy.bootstrap_servers
        self._proxy = proxy
        self._sink = KafkaSink(servers)
        self.freeze = proxy.freeze

    def write(self, value: bytes) -> None:
        """A record more in the topic."""
        self._sink.send(OutgoingRecords(self.topic, [b"k"], [value], None, 0))
        self._sink.flush(30_000)

    def say_farewell(self, serve: Callable[[], object]) -> None:
        """Have the client lose its brokers; ``serve`` is what it does meanwhile."""
        said = self._proxy.answer("Metadata", farewell, hang_up=True)
        deadline = time.monotonic() + AGAIN_S
        while not said.ended:
            assert time.monotonic() < deadline, "it never asks for metadata"
            serve()

    def close(self) -> None:
        """Free the writer."""
        self._sink.close()


@pytest.fixture
def scene(bootstrap_servers: str) -> Iterator[Scene]:
    """Everything is closed at the end."""
    with FaultProxy(bootstrap_servers) as proxy:
        found = Scene(bootstrap_servers, proxy)
        yield found
        found.close()


def read_one(source: KafkaSource) -> bytes | None:
    """The next record's value."""
    deadline = time.monotonic() + AGAIN_S
    while time.monotonic() < deadline:
        for batch in source.poll(1, 50):
            return batch.values[0]
    raise AssertionError("nothing is read any more")


def hear(sink: KafkaSink) -> None:
    """Wait until the client has told the sink, too; what is sent before that times out."""
    deadline = time.monotonic() + AGAIN_S
    while not sink._loss:
        assert time.monotonic() < deadline, "it never noticed"
        sink.flush(10)
        time.sleep(0.01)


def test_a_source_reads_on_where_it_was(scene: Scene) -> None:
    source = KafkaSource(scene.through, OFTEN)
    source.assign({scene.partition: 0})
    try:
        for value in (b"1", b"2", b"3"):
            scene.write(value)
            assert read_one(source) == value
            scene.say_farewell(lambda: source.poll(1, 20))
        deadline = time.monotonic() + AGAIN_S
        while source.known_end(scene.partition) != 3:  # another client has fetched
            assert time.monotonic() < deadline
            assert source.poll(1, 20) == []
        assert source.positions([scene.partition]) == {scene.partition: 3}
    finally:
        source.close()


def test_a_paused_partition_stays_paused(scene: Scene) -> None:
    source = KafkaSource(scene.through, OFTEN)
    source.assign({scene.partition: 0})
    source.pause([scene.partition])
    scene.write(b"1")
    try:
        scene.say_farewell(lambda: source.poll(1, 20))
        deadline = time.monotonic() + ALONE_MS / 1000 + 2
        while time.monotonic() < deadline:
            assert source.poll(1, 50) == []
        source.resume([scene.partition])
        assert read_one(source) == b"1"
    finally:
        source.close()


def test_a_sink_that_has_delivered_everything_goes_on_at_once(scene: Scene) -> None:
    sink = KafkaSink(scene.through, OFTEN, delivery_timeout_ms=AGAIN_MS)
    try:
        for value in (b"1", b"2", b"3"):
            sink.send(OutgoingRecords(scene.topic, [b"k"], [value], None, 0))
            sink.flush(AGAIN_MS)
            scene.say_farewell(lambda: time.sleep(0.01))
            hear(sink)
    finally:
        sink.close()
    assert KafkaAdmin(scene.servers).end_offsets([scene.partition]) == {scene.partition: 3}


def test_an_admin_asks_on(scene: Scene) -> None:
    admin = KafkaAdmin(scene.through, OFTEN, timeout_ms=AGAIN_MS)
    for count in (1, 2, 3):
        scene.write(b"1")
        assert admin.end_offsets([scene.partition]) == {scene.partition: count}
        scene.say_farewell(lambda: time.sleep(0.01))


def test_a_source_reads_on_past_a_host_that_is_gone_without_a_word(scene: Scene) -> None:
    source = KafkaSource(scene.through)
    source.assign({scene.partition: 0})
    try:
        for value in (b"1", b"2"):
            scene.write(value)
            assert read_one(source) == value
            scene.freeze()
        assert source.poll(1, 20) == []
        scene.write(b"3")
        assert read_one(source) == b"3"
    finally:
        source.close()


def test_a_sink_that_owes_nothing_goes_on_past_a_host_that_is_gone_without_a_word(
    scene: Scene,
) -> None:
    clock = ManualClock()
    sink = KafkaSink(scene.through, delivery_timeout_ms=AGAIN_MS, clock=clock)
    try:
        for value in (b"1", b"2", b"3"):
            sink.send(OutgoingRecords(scene.topic, [b"k"], [value], None, 0))
            sink.flush(AGAIN_MS)
            scene.freeze()
            clock.advance(ALONE_MS)
    finally:
        sink.close()
    assert KafkaAdmin(scene.servers).end_offsets([scene.partition]) == {scene.partition: 3}
