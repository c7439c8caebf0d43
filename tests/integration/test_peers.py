"""Real Kafka Streams beside streamlet: equal outputs under exactly_once, and rates of both."""

from __future__ import annotations

import pytest

from bench.peers.kafka_streams import fetched
from streamlet.errors import BrokerError
from tests.integration.test_bench import MEASURED, bench

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True, scope="module")
def kafka_streams() -> None:
    """Its jars are there, or can be fetched."""
    try:
        fetched()
    except BrokerError as error:
        pytest.skip(f"no Kafka Streams to compare with: {error}")


def test_both_write_the_same_for_each_key_under_exactly_once(bootstrap_servers: str) -> None:
    """Aborted and late records in the input, deleted rows, and one of ours killed on the way."""
    found = bench(bootstrap_servers, "peers", "--equal")
    assert found["different"] == {"counts": [], "windows": [], "joined": []}
    assert found["updates"]["counts"] == found["records"]
    assert 0 < found["updates"]["windows"] < found["records"]
    assert 0 < found["updates"]["joined"] < found["records"]


def test_both_are_measured_on_the_same_windows_and_right(bootstrap_servers: str) -> None:
    both = ("kafka_streams_1", "streamlet_python")
    size = ("--records", "5000", "--keys", "50", "--workloads", "window")
    found = bench(bootstrap_servers, "peers", *size, "--variants", *both)
    assert found["right"] is True
    assert found["skipped"] == {}
    assert found["window"]["better"] == "kafka_streams_1"
    assert all({*found["window"][one]} == MEASURED for one in both)
    assert found["window"]["ratios"]["kafka_streams_1"] == 1
    assert found["window"]["ratios"]["streamlet_python"] > 0
