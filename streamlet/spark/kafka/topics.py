"""The topics of a query: a stream of them, their partitions, their ids, what they take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

from streamlet.errors import MissingTopicError, StreamletError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.limits import TopicLimits
from streamlet.spark.kafka.used_topics import UsedTopics
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
    """A source by our own client: rows of ``schemas.PACKED``, on their way to the tasks.

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
    """The start of each partition without a checkpoint, in the form of ``python_kafka.reading``."""
    resets = {
        topic: str(node.reset or reset)
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


def counts_by_client(
    used: UsedTopics, bootstrap_servers: str, client: Mapping[str, Any]
) -> dict[str, int]:
    """Partitions of each topic, asked by our own client.

    Raises:
        MissingTopicError: a topic does not exist, or may not be seen.
        BrokerError: the broker does not answer.
    """
    with closing(KafkaAdmin(bootstrap_servers, dict(client))) as admin:
        there = admin.topics()
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


def topic_ids(ready: Prepared) -> dict[str, str]:
    """The ids of the topics that an application reads, by the client that reads them.

    Raises:
        BrokerError: the broker does not answer.
    """
    clients = ready.clients
    assert clients is not None
    with closing(KafkaAdmin(clients.bootstrap_servers, dict(clients.admin))) as admin:
        return admin.topic_ids(ready.topology.source_topics)


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
