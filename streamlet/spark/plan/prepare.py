"""Finds out whether and how an application can be a Spark query, before there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from streamlet.config import Settings
from streamlet.dsl.record_context import InContext
from streamlet.errors import ConfigError, TopologyError
from streamlet.logs import get_logger
from streamlet.processing.policy import ErrorPolicy
from streamlet.spark.cluster.session import PROVIDER_SETTING, ROCKSDB_PROVIDER, require_pyspark
from streamlet.spark.kafka import topics
from streamlet.spark.kafka.security import check_clients, java_settings
from streamlet.spark.plan.folds import Fold, Unfit
from streamlet.spark.plan.plan import SparkPlan, mapped_by, plan
from streamlet.spark.plan.pushdown import filters
from streamlet.spark.plan.reference import Application, query_topology, reference_of, resolve
from streamlet.spark.rows.folding import folds_of
from streamlet.topology.graph import Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamlet.spark.kafka.clients import Clients

log = get_logger(__name__)

OutputKind = Literal["updates", "latest"]
Connector = Literal["java", "python"]
Aggregations = Literal["sql", "tasks"]


@attrs.frozen
class QueryRequest:
    """The requested output, and how it is made."""

    output: OutputKind = "updates"
    aggregations: Aggregations | None = None
    #: How the checkpoint was begun, if it was.
    begun: Aggregations | None = None


@attrs.frozen
class Prepared:
    """An application that was found fit for Spark, over topics whose partitions are known."""

    topology: Topology
    plan: SparkPlan
    settings: Settings
    #: Settings of the Java client.
    client: Mapping[str, str]
    #: Our own clients, where they take the place of Java's.
    clients: Clients | None
    #: Whether dead letters are written.
    letters: bool
    #: Aggregations that Spark SQL does; without any, tasks do them all.
    folds: tuple[Fold, ...] = ()
    #: Why it does none.
    reason: str = ""

    @property
    def aggregations(self) -> dict[str, str]:
        """The aggregations of Spark SQL, by operator."""
        return {fold.node.name: fold.text for fold in self.folds}

    @property
    def text(self) -> str:
        """The engine of the aggregations, in a line."""
        name = self.topology.application
        if not self.folds:
            return f"{name}: Spark SQL aggregates nothing, all is done by tasks: {self.reason}"
        found = "; ".join(f"{node} ({what})" for node, what in self.aggregations.items())
        return f"{name}: Spark SQL aggregates {found}"


@attrs.frozen
class Where:
    """The Kafka settings given beside the application's own."""

    bootstrap_servers: str | None = None
    settings: Settings | None = None
    kafka: Mapping[str, str] | None = None
    connector: Connector | None = None


def prepare(
    app: Application | str,
    spark: SparkSession,
    where: Where,
    wish: QueryRequest,
    source: DataFrame | None = None,
    partitions: Mapping[str, int] | None = None,
) -> Prepared:
    """Look at everything that must be right before a query is made.

    Raises:
        StreamletError: something is not; see ``query.to_dataframe``.
    """
    require_pyspark()
    reference = reference_of(app)
    found = resolve(reference)
    topology, chosen = query_topology(found), where.settings or found.settings
    _check_policy(found.policy)
    _check_settings(chosen, found.settings)
    _check_globals(topology)
    _check_functions(topology)
    _check_partitioners(topology)
    _check_timed(topology)
    _check_patterns(topology)
    _tell_of_origins(topology)
    folds, reason = _folds(found, wish)
    client = {"bootstrap.servers": where.bootstrap_servers or chosen.bootstrap_servers}
    clients = None
    if source is None:
        connector = where.connector or _connector(spark, topology, folds, chosen, where.kafka)
        if connector == "java":
            client |= _java_settings(chosen) if where.kafka is None else where.kafka
        elif where.kafka:
            raise ConfigError(["kafka: Java's settings, and streamlet's own client reads here"])
        else:
            from streamlet.spark.kafka.clients import Clients

            kinds = (chosen.client_config(kind) for kind in ("consumer", "producer", "admin"))
            clients = Clients(client["bootstrap.servers"], *kinds)
    if partitions is None:
        if source is not None:
            raise ConfigError(["partitions: needed where the records do not come from Kafka"])
        wanted = {*topology.source_topics, *_written(topology)}
        wanted |= found.policy.topics
        if clients is None:
            partitions = topics.partition_counts(spark, wanted, client)
        else:
            partitions = topics.counts_by_client(wanted, clients.bootstrap_servers, clients.admin)
    laid_out = plan(reference, topology, partitions, partitions)
    if laid_out.stages and not folds:
        _check_state_store(spark)
    letters = found.policy.writes_letters
    return Prepared(topology, laid_out, chosen, client, clients, letters, folds, reason)


def _folds(app: Application, wish: QueryRequest) -> tuple[tuple[Fold, ...], str]:
    """The aggregations that Spark SQL is to do, or why it is to do none.

    Raises:
        TopologyError: it must, and would not be equal.
        ConfigError: it must, and every update is asked for.
    """
    asked = wish.aggregations
    if asked == "tasks":
        return (), "so it was asked for"
    try:
        found = folds_of(app)
    except Unfit as unfit:
        if asked == "sql":
            raise TopologyError(
                f"{app.name}: Spark SQL cannot do its aggregations with the same result: {unfit}; "
                "aggregations='tasks' can"
            ) from None
        return (), str(unfit)
    if wish.output == "latest" and (asked == "sql" or wish.begun != "tasks"):
        return found, ""
    if asked == "sql":
        raise ConfigError(
            [
                "aggregations='sql': Spark SQL gives the last value per key and batch, not every "
                "update; it needs output='latest'"
            ]
        )
    if wish.begun == "tasks":
        return (), "the checkpoint was begun so"
    return (), "every update is asked for; output='latest' would let Spark SQL do it"


