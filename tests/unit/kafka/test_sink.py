"""The producer while no broker answers; what it does with one is shown by integration tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from streamlet.broker.port import PortReservation
from streamlet.clock import ManualClock
from streamlet.errors import (
    DeliveryError,
    RecordRefusedError,
    StillQueuedError,
    UndeliveredError,
    UnreachableError,
)
from streamlet.kafka.client import KafkaSink, sink_type
from streamlet.kafka.limits import TimeLimit, TopicLimits
from streamlet.kafka.native.choice import ClientName
from streamlet.kafka.native.producer import NativeProducer
from streamlet.kafka.ports import Headers, OutgoingRecords
from streamlet.kafka.queue_bound import FIRST_BYTES
from tests.kafka_clients import CLIENTS, EACH_CLIENT


@pytest.fixture(params=CLIENTS)
def sink(request: pytest.FixtureRequest) -> Iterator[KafkaSink]:
    """A sink to an address where nobody listens."""
    with PortReservation() as nobody:
        make = sink_type(request.param, {})
        sink = make(f"127.0.0.1:{nobody.port}", delivery_timeout_ms=60_000)
        yield sink
        sink.close()


def test_records_that_stay_queued_are_a_failure_that_may_pass(sink: KafkaSink) -> None:
    sink.send(OutgoingRecords("t", [b"k"], [b"v"]))
    # The client counts its own events as well, such as that no broker was there.
    with pytest.raises(
        StillQueuedError, match=r"(1 record|2 records) still undelivered after 50"
    ) as caught:
        sink.flush(50)
    assert caught.value.passing


def test_what_was_fenced_is_undelivered(sink: KafkaSink) -> None:
    """By another thread, while this one may wait for the delivery."""
    sink.send(OutgoingRecords("t", [b"k"] * 3, [b"v"] * 3))
    with ThreadPoolExecutor(1) as other:
        other.submit(sink.fence).result()
    with pytest.raises(UndeliveredError, match="3 records were not sent: another member"):
        sink.flush(60_000)


@EACH_CLIENT
@pytest.mark.parametrize("headers", [None, [[("h", b"x")]] * 10_000])
def test_a_full_queue_is_given_up_by_who_may_not_write_any_more(
    headers: list[Headers | None] | None, client: ClientName
) -> None:
    asked: list[int] = []

    def may_write() -> bool:
        asked.append(len(full._producer))
        return len(asked) < 4

    with PortReservation() as nobody:
        full = sink_type(client, {})(f"127.0.0.1:{nobody.port}", may_write=may_write)
        with pytest.raises(UndeliveredError, match="not sent: another member"):
            full.send(
                OutgoingRecords("t", [None] * 10_000, [b"x" * 1_000] * 10_000, headers=headers)
            )
        assert FIRST_BYTES // 2_000 < max(asked) < FIRST_BYTES // 900, "it waited for room"
        full.close()


def test_a_client_that_lost_its_brokers_is_given_up_when_nothing_was_delivered_for_long() -> None:
    clock = ManualClock(1_000_000)
    with PortReservation() as nobody:
        sink = KafkaSink(f"127.0.0.1:{nobody.port}", lost_ms=9_000, clock=clock)
        sink._loss(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        sink.send(OutgoingRecords("t", [b"k"], [b"v"]))
        clock.advance(8_999)
        with pytest.raises(StillQueuedError):
            sink.flush(10)
        clock.advance(1)
        with pytest.raises(UndeliveredError, match="1 record was not sent: the client lost"):
            sink.flush(10)
        sink.close()


def test_after_a_reset_nothing_is_queued_and_nothing_has_failed(sink: KafkaSink) -> None:
    sink.send(OutgoingRecords("t", [b"k"] * 3, [b"v"] * 3))
    sink.reset()
    sink.flush(50)
    sink.send(OutgoingRecords("t", [b"k"], [b"v"]))
    with pytest.raises(UndeliveredError, match="still undelivered"):
        sink.flush(50)


def test_a_record_of_a_time_that_its_topic_refuses_is_refused_on_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker would turn away the whole batch, and say so after what is behind it was sent."""
    clock = ManualClock(1_000_000)
    limits = TopicLimits(times={"t": TimeLimit(2**63 - 1, 3_600_000)})
    with PortReservation() as nobody:
        sink = KafkaSink(f"127.0.0.1:{nobody.port}", limits=limits, clock=clock)
        queued: list[tuple[str, int]] = []

        def produce(topic: str, *rest: Any) -> None:
            queued.append((topic, rest[-1]))

        # The client is no witness: it counts its own events, of a broker that is away, as queued.
        monkeypatch.setattr(sink, "_renew", lambda topic: None)
        monkeypatch.setattr(sink, "_produce", produce)
        times = [1, 4_600_000, 4_600_001, 5]
        with pytest.raises(RecordRefusedError, match=r"to t was refused: .*after\.max\.ms") as one:
            sink.send(OutgoingRecords("t", [b"k"] * 4, [b"v"] * 4, times))
        assert (one.value.index, one.value.wrong_time) == (2, True)
        assert queued == [("t", 1), ("t", 4_600_000)]
        sink.send(OutgoingRecords("t", [b"k"], [b"v"]))
        sink.send(OutgoingRecords("free", [b"k"] * 4, [b"v"] * 4, times))
        assert queued[2:] == [("t", 0), *(("free", time) for time in times)]
        sink.close()


