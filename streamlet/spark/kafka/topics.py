"""Kafka as the JVM's connector sees it: options of source and sink, partition counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streamlet.errors import BrokerError, MissingTopicError, StreamletError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.limits import TopicLimits
from streamlet.spark.kafka.java_refusals import UsedTopics, refusal
from streamlet.spark.kafka.written_topics import WrittenTopics
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.progress import OBSERVED
from streamlet.topology.graph import Topology
from streamlet.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamlet.spark.kafka.clients import Clients
    from streamlet.spark.plan.prepare import Prepared

T = TypeVar("T")

_EARLIEST, _LATEST = -2, -1

#: A consumer that is at the end of its partition waits this long for more, and the micro-batch
#: with it; Kafka's default of 500 ms makes the last batch almost a second longer. And it has no
#: broker make a topic again that was deleted.
_CONSUMER = {"fetch.max.wait.ms": "10", "allow.auto.create.topics": "false"}

_TIMEOUT_MS = 20_000


def source(
    spark: SparkSession,
    topology: Topology,
    counts: Mapping[str, int],
    kafka: Mapping[str, str],
    *,
    reset: str,
    max_records: int | None,
) -> DataFrame:
    """A stream of all source topics by Java's connector, with its columns.

    A batch has a table's topic to its end, however few records of streams it may have: else a
    stream would meet a table that is not there yet. Within a batch, time decides.

    Args:
        spark: a session with the connector's jars.
        topology: which topics, and where to begin each.
        counts: partitions of the topics.
        kafka: settings of the Java client.
        reset: where to begin topics that do not say it: ``earliest`` or ``latest``.
        max_records: of streams in one micro-batch; None for all there are.
    """
    return _union(
        _source(spark, starts, kafka, limit)
        for starts, limit in _reads(topology, counts, reset, max_records)
    )


def packed_source(
    spark: SparkSession,
    topology: Topology,
    plan: SparkPlan,
    clients: Clients,
    *,
    reset: str,
    max_records: int | None,
    aggregates: str | None = None,
    besides: Collection[str] = (),
    ends: Mapping[TopicPartition, int] | None = None,
) -> DataFrame:
    """A source by our own client: rows of ``packing.PACKED_SCHEMA``, on their way to the tasks.

    Or rows of partial aggregates, where ``aggregates`` is their schema. How many records they were
    made of, Spark gets as an observed metric. Topics in ``besides`` are not read.
    ``ends`` are the offsets at which reading ends for good.
    """
    from pyspark.sql import functions as f

    from streamlet.spark.kafka.python_kafka import FORMAT, PythonKafka, reading

    spark.dataSource.register(PythonKafka)
    rows = _union(
        spark.readStream.format(FORMAT)
        .options(**reading(clients, plan, starts, limit, aggregates, ends))
        .load()
        for starts, limit in _reads(topology, plan.counts, reset, max_records, besides)
    )
    counted = rows.observe(OBSERVED + topology.application, f.sum("read").alias("records"))
    made = "records" if aggregates is None else "key"
    return counted.where(f"{made} is not null").drop("read")


def _reads(
    topology: Topology,
    counts: Mapping[str, int],
    reset: str,
    max_records: int | None,
    besides: Collection[str] = (),
) -> Iterator[tuple[dict[str, dict[str, int]], int | None]]:
    """The start of each read, and the limit of a micro-batch: tables, then streams."""
    tables = {
        spec.source_topic
        for part in topology.subtopologies
        for spec in part.stores
        if spec.source_topic is not None
    }
    wanted = [topic for topic in topology.source_topics if topic not in besides]
    streams = [topic for topic in wanted if topic not in tables]
    for chosen, limit in ((sorted(tables.intersection(wanted)), None), (streams, max_records)):
        if chosen:
            yield _starts(topology, chosen, counts, reset), limit


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    first, *more = frames
    return first.unionByName(more[0]) if more else first


def _starts(
    topology: Topology, chosen: Iterable[str], counts: Mapping[str, int], reset: str
) -> dict[str, dict[str, int]]:
    """The start of each partition without a checkpoint, in the connector's form."""
    resets = {
        topic: node.reset or reset
        for part in topology.subtopologies
        for node in part.sources
        for topic in node.topics
    }
    return {
        topic: {
            str(partition): _LATEST if resets[topic] == "latest" else _EARLIEST
            for partition in range(counts[topic])
        }
        for topic in chosen
    }


def _source(
    spark: SparkSession,
    starts: Mapping[str, Mapping[str, int]],
    kafka: Mapping[str, str],
    max_records: int | None,
) -> DataFrame:
    reader = spark.readStream.format("kafka")
    for name, value in sorted({**_CONSUMER, **kafka}.items()):
        reader = reader.option(f"kafka.{name}", value)
    if max_records is not None:
        reader = reader.option("maxOffsetsPerTrigger", max_records)
    reader = reader.option("subscribe", ",".join(starts))
    return reader.option("startingOffsets", json.dumps(starts)).load()


