"""The settings of Kafka Streams, and what becomes of each here.

The keys are those of Kafka Streams 4.1.1, those that later versions added, and those that
earlier ones removed. One that is a setting here by the same key has a row in the table of settings;
each other one has its answer in ``ELSEWHERE`` or ``CLIENT_WIDE``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from streamlet.config.client_words import client_answer
from streamlet.config.values import ValueKind, boolean, choice, duration, text, whole


@attrs.frozen
class ClientWide:
    """A setting that every client gets, in the word of librdkafka."""

    kind: ValueKind[Any]
    name: str = ""


#: Given once, for consumers, producers and admin clients; one with a prefix outranks them.
CLIENT_WIDE: Mapping[str, ClientWide] = {
    "client.dns.lookup": ClientWide(
        choice("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
    ),
    "client.id": ClientWide(text()),
    "client.rack": ClientWide(text()),
    "connections.max.idle.ms": ClientWide(duration()),
    "enable.metrics.push": ClientWide(boolean()),
    "metadata.recovery.rebootstrap.trigger.ms": ClientWide(duration()),
    "metadata.recovery.strategy": ClientWide(choice("rebootstrap", "none")),
    "receive.buffer.bytes": ClientWide(whole(-1), "socket.receive.buffer.bytes"),
    "reconnect.backoff.max.ms": ClientWide(duration()),
    "reconnect.backoff.ms": ClientWide(duration()),
    "request.timeout.ms": ClientWide(duration(), "socket.timeout.ms"),
    "retry.backoff.max.ms": ClientWide(duration()),
    "retry.backoff.ms": ClientWide(duration()),
    "send.buffer.bytes": ClientWide(whole(-1), "socket.send.buffer.bytes"),
}


def client_property(key: str, value: object) -> tuple[str, object]:
    """The librdkafka property of a client-wide setting of Kafka, with its value.

    Raises:
        ValueError: the value is not of its kind.
    """
    wide = CLIENT_WIDE[key]
    read = wide.kind.parse(value)
    if key.endswith(".buffer.bytes") and read == -1:
        read = 0  # librdkafka's word for the system's default
    return wide.name or key, str(read).lower() if isinstance(read, bool) else read


_SERDE = "give key= and value= where a topic is read or written, or App(key=..., value=...)"
_LISTS = "a list is a type as any other: key=list[int], value=list[str]"
_METRICS = "metrics are read by Prometheus, which needs none of this; see docs/metrics.md"
_RACKS = "tasks are not placed by the racks of brokers; rack.aware.assignment.tags spreads standbys"
_REGISTRY = "set SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO, or give username= and password= to Registry"
_SUBJECTS = "give subject= to the serdes of streamlet.registry"
_WINDOWS = "the window's size is in the window, sl.tumbling(...), and in the type of its keys"
_STORES = "give store=Materialized(persistent=False) for a store that is kept in memory"

#: Where the same is to be had, or why it is not needed; what is not there yet says so.
ELSEWHERE: Mapping[str, str] = {
    "allow.os.group.write.access": "state folders are their owner's alone; run instances of one "
    "machine as one user",
    "application.id": "it is the first argument of App",
    "auto.include.jmx.reporter": _METRICS,
    "auto.register.schemas": "give register= to the serdes of streamlet.registry",
    "basic.auth.credentials.source": _REGISTRY,
    "basic.auth.user.info": _REGISTRY,
    "built.in.metrics.version": _METRICS,
    "cache.max.bytes.buffering": "did you mean cache.max.bytes?",
    "default.client.supplier": "clients are streamlet's own; settings reach them by consumer., "
    "producer. and admin.",
    "default.deserialization.exception.handler": "give deserialization_handler= to App",
    "default.dsl.store": _STORES,
    "default.interactive.query.isolation.level": "queries read what is committed; give newest=True "
    "to App.store for what is not yet",
    "default.key.serde": "give key= where a topic is read or written, or App(key=...)",
    "default.list.key.serde.inner": _LISTS,
    "default.list.key.serde.type": _LISTS,
    "default.list.value.serde.inner": _LISTS,
    "default.list.value.serde.type": _LISTS,
    "default.production.exception.handler": "give production_handler= to App",
    "default.timestamp.extractor": "give timestamp= where a topic is read; on_error= of App is for "
    "negative times without it",
    "default.value.serde": "give value= where a topic is read or written, or App(value=...)",
    "deserialization.exception.handler": "give deserialization_handler= to App",
    "dsl.store.format": "give store=Materialized(headers=True) for a store that keeps headers",
    "dsl.store.suppliers.class": _STORES,
    "enable.transactional.statestores": "it is not needed: a store holds what was committed, after "
    "any crash",
    "group.protocol": "streamlet plans itself, by the classic protocol that every broker speaks",
    "internal.task.assignor.class": "give assignor= to App",
    "key.serde": _SERDE,
    "key.subject.name.strategy": _SUBJECTS,
    "max.poll.records": "did you mean buffered.records.per.partition?",
    "max.warmup.replicas": "did you mean max.learners.per.group?",
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "num.stream.threads": "give --processes to `streamlet run`",
    "partition.grouper": "tasks are made as by Kafka Streams' default; give assignor= to App for "
    "where they run",
    "poll.ms": "it is not needed: a worker wakes up by what there is to do",
    "probing.rebalance.interval.ms": "it is not needed: a ready learner speaks up itself",
    "processing.exception.handler": "give processing_handler= to App",
    "processing.exception.handler.global.enabled": "handlers of App are for global tables, too",
    "processor.wrapper.class": "did you mean processor.wrapper? It names an object of Python, "
    "module:attribute",
    "production.exception.handler": "give production_handler= to App",
    "rack.aware.assignment.non_overlap_cost": _RACKS,
    "rack.aware.assignment.strategy": _RACKS,
    "rack.aware.assignment.traffic_cost": _RACKS,
    "retries": "it is not needed: what may pass is tried again until task.timeout.ms or the "
    "session is over",
    "rocksdb.config.setter": "give store=Materialized(rocksdb={…}) for the stores that need it",
    "schema.registry.url": "set SCHEMA_REGISTRY_URL, or give registry= to the serdes of "
    "streamlet.registry",
    "statestore.cache.max.bytes": "did you mean cache.max.bytes?",
    "statestore.uncommitted.max.bytes": "did you mean memory.max.bytes? It bounds all that an "
    "instance keeps in memory",
    "task.assignor.class": "give assignor= to App",
    "timestamp.extractor": "give timestamp= where a topic is read",
    "topology.description.push.enabled": "it is not needed: the description lies in the control "
    "topic, where `streamlet describe` finds it",
    "upgrade.from": "it is not needed: members agree by what each can read; "
    "stream.rebalancing.mode=upgrading is for versions before",
    "value.serde": _SERDE,
    "value.subject.name.strategy": _SUBJECTS,
    "window.size.ms": _WINDOWS,
    "windowed.inner.class.serde": _WINDOWS,
    "windowstore.changelog.additional.retention.ms": "it is not needed: changelogs of windows are "
    "purged by what is committed, not by time",
    "zookeeper.connect": "Kafka has no ZooKeeper any more; give bootstrap.servers",
}


def answer(key: str) -> str | None:
    """The place of a setting of Kafka Streams or of Java's clients; None for an unknown key."""
    if key.startswith("client.tag."):
        return f"did you mean instance.tags = {key.removeprefix('client.tag.')}=VALUE?"
    return ELSEWHERE.get(key) or client_answer(key)
