"""The client that moves the records of a worker, by the setting ``kafka.client``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from streamlet.kafka.native.events import unsupported
from streamlet.kafka.native.library import native
from streamlet.kafka.native.sink import NativeSink, NativeTransactionalSink
from streamlet.kafka.native.source import NativeSource
from streamlet.kafka.sink import KafkaSink
from streamlet.kafka.source import KafkaSource
from streamlet.kafka.transactions import TransactionalSink
from streamlet.logs import get_logger

log = get_logger(__name__)

ClientName = Literal["auto", "native", "python"]

#: What ``auto`` stands for, where the extension is there and does what the settings ask for.
AUTO: ClientName = "native"


def source_type(client: ClientName, config: Mapping[str, Any]) -> type[KafkaSource]:
    """The consumer to read records with.

    Args:
        client: as ``kafka.client`` is set.
        config: settings of the consumer; some of them only confluent-kafka's can do.
    """
    return NativeSource if _is_native(client, config) else KafkaSource


def sink_type(client: ClientName, config: Mapping[str, Any]) -> type[KafkaSink]:
    """The producer to write records with, as ``source_type``."""
    return NativeSink if _is_native(client, config) else KafkaSink


def transactional_type(client: ClientName, config: Mapping[str, Any]) -> type[TransactionalSink]:
    """The producer to write records with in transactions, as ``source_type``."""
    return NativeTransactionalSink if _is_native(client, config) else TransactionalSink


def client_line() -> str:
    """One line on the clients that there are, and why one is not."""
    found = native()
    if found.module is None:
        return f"Kafka client python; native is not there: {found.reason}"
    return f"Kafka client native, with librdkafka {found.version}"


def _is_native(client: ClientName, config: Mapping[str, Any]) -> bool:
    if (AUTO if client == "auto" else client) != "native":
        return False
    name = unsupported(config)
    reason = native().reason if name is None else f"it does not do {name}"
    if reason and client == "native":
        log.warning("kafka.client=native: confluent-kafka's client is used, since %s", reason)
    return not reason
