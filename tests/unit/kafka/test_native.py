"""The extension without a broker: how it is chosen, what it refuses, how its clients end."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamlet.kafka.native import choice, library
from streamlet.kafka.native.choice import client_line, source_type
from streamlet.kafka.native.consumer import NativeConsumer
from streamlet.kafka.native.events import ClientEvents
from streamlet.kafka.native.library import Native, native
from streamlet.kafka.native.producer import NativeProducer
from streamlet.kafka.native.source import NativeSource
from streamlet.kafka.poll_bound import Polled
from streamlet.kafka.source import KafkaSource
from tests.kafka_clients import NATIVE_ONLY

CONFIG: dict[str, Any] = {"bootstrap.servers": "localhost:1", "group.id": "unused"}


def silent() -> logging.Logger:
    """A log that goes nowhere."""
    found = logging.getLogger("test-native-silent")
    found.setLevel(logging.CRITICAL + 1)
    return found


@pytest.fixture
def consumer() -> Iterator[NativeConsumer]:
    """A consumer of a broker that is away; its log goes nowhere."""
    one = NativeConsumer({**CONFIG, "logger": silent()})
    yield one
    one.close()


@NATIVE_ONLY
def test_native_is_taken_where_it_is_there_and_can_do_what_is_set(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert source_type("native", {}) is source_type("auto", {}) is NativeSource
    assert source_type("python", {}) is source_type("auto", {"throttle_cb": print}) is KafkaSource
    assert client_line() == f"Kafka client native, with librdkafka {native().version}"
    assert not caplog.records


def test_what_it_cannot_do_and_what_is_missing_lead_to_todays_client_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert source_type("native", {"throttle_cb": print}) is KafkaSource
    assert "since it does not do throttle_cb" in caplog.text
    gone = Native(None, "", "no compiler")
    monkeypatch.setattr(choice, "native", lambda: gone)
    assert source_type("native", {}) is KafkaSource
    assert "since no compiler" in caplog.text
    assert "native is not there: no compiler" in client_line()
    caplog.clear()
    assert source_type("python", {}) is source_type("auto", {}) is KafkaSource
    assert not caplog.records, "nobody asked for it"


@NATIVE_ONLY
def test_a_library_that_lacks_something_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import math  # a library that is none of Kafka's

    monkeypatch.setattr(library, "cimpl", math)
    reason = library.native.__wrapped__().reason
    assert "rd_kafka_" in reason or "cannot open" in reason
    again = native().module
    assert again is not None, "what was loaded before goes on"


@NATIVE_ONLY
@pytest.mark.parametrize("found", ["", "another"])
def test_an_extension_of_other_sources_than_the_checkouts_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, found: str
) -> None:
    """A wheel has no sources, and what it has was built with them."""
    monkeypatch.setattr(library, "digest", lambda: found)
    other = library.native.__wrapped__()
    assert (other.module is None) is (found == "another")
    assert caplog.text.count("built of other sources") == (found == "another")
    assert ("-m pip install -e " in other.reason) is (found == "another")


@NATIVE_ONLY
def test_nothing_is_made_before_the_library_is_loaded() -> None:
    """In an interpreter of its own: here it is loaded."""
    code = (
        "import confluent_kafka\n"
        "from streamlet.kafka.native import _native\n"
        "try:\n    _native.Client(1, {}, print)\n"
        "except RuntimeError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, timeout=300
    )
    assert (done.stdout, done.returncode) == ("load() was not called\n", 0), done.stderr


@NATIVE_ONLY
@pytest.mark.parametrize(
    ("call", "arguments", "error"),
    [
        ("incremental_assign", ([("t", 0)],), TypeError),
        ("incremental_assign", ([b"t"],), TypeError),
        ("incremental_assign", (7,), TypeError),
        ("incremental_assign", ([("t", 2**40, 0)],), OverflowError),
        ("position", ([("t", 0, "x")],), TypeError),
        ("watermarks", ("no\0topic", 0), ValueError),
        ("look_up", ("t", 10), KafkaException),
        ("consume", (0, 1, 1, True, 9, 9), ValueError),
        ("consume", (2**40, 1, 1, True, 9, 9), ValueError),
        ("consume", ("1", 1, 1, True, 9, 9), TypeError),
    ],
)
def test_a_wrong_call_raises_and_the_client_goes_on(
    consumer: NativeConsumer, call: str, arguments: tuple[Any, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        getattr(consumer._client, call)(*arguments)
    assert consumer._client.name().startswith("rdkafka#consumer-")


@NATIVE_ONLY
@pytest.mark.parametrize(
    ("columns", "part", "error"),
    [
        (([b"k"], [b"v"], None, None, None), (0, 2), ValueError),
        (([b"k"] * 2, [b"v"], None, None, None), (0, 2), ValueError),
        (([b"k"], ["text"], None, None, None), (0, 1), TypeError),
        (([7], [b"v"], None, None, None), (0, 1), TypeError),
        ((None, [b"v"], None, None, None), (0, 1), TypeError),
        (([b"k"], [b"v"], [2**70], None, None), (0, 1), OverflowError),
        (([b"k"], [b"v"], ["x"], None, None), (0, 1), TypeError),
        (([b"k"], [b"v"], None, 2**70, None), (0, 1), OverflowError),
        (([b"k"], [b"v"], None, 2**32, None), (0, 1), OverflowError),
        (([b"k"], [b"v"], None, [2**32 - 1], None), (0, 1), OverflowError),
        (([b"k"], [b"v"], None, [None], None), (0, 1), TypeError),
        (([b"k"], [b"v"], None, None, [7]), (0, 1), TypeError),
        (([b"k"], [b"v"], None, None, [[("h", b"1"), 5]]), (0, 1), TypeError),
        (([b"k"], [b"v"], None, None, [[("h", 5)]]), (0, 1), TypeError),
        (([b"k"], [b"v"], None, None, [[("\ud800", b"1")]]), (0, 1), UnicodeEncodeError),
        (([b"k"], [b"v"], None, None, None), (-1, 1), ValueError),
        (([b"k"], [b"v"], None, None, None), (1, 0), ValueError),
    ],
)
def test_a_wrong_column_raises_and_nothing_of_its_record_is_queued(
    columns: tuple[Any, ...], part: tuple[int, int], error: type[Exception]
) -> None:
    producer = NativeProducer({"bootstrap.servers": "localhost:1", "logger": silent()})
    with pytest.raises(error):
        producer.produce("t", *columns, *part)
    assert producer.produce("t", [b"a", b"k"], [None, b"v"], None, 0, None, 1, 2) == (2, 0)
    producer.purge()
    assert producer.produce("t", [], [], None, None, None, 0, 0) == (0, 0)
    for wait in (producer.poll, producer.flush, producer.commit_transaction):
        with pytest.raises(OverflowError):
            wait(1e8)


@NATIVE_ONLY
@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"no.such.setting": "1"}, KafkaException),
        ({"group.id": 1}, TypeError),
        ({1: "1"}, TypeError),
        ({"group.id": "\ud800"}, UnicodeEncodeError),
    ],
)
def test_wrong_settings_make_no_client(settings: Any, error: type[Exception]) -> None:
    module: Any = native().module
    with pytest.raises(error):
        module.Client(1, settings, print)
    with pytest.raises(ValueError, match="producer"):
        module.Client(2, {}, print)


@NATIVE_ONLY
def test_a_client_that_is_closed_while_another_thread_waits_in_it_ends_with_that(
    consumer: NativeConsumer,
) -> None:
    inside = threading.Event()
    found: list[object] = []

    def wait() -> None:
        inside.set()
        found.append(consumer.columns(10, 300, 0, True))

    thread = threading.Thread(target=wait)
    thread.start()
    inside.wait()
    consumer.close()
    consumer.close()
    thread.join()
    with pytest.raises(RuntimeError, match="the client is closed"):
        consumer.columns(10, 0, 0, True)
    # Whether the wait had begun or not, nothing was lost and nothing was freed under it.
    assert found in ([Polled()], [])


@NATIVE_ONLY
def test_what_is_raised_by_who_hears_of_errors_is_raised_by_the_call() -> None:
    heard: list[KafkaError] = []

    def on_error(error: KafkaError) -> None:
        heard.append(error)
        if len(heard) == 1:
            raise ArithmeticError("by the one who hears")

    def read_on() -> None:
        while True:
            one.columns(10, 100, 0, False)

    one = NativeConsumer({**CONFIG, "error_cb": on_error})
    with pytest.raises(ArithmeticError):
        read_on()
    assert heard[0].code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    one.close()


@NATIVE_ONLY
def test_what_was_told_before_is_heard_at_the_end_of_a_call_that_fails() -> None:
    """As a callback of confluent-kafka's is called amid one."""
    heard: list[str] = []

    def on_delivery(error: KafkaError, _: object) -> None:
        heard.append(error.name())
        if len(heard) == 1:
            raise ArithmeticError("by the one who hears")

    settings = {"bootstrap.servers": "localhost:1", "logger": silent()}
    producer = NativeProducer({**settings, "on_delivery": on_delivery})
    assert producer.produce("t", [b"k"] * 2, [b"v"] * 2, None, 0, None, 0, 2) == (2, 0)
    producer.purge()
    with pytest.raises(ArithmeticError):
        producer.flush(10)
    with pytest.raises(KafkaException):
        producer.begin_transaction()
    assert heard == ["_PURGE_QUEUE"] * 2


