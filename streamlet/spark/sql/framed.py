"""An application over DataFrames with typed columns, and over Kafka's topics beside them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

import attrs

from streamlet.errors import ConfigError
from streamlet.spark.cluster.shipping import ship
from streamlet.spark.kafka import topics
from streamlet.spark.kafka.used_topics import UsedTopics
from streamlet.spark.plan.prepare import Prepared, QueryRequest, Where, prepare
from streamlet.spark.plan.reference import Application, reference_of, resolve
from streamlet.spark.rows.schemas import OUTPUT_COLUMNS
from streamlet.spark.sql import frames
from streamlet.spark.sql.frame_columns import FrameSource
from streamlet.spark.sql.frame_sources import (
    Source,
    default_counts,
    frame_sources,
    packed_frame,
)
from streamlet.topology.graph import Topology
from streamlet.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamlet.spark.state.processor import Options


def framed(
    app: Application | str,
    spark: SparkSession,
    where: Where,
    request: QueryRequest,
    sources: Mapping[str, Source],
    partitions: Mapping[str, int] | None,
    max_records: int | None,
    options: Options | None,
    *,
    every: bool,
) -> tuple[Prepared, DataFrame]:
    """An application and its outputs, in bytes, as ``query.to_dataframe`` describes.

    ``every`` is true if the records of all output topics are wanted.

    Raises:
        StreamletError: as there.
    """
    from streamlet.spark.state.processor import Options

    chosen = options or Options(last_only=request.output == "latest")
    if request.aggregations == "sql":
        raise ConfigError(["sources: with them tasks do the aggregations, not Spark SQL"])
    reference = reference_of(app)
    found = resolve(reference)
    topology = found.topology()
    by_topic, _ = frame_sources(topology, sources)
    counts = dict(partitions or {})
    unknown = set(topology.source_topics) - by_topic.keys() - counts.keys()
    if unknown:
        settings = where.settings or found.settings
        bootstrap = where.bootstrap_servers or settings.bootstrap_servers
        used = UsedTopics(frozenset(unknown))
        counts |= topics.counts_by_client(used, bootstrap, settings.client_config("admin"))
    counts = default_counts(topology, by_topic, counts)
    counts |= _chosen_for(topology, counts, every)
    request = attrs.evolve(request, aggregations="tasks")
    ready = prepare(app, spark, where, request, None, counts)
    ship(spark, ready.plan.reference)
    rows = packed_rows(spark, ready, by_topic, max_records)
    chosen = attrs.evolve(chosen, clients=ready.clients, by_time=True)
    staged = frames.staged(ready.plan, rows, chosen)
    return ready, frames.unpacked(staged, OUTPUT_COLUMNS)


def packed_rows(
    spark: SparkSession,
    ready: Prepared,
    sources: Mapping[str, FrameSource],
    max_records: int | None,
    ends: Mapping[TopicPartition, int] | None = None,
) -> DataFrame:
    """The records of all source topics as rows of ``schemas.PACKED``.

    Args:
        spark: the session.
        ready: the application.
        sources: DataFrames by topic; all other topics are read from Kafka.
        max_records: read from Kafka's streams in one micro-batch; None for all there are.
        ends: where reading Kafka ends for good; None: nowhere.
    """
    topology = ready.topology
    packed = [
        packed_frame(spark, ready.plan, topology, topic, source)
        for topic, source in sources.items()
    ]
    if set(topology.source_topics) - sources.keys():
        assert ready.clients is not None
        from_kafka = topics.packed_source(
            spark,
            topology,
            ready.plan,
            ready.clients,
            reset=ready.settings.auto_offset_reset if ends is None else "earliest",
            max_records=max_records,
            besides=sources.keys(),
            ends=ends,
        )
        packed.append(from_kafka)
    return reduce(lambda one, other: one.unionByName(other), packed)


def _chosen_for(topology: Topology, counts: Mapping[str, int], every: bool) -> dict[str, int]:
    """Partitions of the output topics that a partitioner chooses for, where they are not given.

    One, unless the choice matters because records are taken as they are to be written.

    Raises:
        ConfigError: it matters.
    """
    unknown = {
        sink.topic
        for part in topology.subtopologies
        for sink in part.sinks
        if sink.chooses_partitions and sink.topic not in counts
    } - {*topology.repartition_topics}
    if unknown and every:
        raise ConfigError(
            [f"partitions: needed of {', '.join(sorted(unknown))}, for which a partitioner chooses"]
        )
    return dict.fromkeys(unknown, 1)
