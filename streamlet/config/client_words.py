"""Settings of Kafka's clients that are given without a prefix, and Java's words for them.

A client here is librdkafka, whose properties follow ``consumer.``, ``producer.`` or ``admin.``.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.config.client_properties import CLIENT_PROPERTIES

_SERDES = "give key= and value= where a topic is read or written, or App(key=..., value=...)"
_PARTITIONER = "give partitioner= to to() or repartition()"
_ASSIGNOR = "streamlet plans itself: give assignor= to App"
_COMMITS = "positions are committed with the stores, every commit.interval.ms"
_LEVEL = "compression.level"

#: What has no name of its own in librdkafka, or is streamlet's to decide: what to do instead.
ANSWERS: Mapping[str, str] = {
    "auto.commit.enable": _COMMITS,
    "auto.commit.interval.ms": _COMMITS,
    "buffer.memory": "did you mean producer.queue.buffering.max.kbytes? It counts kilobytes",
    "config.providers": "secrets are given by variables of the environment, STREAMLET_… of the key",
    "enable.auto.commit": _COMMITS,
    "enable.auto.offset.store": _COMMITS,
    "enable.idempotence": "producers are always idempotent",
    "enable.gapless.guarantee": "processing.guarantee says what is kept",
    "exclude.internal.topics": "App.stream(re.compile(...)) never reads internal topics",
    "group.id": "it is the application's id: the first argument of App",
    "group.protocol.type": _ASSIGNOR,
    "group.remote.assignor": _ASSIGNOR,
    "interceptor.classes": "set processor.wrapper, a hook around each node",
    "interceptors": "set processor.wrapper, a hook around each node",
    "key.deserializer": _SERDES,
    "key.serializer": _SERDES,
    "max.block.ms": "it is not needed: a full queue is waited for, and task.timeout.ms bounds that",
    "offset.store.method": _COMMITS,
    "offset.store.path": _COMMITS,
    "offset.store.sync.interval.ms": _COMMITS,
    "partition.assignment.strategy": _ASSIGNOR,
    "partitioner": _PARTITIONER,
    "partitioner.adaptive.partitioning.enable": _PARTITIONER,
    "partitioner.availability.timeout.ms": _PARTITIONER,
    "partitioner.class": _PARTITIONER,
    "partitioner.ignore.keys": _PARTITIONER,
    "security.providers": "it is for Java; TLS is OpenSSL's here",
    "share.acknowledgement.mode": "streamlet reads as a group of members, not as a share group",
    "transaction.two.phase.commit.enable": "set processing.guarantee=exactly_once",
    "transactional.id": "set processing.guarantee=exactly_once, which names transactions itself",
    "value.deserializer": _SERDES,
    "value.serializer": _SERDES,
}

#: Words of Java's clients, and librdkafka's word for the same.
JAVA: Mapping[str, str] = {
    "compression.gzip.level": _LEVEL,
    "compression.lz4.level": _LEVEL,
    "compression.zstd.level": _LEVEL,
    "default.api.timeout.ms": "socket.timeout.ms",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "metadata.max.idle.ms": "topic.metadata.refresh.interval.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms",
}

#: Properties that only consumers have, and those that only producers have.
_CONSUMERS = """
    allow.auto.create.topics check.crcs consume.callback.max.messages coordinator.query.interval.ms
    enable.partition.eof fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes
    fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms isolation.level
    max.partition.fetch.bytes max.poll.records on_commit queued.max.messages.kbytes
    queued.min.messages
"""
_PRODUCERS = """
    acks batch.num.messages batch.size compression.codec compression.level compression.type
    delivery.report.only.error delivery.timeout.ms linger.ms max.in.flight
    max.in.flight.requests.per.connection message.max.bytes message.send.max.retries
    message.timeout.ms on_delivery produce.offset.report queue.buffering.backpressure.threshold
    queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms queuing.strategy
    request.required.acks sticky.partitioning.linger.ms
"""
OWN: Mapping[str, frozenset[str]] = {
    "consumer": frozenset(_CONSUMERS.split()),
    "producer": frozenset(_PRODUCERS.split()),
}


def client_answer(name: str, client: str = "") -> str | None:
    """The answer to a setting of Kafka's clients, given behind the prefix of one or without.

    None for a name that is none of theirs, or that is right behind the prefix.
    """
    if name in ANSWERS and (not client or name not in CLIENT_PROPERTIES):
        return ANSWERS[name]
    word = JAVA.get(name, name)
    if word not in CLIENT_PROPERTIES or (client and word == name):
        return None
    if client:
        return f"did you mean {client}.{word}?"
    for prefix, own in OWN.items():
        if word in own:
            return f"did you mean {prefix}.{word}?"
    return f"give it to Kafka's clients, as consumer.{word}, producer.{word} or admin.{word}"