def test_the_limits_of_a_topic_that_is_met_later_are_learned_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic that is chosen for a record; one whose settings cannot be read is asked again."""
    clock, asked = ManualClock(1_000_000), list[str]()
    there = {
        "chosen": {"message.timestamp.after.max.ms": "3600000", "max.message.bytes": "1000"},
        "free": dict[str, str](),
    }

    def ask(topics: Sequence[str]) -> dict[str, dict[str, str]]:
        asked.extend(topics)
        if "away" in topics:
            raise UnreachableError("no broker answers")
        return {topic: there[topic] for topic in topics if topic in there}

    with PortReservation() as nobody:
        known = TopicLimits(known=frozenset({"known"}))
        sink = KafkaSink(f"127.0.0.1:{nobody.port}", limits=known, ask=ask, clock=clock)
        monkeypatch.setattr(sink, "_renew", lambda topic: None)
        monkeypatch.setattr(sink, "_produce", lambda *record: None)
        for _ in range(2):
            for topic in ("known", "free", "away", "untold"):
                sink.send(OutgoingRecords(topic, [b"k"], [b"v"], [4_600_001]))
            with pytest.raises(
                RecordRefusedError, match=r"to chosen was refused: .*after\.max\.ms"
            ):
                sink.send(OutgoingRecords("chosen", [b"k"], [b"v"], [4_600_001]))
            with pytest.raises(RecordRefusedError, match=r"max\.message\.bytes, 1,000"):
                sink.send(OutgoingRecords("chosen", [b"k"], [b"v" * 1_000], [1]))
        assert asked == ["free", "away", "untold", "chosen"]
        clock.advance(30_000)
        sink.send(OutgoingRecords("away", [b"k"], [b"v"], [1]))
        assert asked[4:] == ["away"]
        sink.close()


class Refused:
    """A producer that the broker never gave an id: it says so to whoever calls it next."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> object:
        return getattr(self._producer, name)

    def poll(self, timeout: float) -> int:
        code = KafkaError.CLUSTER_AUTHORIZATION_FAILED
        raise KafkaException(KafkaError(code, "Cluster authorization failed", fatal=True))


def test_a_producer_that_can_never_go_on_is_told_when_sending_and_closes_in_silence(
    sink: KafkaSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who closes it has something else to say: what ended the work before."""
    monkeypatch.setattr(sink._held, "_clients", [Refused(sink._producer)])
    with pytest.raises(DeliveryError, match="nothing can be written to t: no right to WRITE"):
        sink.send(OutgoingRecords("t", [b"k"], [b"v"]))
    sink.close()


class Ended(Refused):
    """As ``Refused``, and it takes no record: by then the reason was asked for by nobody."""

    def produce(self, *given: Any) -> tuple[int, int]:
        if isinstance(self._producer, NativeProducer):
            return given[-2], KafkaError._FATAL
        raise KafkaException(KafkaError(KafkaError._FATAL, "Unable to produce message"))


def test_the_reason_is_told_also_when_a_record_is_what_shows_that_all_is_over(
    sink: KafkaSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = Ended(sink._producer)
    monkeypatch.setattr(sink._held, "_clients", [ended])
    monkeypatch.setattr(sink, "_produce", ended.produce)
    for headers in (None, [[("h", b"1")]]):
        with pytest.raises(DeliveryError, match="written to t: no right to WRITE") as caught:
            sink.send(OutgoingRecords("t", [b"k"], [b"v"], headers=headers))
        assert not isinstance(caught.value, RecordRefusedError)


def test_an_outage_is_logged_once_by_each_client(
    sink: KafkaSink, caplog: pytest.LogCaptureFixture
) -> None:
    """The client tries to connect many times in this while."""
    sink.send(OutgoingRecords("t", [b"k"], [b"v"]))
    with pytest.raises(UndeliveredError):
        sink.flush(600)
    assert caplog.text.count("Connect to") == 1