def has_connector(spark: SparkSession) -> bool:
    """True if the session has the Java connector.

    Raises:
        StreamletError: it is of Spark Connect, and cannot be asked.
    """
    require_classic(spark)
    from py4j.java_gateway import JavaClass

    jvm: Any = spark._jvm
    # What is not there is a package to py4j.
    return isinstance(jvm.org.apache.spark.sql.kafka010.KafkaSourceProvider, JavaClass)


def counts_by_client(
    used: UsedTopics, bootstrap_servers: str, client: Mapping[str, Any]
) -> dict[str, int]:
    """Partitions of each topic, asked by our own client.

    Raises:
        MissingTopicError: a topic does not exist, or may not be seen.
        BrokerError: the broker does not answer.
    """
    admin = KafkaAdmin(bootstrap_servers, dict(client))
    try:
        there = admin.topics()
    finally:
        admin.close()
    missing = sorted(used.all - there.keys())
    if missing:
        text = f"topic does not exist: {', '.join(missing)}"
        raise MissingTopicError(text, hidden=missing, written=used.only_written)
    return {topic: there[topic].partitions for topic in sorted(used.all)}


def written_topics(
    topics: Iterable[str], bootstrap_servers: str, client: Mapping[str, Any]
) -> WrittenTopics:
    """The limits of topics that a query writes by name, and how to ask for those of others.

    Raises:
        BrokerError: the broker does not answer.
    """
    admin = KafkaAdmin(bootstrap_servers, dict(client))
    limits = TopicLimits.of(admin.topic_settings(sorted(topics)), {})
    return WrittenTopics(limits, bootstrap_servers, dict(client))


def topic_ids(spark: SparkSession, ready: Prepared) -> dict[str, str]:
    """The ids of the topics that an application reads, by the client that reads them.

    Raises:
        BrokerError: the broker does not answer.
    """
    wanted = ready.topology.source_topics
    if ready.clients is None:
        used = UsedTopics(frozenset(wanted))
        return _described(spark, used, ready.client, lambda one: str(one.topicId()))
    admin = KafkaAdmin(ready.clients.bootstrap_servers, dict(ready.clients.admin))
    try:
        return admin.topic_ids(wanted)
    finally:
        admin.close()


def require_classic(spark: SparkSession) -> None:
    """Check that the session has a JVM of its own to ask.

    Raises:
        StreamletError: it is a client of Spark Connect.
    """
    if not hasattr(spark, "_jvm"):
        raise StreamletError(
            "Spark Connect has no JVM here to ask Kafka and the checkpoint: use to_dataframe() "
            "with source= and partitions=, or a session of this process"
        )


_UNKNOWN_TOPIC: Final = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"


def partition_counts(
    spark: SparkSession, used: UsedTopics, kafka: Mapping[str, str]
) -> dict[str, int]:
    """Partitions of each topic, asked by the Java client with the connector's own settings.

    Raises:
        StreamletError: the session has no connector, or is of Spark Connect.
        MissingTopicError: a topic does not exist.
        BrokerError: the broker does not answer, or refuses.
    """
    return _described(spark, used, kafka, lambda one: int(one.partitions().size()))


def _described(
    spark: SparkSession, used: UsedTopics, kafka: Mapping[str, str], of: Callable[[Any], T]
) -> dict[str, T]:
    """A fact of each topic by the Java client; exceptions as of ``partition_counts``."""
    require_classic(spark)
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm
    wanted, topics = jvm.java.util.ArrayList(), sorted(used.all)
    for topic in topics:
        wanted.add(topic)
    settings = jvm.java.util.Properties()
    for name, value in kafka.items():
        settings.setProperty(name, value)
    settings.setProperty("default.api.timeout.ms", str(_TIMEOUT_MS))
    settings.setProperty("request.timeout.ms", str(_TIMEOUT_MS // 2))
    try:
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
    except TypeError as error:  # what py4j says of a class that is not there
        raise StreamletError(
            "this session has no Kafka connector; make it with session(jars=connector_jars()), "
            "with spark.jars of your own, or take connector='python'"
        ) from error
    try:
        described = admin.describeTopics(wanted).allTopicNames().get()
        return {topic: of(described[topic]) for topic in topics}
    except Py4JJavaError as error:
        # The future's error has Kafka's as its cause; a message may name a topic of any name.
        cause, reason = error.java_exception.getCause(), str(error.java_exception)
        if cause is not None and cause.getClass().getName() == _UNKNOWN_TOPIC:
            there = set(admin.listTopics().names().get())
            missing = sorted(set(topics) - there)
            text = f"topic does not exist: {', '.join(missing)}"
            raise MissingTopicError(text, hidden=missing, written=used.only_written) from None
        refused = cause and refusal(cause.getClass().getName(), str(cause.getMessage()), used)
        if refused:
            raise refused from None
        raise BrokerError(f"the broker does not answer Spark's client: {reason}") from None
    finally:
        admin.close()
