"""Three brokers: one may be away, each in turn under an application; a proxy before all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from streamlet.errors import BrokerError, ConfigError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.testing import FaultProxy, KafkaBroker
from tests.integration.chaos.checks import go_on
from tests.integration.chaos.support import LONG_SESSIONS, Cluster, running
from tests.integration.chaos.test_exactly_once import EXACTLY_ONCE, assert_exact
from tests.integration.chaos.topics import Load

pytestmark = pytest.mark.integration

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaBroker]:
    with KafkaBroker(brokers=3, start_timeout_ms=180_000) as kafka:
        yield kafka


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    """A topic of three partitions; each broker leads one."""
    name = f"replicated-{uuid4().hex[:8]}"
    admin = KafkaAdmin(kafka.bootstrap_servers)
    admin.create_topics([NewTopic(name, 3)])
    admin.close()
    return name


def write(servers: str, topic: str, value: bytes, timeout_ms: int = 60_000) -> list[KafkaError]:
    """Write to each partition; the errors."""
    settings = {"bootstrap.servers": servers, "acks": "all", "message.timeout.ms": timeout_ms}
    producer, errors = Producer(settings), []
    for partition in range(3):
        producer.produce(
            topic,
            value,
            partition=partition,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
    assert producer.flush(TIMEOUT_S + timeout_ms / 1000) == 0
    return errors


def values(servers: str, topic: str) -> list[bytes]:
    """What is in the topic, by partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader"})
    found = []
    try:
        for partition in range(3):
            at = TopicPartition(topic, partition, 0)
            end = consumer.get_watermark_offsets(at, timeout=TIMEOUT_S)[1]
            consumer.assign([at])
            found += [consumer.poll(TIMEOUT_S).value() for _ in range(end)]
    finally:
        consumer.close()
    return found


def test_one_of_three_may_be_away_and_two_may_not(kafka: KafkaBroker, topic: str) -> None:
    first, second, third = kafka.brokers
    assert len(kafka.bootstrap_servers.split(",")) == 3
    first.kill()
    assert (kafka.running, second.running, third.running) == (False, True, True)
    assert write(kafka.bootstrap_servers, topic, b"without the first") == []
    first.start()
    assert kafka.running
    second.stop()
    assert write(kafka.bootstrap_servers, topic, b"without the second") == []
    third.kill()
    assert len(write(kafka.bootstrap_servers, topic, b"never", timeout_ms=2_000)) == 3
    kafka.start()
    assert write(kafka.bootstrap_servers, topic, b"with all") == []
    found = values(kafka.bootstrap_servers, topic)
    assert [found.count(value) for value in (b"without the first", b"without the second")] == [3, 3]
    assert found.count(b"with all") == 3


@pytest.mark.chaos
def test_brokers_that_bounce_one_by_one_lose_and_double_nothing(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Once by a stop in order and twice by a kill, while an application commits by transactions.

    One after the other is the leader of partitions, of the group's positions, of transactions and
    the controller, so that each of these changes hands.
    """
    settings = {**LONG_SESSIONS, **EXACTLY_ONCE}
    with running(Cluster(kafka.bootstrap_servers, tmp_path, "counting", **settings)) as cluster:
        instance = cluster.instance("a").start()
        with Load(cluster.servers, cluster.topic("in"), keys=50, rate=500) as load:
            cluster.await_running()
            for node in kafka.brokers:
                (node.stop if node is kafka.brokers[0] else node.kill)()
                go_on(load)
                node.start()
                go_on(load)
            true = load.finish()
        cluster.await_settled()
        assert instance.stop() == 0, cluster.logs()
        assert_exact(cluster, true)


def test_a_proxy_stands_before_each_of_them(kafka: KafkaBroker, topic: str) -> None:
    with FaultProxy(kafka.bootstrap_servers) as proxy:
        assert len(set(proxy.bootstrap_servers.split(","))) == 3
        failed = [
            proxy.refuse("Produce", "NOT_LEADER_OR_FOLLOWER", broker=node) for node in (1, 2, 3)
        ]
        never = proxy.refuse("Produce", "INVALID_TOPIC_EXCEPTION", times=None, broker=4)
        assert write(proxy.bootstrap_servers, topic, b"through") == []
        assert [fault.happened for fault in failed] == [1, 1, 1]
        assert never.happened == 0
    assert values(kafka.bootstrap_servers, topic).count(b"through") == 3


def test_what_cannot_be_is_refused_and_leaves_no_port_taken(kafka: KafkaBroker) -> None:
    with pytest.raises(ConfigError, match="brokers=0: at least one"):
        KafkaBroker(brokers=0)
    before = kafka.port
    with pytest.raises(BrokerError, match=f"port {before} is taken"):
        KafkaBroker(port=before, brokers=2)
