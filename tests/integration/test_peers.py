"""Real Kafka Streams beside streamlet: equal outputs under exactly_once."""

from __future__ import annotations

import pytest

from bench.peers.kafka_streams import fetched
from streamlet.errors import BrokerError
from tests.integration.test_bench import bench

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True, scope="module")
def kafka_streams() -> None:
    """Its jars are there, or can be fetched."""
    try:
        fetched()
    except BrokerError as error:
        pytest.skip(f"no Kafka Streams to compare with: {error}")


def test_both_write_the_same_for_each_key_under_exactly_once(
    bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Aborted and late records in the input, deleted rows, and one of ours killed on the way."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")  # programs of some seconds
    found = bench(bootstrap_servers, "peers", "--equal")
    assert found["different"] == {"counts": [], "windows": [], "joined": []}
    assert found["updates"]["counts"] == found["records"]
    assert 0 < found["updates"]["windows"] < found["records"]
    assert 0 < found["updates"]["joined"] < found["records"]