def _connector(
    spark: SparkSession,
    topology: Topology,
    folds: Sequence[Fold],
    settings: Settings,
    kafka: Mapping[str, str] | None,
) -> Connector:
    """Our own, which costs less, unless Java's is there and has something to do that it cannot.

    A filter is not worth it where Spark SQL aggregates: only partial aggregates reach it anyway.
    """
    if not topics.has_connector(spark):
        return "python"
    if kafka is not None:
        return "java"
    if folds or settings.clients:
        return "python"
    return "java" if filters(topology, mapped_by(topology)) else "python"


def _java_settings(settings: Settings) -> dict[str, str]:
    check_clients(settings.clients)
    return java_settings(settings.security)


def _written(topology: Topology) -> set[str]:
    """Topics written that others read."""
    written = {topic for part in topology.subtopologies for topic in part.output_topics}
    return written - set(topology.repartition_topics)


def _check_policy(policy: ErrorPolicy) -> None:
    """Refuse a handler of errors that end a worker.

    Raises:
        ConfigError: there is one.
    """
    if policy.uncaught is not None:
        raise ConfigError(
            [
                "uncaught_handler: not on Spark, which tries a task again itself, and then ends "
                "the query with the error. Leave it out there, and decide about records that fail "
                "with on_error= or processing_handler="
            ]
        )


def _check_settings(settings: Settings, program: Settings) -> None:
    problems = []
    if settings.topology_optimization != program.topology_optimization:
        problems.append(
            "topology.optimization: each of Spark's processes makes the topology for itself, from "
            "the program alone; give it to App(config=…)"
        )
    guarantee = settings.processing_guarantee
    if guarantee != "at_least_once":
        problems.append(
            f"processing.guarantee: Spark's Kafka sink cannot do {guarantee}; --engine native "
            "can, or use at_least_once: state is exact in either case"
        )
    if settings.auto_offset_reset == "none":
        problems.append(
            "auto.offset.reset: on Spark a query without a checkpoint begins somewhere; use "
            "earliest or latest"
        )
    if problems:
        raise ConfigError(problems)


def _check_functions(topology: Topology) -> None:
    """Refuse functions that ask for headers, which are neither read nor written here."""
    context: Any = None  # an operator without stores asks for none
    asking = [
        node.name
        for part in topology.subtopologies
        for node in part.processors
        if not node.stores and isinstance(node.factory(context), InContext)
    ]
    if asking:
        raise TopologyError(
            f"functions with a RecordContext ({', '.join(asking)}) do not run on Spark, where "
            "headers are not read; --engine native can"
        )


def _check_globals(topology: Topology) -> None:
    topics = [table.topic for table in topology.global_tables]
    if topics:
        raise TopologyError(
            f"global tables ({', '.join(topics)}) do not run on Spark, whose tasks live for a "
            "batch and read its records only; --engine native can, or a table() with the same key"
        )


def _check_patterns(topology: Topology) -> None:
    if topology.patterns:
        raise TopologyError(
            f"streams of topics by a pattern ({', '.join(topology.patterns)}) do not run on Spark, "
            "whose checkpoint is of fixed topics; --engine native can, or give the topics by name"
        )


def _check_partitioners(topology: Topology) -> None:
    """Refuse partitioners of repartition topics: Spark shuffles rows by their keys instead."""
    inside = set(topology.repartition_topics)
    sinks = (sink for part in topology.subtopologies for sink in part.sinks)
    found = sorted({sink.topic for sink in sinks if sink.partitioner and sink.topic in inside})
    if found:
        raise TopologyError(
            f"repartition() with a partitioner ({', '.join(found)}) does not run on Spark, which "
            "shuffles rows by their keys; --engine native can"
        )


def _check_timed(topology: Topology) -> None:
    processors = [node for part in topology.subtopologies for node in part.processors]
    punctuated = [node.name for node in processors if node.timed == "with punctuators"]
    if punctuated:
        raise TopologyError(
            f"processors with punctuators ({', '.join(punctuated)}) do not run on Spark, whose "
            "batches have no clock and begin processors again; --engine native can"
        )
    timed = [node.name for node in processors if node.timed == "by the clock"]
    if timed:
        raise TopologyError(
            f"results that come by the clock ({', '.join(timed)}: close_idle_after, emit_interval "
            "or timers='wall_clock') do not run on Spark, whose batches have no clock; "
            "--engine native can"
        )


def _tell_of_origins(topology: Topology) -> None:
    """Warn of topics with origins, which are written without them here."""
    topics = sorted(topology.topics_with_origins)
    if topics:
        log.warning(
            "records of %s have no origins on Spark, so readers cannot tell repetitions",
            ", ".join(topics),
        )


def _check_state_store(spark: SparkSession) -> None:
    provider = spark.conf.get(PROVIDER_SETTING, "")
    if provider != ROCKSDB_PROVIDER:
        raise ConfigError(
            [
                f"{PROVIDER_SETTING}: tasks with state need {ROCKSDB_PROVIDER}, "
                f"not {provider or 'the default'}"
            ]
        )
