"""Clients of a broker that its controller does not hear from in time, again and again.

While it is fenced it answers that there are no brokers at all. librdkafka believes it, and may then
find none for minutes, without a word (see ``streamlet.kafka.broker_loss``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from streamlet.errors import BrokerError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.testing import KafkaBroker
from streamlet.types import TopicPartition

pytestmark = pytest.mark.integration

#: It is heard every four seconds and fenced after three: for a second of each four.
RARELY_HEARD = {"broker.heartbeat.interval.ms": "4000", "broker.session.timeout.ms": "3000"}
#: That many clients ask for so long, s: without help some of them go deaf in it.
CLIENTS = 6
ASK_S = 16.0
#: Less than a client stays deaf.
TIMEOUT_MS = 20_000
PARTITION = TopicPartition("in", 0)

REQUESTS: list[Callable[[KafkaAdmin], object]] = [
    KafkaAdmin.topics,
    lambda admin: admin.end_offsets([PARTITION]),
    lambda admin: admin.topic_ids(["in"]),
    lambda admin: admin.topic_config("in"),
]


@pytest.fixture
def servers() -> Iterator[str]:
    with KafkaBroker(properties=RARELY_HEARD) as broker:
        KafkaAdmin(broker.bootstrap_servers).create_topics([NewTopic("in", 1)])
        yield broker.bootstrap_servers


def test_no_request_is_lost_with_a_client_that_lost_its_brokers(servers: str) -> None:
    failed: list[BrokerError] = []
    end = time.monotonic() + ASK_S

    def ask() -> None:
        admin = KafkaAdmin(servers, timeout_ms=TIMEOUT_MS)
        while time.monotonic() < end and not failed:
            for request in REQUESTS:
                try:
                    request(admin)
                except BrokerError as error:
                    failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
