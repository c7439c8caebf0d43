"""The producer while no broker answers; what it does with one is shown by integration tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamlet.broker.port import PortReservation
from streamlet.errors import UndeliveredError
from streamlet.kafka.client import KafkaSink


@pytest.fixture
def sink() -> Iterator[KafkaSink]:
    """A sink to an address where nobody listens."""
    with PortReservation() as nobody:
        sink = KafkaSink(f"127.0.0.1:{nobody.port}", delivery_timeout_ms=60_000)
        yield sink
        sink.close()


def test_records_that_stay_queued_are_a_failure_that_may_pass(sink: KafkaSink) -> None:
    sink.send("t", [b"k"], [b"v"])
    with pytest.raises(UndeliveredError, match="still undelivered") as caught:
        sink.flush(50)
    assert caught.value.passing


def test_after_a_reset_nothing_is_queued_and_nothing_has_failed(sink: KafkaSink) -> None:
    sink.send("t", [b"k"] * 3, [b"v"] * 3)
    sink.reset()
    sink.flush(50)
    sink.send("t", [b"k"], [b"v"])
    with pytest.raises(UndeliveredError, match="still undelivered"):
        sink.flush(50)


def test_an_outage_is_logged_once_by_each_client(
    sink: KafkaSink, caplog: pytest.LogCaptureFixture
) -> None:
    """The client tries to connect many times in this while."""
    sink.send("t", [b"k"], [b"v"])
    with pytest.raises(UndeliveredError):
        sink.flush(600)
    assert caplog.text.count("Connect to") == 1
