"""Settings of Kafka Streams: each is taken, goes to the clients, or has its answer."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from streamlet.config import ClientKind, Settings
from streamlet.config.kafka_streams import CLIENT_WIDE, ELSEWHERE
from streamlet.config.sources import is_security
from streamlet.config.table import rows
from streamlet.errors import ConfigError


def problems(values: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        Settings.load(values)
    return caught.value.problems


#: Of Kafka Streams 4.1.1, ``StreamsConfig.configDef().names()``.
KAFKA_STREAMS = """
    acceptable.recovery.lag application.id application.server bootstrap.servers
    buffered.records.per.partition built.in.metrics.version cache.max.bytes.buffering client.id
    commit.interval.ms connections.max.idle.ms default.client.supplier
    default.deserialization.exception.handler default.dsl.store default.key.serde
    default.list.key.serde.inner default.list.key.serde.type default.list.value.serde.inner
    default.list.value.serde.type default.production.exception.handler
    default.timestamp.extractor default.value.serde deserialization.exception.handler
    dsl.store.suppliers.class enable.metrics.push ensure.explicit.internal.resource.naming
    group.protocol log.summary.interval.ms max.task.idle.ms max.warmup.replicas
    metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    num.standby.replicas num.stream.threads poll.ms probing.rebalance.interval.ms
    processing.exception.handler processing.guarantee processor.wrapper.class
    production.exception.handler rack.aware.assignment.non_overlap_cost
    rack.aware.assignment.strategy rack.aware.assignment.tags rack.aware.assignment.traffic_cost
    receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    repartition.purge.interval.ms replication.factor request.timeout.ms retry.backoff.ms
    rocksdb.config.setter security.protocol send.buffer.bytes state.cleanup.delay.ms state.dir
    statestore.cache.max.bytes task.assignor.class task.timeout.ms topology.optimization
    default.interactive.query.isolation.level dsl.store.format enable.transactional.statestores
    statestore.uncommitted.max.bytes topology.description.push.enabled
    upgrade.from window.size.ms windowed.inner.class.serde
    windowstore.changelog.additional.retention.ms
"""


@pytest.mark.parametrize("key", sorted(KAFKA_STREAMS.split()))
def test_each_setting_of_kafka_streams_is_taken_or_answered(key: str) -> None:
    taken = key in rows() or key in CLIENT_WIDE or is_security(key)
    assert taken != (key in ELSEWHERE)
    if not taken:
        [problem] = problems({key: "1"})
        assert problem == f"{key}: unknown setting, {ELSEWHERE[key]}"


def test_clients_take_what_goes_to_all_of_them() -> None:
    """Real ones, which refuse a name or a value they do not know."""
    given = {"client.dns.lookup": "use_all_dns_ips", "metadata.recovery.strategy": "none"}
    given |= {"client.id": "mine", "client.rack": "a", "enable.metrics.push": "false"}
    for key in CLIENT_WIDE:
        given.setdefault(key, "-1" if key.endswith("buffer.bytes") else "1234 ms")
    settings = Settings.load(given | {"producer.retry.backoff.ms": "7"})
    kinds: tuple[ClientKind, ...] = ("main.consumer", "producer", "admin")
    configs = [settings.client_config(kind) for kind in kinds]
    assert [config["retry.backoff.ms"] for config in configs] == [1234, "7", 1234]
    assert {config["socket.send.buffer.bytes"] for config in configs} == {0}
    clients = (Consumer, Producer, AdminClient)
    for make, config in zip(clients, configs, strict=True):
        assert make({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", **config}) is not None
    of_group = {"client.id": "mine", "client.dns.lookup": "use_all_dns_ips"}
    assert settings.client_config("group") == of_group


def test_consumers_of_one_purpose_have_what_all_have_and_their_own() -> None:
    environ = {"STREAMLET_RESTORE_CONSUMER_FETCH_MIN_BYTES": "3"}
    given = {"consumer.fetch.min.bytes": 1, "main.consumer.fetch.min.bytes": 2}
    settings = Settings.load(given | {"reconnect.backoff.ms": "1s"}, environ=environ)
    kinds: tuple[ClientKind, ...] = ("consumer", "main.consumer", "restore.consumer")
    found = [settings.client_config(kind) for kind in (*kinds, "global.consumer")]
    assert [one["fetch.min.bytes"] for one in found] == [1, 2, "3", 1]
    assert {one["reconnect.backoff.ms"] for one in found} == {1_000}
    assert problems({"main.consumer.isolation.level": "read_committed"}) == (
        "main.consumer.isolation.level: use consumer.isolation.level, it goes for all of them",
    )
