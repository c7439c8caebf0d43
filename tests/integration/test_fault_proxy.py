"""The proxy on the wire, between librdkafka's and our own client and a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from streamlet.broker.port import PortReservation
from streamlet.errors import ConfigError, TimedOutError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.testing import FaultProxy, ProxiedRequest

pytestmark = pytest.mark.integration

TIMEOUT_S = 60.0
#: How long a producer goes on trying, ms.
PATIENCE = {"message.timeout.ms": 60_000, "retry.backoff.ms": 10, "retry.backoff.max.ms": 50}


@pytest.fixture
def topic(bootstrap_servers: str) -> str:
    """A topic of one partition."""
    name = f"faults-{uuid4().hex[:8]}"
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(name, 1)])
    admin.close()
    return name


def producer(servers: str, **more: object) -> Producer:
    """A producer that goes on trying."""
    return Producer({"bootstrap.servers": servers, "linger.ms": 0, **PATIENCE, **more})


def consumer(servers: str, group: str, **more: object) -> Consumer:
    """A consumer that commits when it is told to."""
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, **more}
    return Consumer({"bootstrap.servers": servers, "group.id": group, **settings})


def write(one: Producer, topic: str, value: bytes) -> None:
    """Write a record and wait until it is there."""
    one.produce(topic, value)
    assert one.flush(TIMEOUT_S) == 0


def read(servers: str, topic: str) -> list[bytes]:
    """All that is in a topic, past any proxy."""
    one = consumer(servers, "reader")
    try:
        end = one.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)[1]
        one.assign([TopicPartition(topic, 0, 0)])
        return [one.poll(TIMEOUT_S).value() for _ in range(end)]
    finally:
        one.close()


def committed(one: Consumer, topic: str) -> int:
    """The group's position."""
    return int(one.committed([TopicPartition(topic, 0)], timeout=TIMEOUT_S)[0].offset)


def commits(one: Consumer, topic: str, offset: int) -> bool:
    """Commit a position; False if it was refused with error 28."""
    try:
        one.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() != 28:
            raise
        return False
    return True


INJECT: dict[str, Callable[[FaultProxy, bool], object]] = {
    "refuse": lambda proxy, after: proxy.refuse("Produce", "NOT_ENOUGH_REPLICAS", after=after),
    "delay": lambda proxy, after: proxy.delay("Produce", 200, after=after),
    "disconnect": lambda proxy, after: proxy.disconnect("Produce", after=after),
    "black hole": lambda proxy, after: proxy.black_hole("Produce", after=after),
}


@pytest.mark.parametrize("after", [False, True], ids=["request", "answer"])
@pytest.mark.parametrize("kind", INJECT)
def test_a_record_whose_delivery_fails_is_written_again(
    fault_proxy: FaultProxy, bootstrap_servers: str, topic: str, kind: str, after: bool
) -> None:
    """Where only the answer is lost, a plain producer writes it twice."""
    one = producer(fault_proxy.bootstrap_servers, **{"socket.timeout.ms": 1_000})
    write(one, topic, b"first")
    fault = INJECT[kind](fault_proxy, after)
    write(one, topic, b"second")
    assert fault.happened == 1
    twice = after and kind != "delay"
    assert read(bootstrap_servers, topic) == [b"first", b"second"] + [b"second"] * twice
    assert fault.topics == {topic: 1}


@pytest.mark.parametrize(
    ("which", "struck"),
    [
        ({}, [0]),
        ({"nth": 3}, [2]),
        ({"nth": 2, "times": 2}, [1, 2]),
        ({"times": None}, [0, 1, 2, 3]),
        ({"times": None, "probability": 0.0}, []),
        ({"times": None, "client_id": "other"}, []),
        ({"times": None, "client_id": "me"}, [0, 1, 2, 3]),
        ({"times": None, "broker": 1}, [0, 1, 2, 3]),
        ({"times": None, "broker": 7}, []),
        (
            {
                "times": None,
                "where": lambda one: one.body.topics[0].partitions[0].committed_offset % 2 == 1,
            },
            [0, 2],
        ),
    ],
)
def test_a_fault_happens_to_the_requests_that_are_meant(
    fault_proxy: FaultProxy, topic: str, which: dict[str, object], struck: list[int]
) -> None:
    one = consumer(fault_proxy.bootstrap_servers, f"g-{topic}", **{"client.id": "me"})
    assert commits(one, topic, 0)  # now it is known which broker is which, and the group is there
    fault = fault_proxy.refuse("OffsetCommit", "INVALID_COMMIT_OFFSET_SIZE", **which)
    failed = [turn for turn in range(4) if not commits(one, topic, turn + 1)]
    assert (failed, fault.happened) == (struck, len(struck))
    one.close()


