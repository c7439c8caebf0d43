"""Values that Kafka's client refuses are wrong settings, not a traceback of each worker."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest

from streamlet.errors import ConfigError
from streamlet.kafka.client import KafkaAdmin, KafkaSink, KafkaSource
from streamlet.kafka.native.sink import NativeSink
from streamlet.kafka.native.source import NativeSource
from tests.kafka_clients import NATIVE_ONLY

NATIVE = [pytest.param(kind, marks=NATIVE_ONLY) for kind in (NativeSource, NativeSink)]


@pytest.mark.parametrize(
    ("client", "config", "said"),
    [
        (KafkaSink, {"linger.ms": "abc"}, "producer.*Invalid value .*queue.buffering.max.ms"),
        (KafkaSource, {"fetch.max.bytes": 1}, "consumer.*`fetch.max.bytes` must be >= "),
        (KafkaSource, {"stats_cb": "x"}, "consumer.*expected stats_cb"),
        pytest.param(
            *(NativeSink, {"linger.ms": "abc"}, "producer.*Invalid value .*queue.buffering.max"),
            marks=NATIVE_ONLY,
        ),
        pytest.param(
            *(NativeSource, {"fetch.max.bytes": 1}, "consumer.*`fetch.max.bytes` must be >= "),
            marks=NATIVE_ONLY,
        ),
        pytest.param(
            *(NativeSource, {"stats_cb": "x"}, "consumer.*expected stats_cb"), marks=NATIVE_ONLY
        ),
        (KafkaAdmin, {"socket.timeout.ms": "-7"}, "admin.*socket.timeout.ms"),
    ],
)
def test_a_value_that_the_client_refuses_is_a_wrong_setting(
    client: Callable[..., object], config: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        client("localhost:1", config)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("client", [KafkaSink, KafkaSource, *NATIVE, KafkaAdmin])
def test_a_client_ends_with_the_last_reference_to_it(client: Callable[..., object]) -> None:
    """One that waits for Python's collector keeps its threads and connections until then."""
    one = client("localhost:1", {})
    seen = weakref.ref(one)
    del one
    assert seen() is None