@NATIVE_ONLY
def test_a_source_that_is_closed_has_no_client_any_more(caplog: pytest.LogCaptureFixture) -> None:
    source = NativeSource("localhost:1", {"logger": silent()})
    source.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        source.poll(1, 0)
    assert not caplog.records


@NATIVE_ONLY
def test_librdkafka_cuts_a_long_name_also_within_a_letter() -> None:
    producer = NativeProducer({"bootstrap.servers": "localhost:1", "client.id": "é" * 200})
    assert producer._client.name() == "é" * 63 + "\ufffd"


@NATIVE_ONLY
def test_a_cycle_through_who_hears_is_collected() -> None:
    module: Any = native().module

    class Hears:
        client: Any = None
        ended = threading.Event()

        def __call__(self, *told: object) -> None:
            """Nothing is told."""

        def __del__(self) -> None:
            self.ended.set()

    hears = Hears()
    hears.client = module.Client(1, {"group.id": "unused"}, hears)
    assert module in gc.get_referents(hears.client), "which has the library, until the client ends"
    del hears
    gc.collect()
    assert Hears.ended.is_set()


def test_the_end_of_a_client_is_raised_and_a_line_of_its_log_has_its_level() -> None:
    lines: list[tuple[int, str]] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append((record.levelno, record.getMessage()))

    logger = logging.getLogger("test-native-told")
    logger.addHandler(Lines())
    events = ClientEvents({"logger": logger})
    events.name = "me"
    events(0, 3, "FAIL", "[thrd:x]: away")
    assert lines == [(logging.ERROR, "FAIL [me] [thrd:x]: away")]
    with pytest.raises(KafkaException) as fatal:
        events(2, KafkaError.CLUSTER_AUTHORIZATION_FAILED, None, "no")
    assert fatal.value.args[0].fatal()