def test_the_same_seed_strikes_the_same_requests(bootstrap_servers: str, topic: str) -> None:
    found = []
    for seed in (5, 5, 6):
        with FaultProxy(bootstrap_servers, seed=seed) as proxy:
            proxy.refuse("OffsetCommit", 28, times=None, probability=0.5)
            one = consumer(proxy.bootstrap_servers, f"g-{topic}")
            found.append([commits(one, topic, 1) for _ in range(20)])
            one.close()
    assert found[0] == found[1] != found[2]


def test_a_request_arrives_though_its_client_has_hung_up(
    fault_proxy: FaultProxy, bootstrap_servers: str, topic: str
) -> None:
    """As an old commit does that the network had kept."""
    group = f"g-{topic}"
    late = consumer(fault_proxy.bootstrap_servers, group, **{"socket.timeout.ms": 1_000})
    held = fault_proxy.hold("OffsetCommit")
    late.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)  # at the second try
    assert held.happened == 1
    other = consumer(bootstrap_servers, group)
    other.commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=False)
    assert committed(other, topic) == 9
    held.release()
    held.wait(ended=True)
    assert committed(other, topic) == 5
    unheard = fault_proxy.hold("OffsetCommit", after=True)
    late.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    unheard.wait(ended=True)  # its client has hung up: no answer comes any more
    late.close()
    other.close()


def test_what_is_held_when_the_proxy_ends_may_be_released_late(
    bootstrap_servers: str, topic: str
) -> None:
    with FaultProxy(bootstrap_servers) as proxy:
        held = proxy.hold("Produce")
        one = producer(proxy.bootstrap_servers)
        one.produce(topic, b"1")
        one.poll(0)
        held.wait()
    held.release()
    one.purge()
    one.flush(TIMEOUT_S)


def test_a_slow_link_takes_its_time(bootstrap_servers: str, topic: str) -> None:
    with FaultProxy(bootstrap_servers, bytes_per_s=100_000) as proxy:
        one = producer(proxy.bootstrap_servers)
        began = time.monotonic()
        write(one, topic, b"x" * 100_000)
        assert time.monotonic() - began >= 0.9
        assert [len(value) for value in read(bootstrap_servers, topic)] == [100_000]


def test_a_frozen_connection_is_silent_and_a_new_one_is_not(
    fault_proxy: FaultProxy, bootstrap_servers: str, topic: str
) -> None:
    one = producer(fault_proxy.bootstrap_servers, **{"socket.timeout.ms": 1_000})
    write(one, topic, b"1")
    fault_proxy.freeze()
    write(one, topic, b"2")
    assert read(bootstrap_servers, topic) == [b"1", b"2"]


def test_a_failure_of_the_tests_own_function_is_raised_at_the_end(
    bootstrap_servers: str,
) -> None:
    def wrong(request: ProxiedRequest) -> bool:
        pytest.fail(request.api)  # which is no Exception

    proxy = FaultProxy(bootstrap_servers)
    fault = proxy.refuse("Metadata", 5, where=wrong)
    with pytest.raises(pytest.fail.Exception), proxy:
        assert_no_answer(proxy.bootstrap_servers)
    with pytest.raises(TimedOutError, match="0 happened of 1 within 10 ms"):
        fault.wait(timeout_ms=10)


def assert_no_answer(servers: str) -> None:
    with pytest.raises(KafkaException):
        producer(servers).list_topics(timeout=1)


def test_what_is_not_known_is_refused_at_once(fault_proxy: FaultProxy) -> None:
    with pytest.raises(ConfigError, match="no kind of request that is known: Prodce"):
        fault_proxy.disconnect(["Produce", "Prodce"])
    with pytest.raises(ConfigError, match="no error of Kafka's that is known: OOPS"):
        fault_proxy.refuse("Produce", "OOPS")
    with pytest.raises(ConfigError, match="probability between 0 and 1"):
        fault_proxy.disconnect("Produce", probability=2.0)
    with pytest.raises(ConfigError, match="nht: requests are chosen by nth, times"):
        fault_proxy.disconnect("Produce", nht=2)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="bytes_per_s=0: expected more than 0"):
        FaultProxy("127.0.0.1:1", bytes_per_s=0)
    with pytest.raises(ConfigError, match="'here' is no host:port"):
        FaultProxy("here")


def test_a_broker_that_is_away_is_away_behind_the_proxy() -> None:
    with PortReservation() as nobody, FaultProxy(f"127.0.0.1:{nobody.port}") as proxy:
        assert_no_answer(proxy.bootstrap_servers)
