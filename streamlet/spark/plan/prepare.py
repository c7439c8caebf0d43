"""Finds out whether and how an application can be a Spark query, before there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import attrs

from streamlet.config import Settings
from streamlet.errors import ConfigError, TopologyError
from streamlet.logs import get_logger
from streamlet.spark.cluster.session import PROVIDER_SETTING, ROCKSDB_PROVIDER, require_pyspark
from streamlet.spark.kafka import topics
from streamlet.spark.kafka.used_topics import UsedTopics
from streamlet.spark.plan.folds import Fold, Unfit
from streamlet.spark.plan.plan import SparkPlan, plan
from streamlet.spark.plan.reference import Application, query_topology, reference_of, resolve
from streamlet.spark.plan.refusals import refuse
from streamlet.spark.rows.folding import folds_of
from streamlet.topology.graph import Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamlet.spark.kafka.clients import Clients

log = get_logger(__name__)

OutputKind = Literal["updates", "latest"]
Aggregations = Literal["sql", "tasks"]


@attrs.frozen
class QueryRequest:
    """The requested output, and how it is made."""

    output: OutputKind = "updates"
    aggregations: Aggregations | None = None
    #: How the checkpoint was begun, if it was.
    begun: Aggregations | None = None
    #: False where the rows go elsewhere than to Kafka's topics, which need not be there then.
    writes: bool = True


@attrs.frozen
class Prepared:
    """An application that was found fit for Spark, over topics whose partitions are known."""

    topology: Topology
    plan: SparkPlan
    settings: Settings
    #: The topics outside.
    #: How to reach Kafka; None where the records come from elsewhere.
    clients: Clients | None
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


def prepare(
    app: Application | str,
    spark: SparkSession,
    where: Where,
    request: QueryRequest,
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
    refuse(found, topology, chosen)
    _tell_of_origins(topology)
    folds, reason = _folds(found, request)
    clients = None
    used = UsedTopics(
        frozenset(topology.source_topics), frozenset(_written(topology) | found.policy.topics)
    )
    if source is None:
        from streamlet.spark.kafka.clients import Clients

        bootstrap = where.bootstrap_servers or chosen.bootstrap_servers
        kinds = (chosen.client_config(kind) for kind in ("main.consumer", "producer", "admin"))
        clients = Clients(bootstrap, *kinds)
    if partitions is None:
        if clients is None:
            raise ConfigError(["partitions: needed where the records do not come from Kafka"])
        partitions = topics.counts_by_client(used, clients.bootstrap_servers, clients.admin)
    laid_out = plan(reference, topology, partitions, partitions)
    if clients is not None and request.writes:
        given = clients.bootstrap_servers, clients.admin
        laid_out = attrs.evolve(laid_out, written=topics.written_topics(used.written, *given))
    if laid_out.stages and not folds:
        _check_state_store(spark)
    return Prepared(topology, laid_out, chosen, clients, folds, reason)


def _folds(app: Application, request: QueryRequest) -> tuple[tuple[Fold, ...], str]:
    """The aggregations that Spark SQL is to do, or why it is to do none.

    Raises:
        TopologyError: it must, and would not be equal.
        ConfigError: it must, and every update is asked for.
    """
    asked = request.aggregations
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
    if request.output == "latest" and (asked == "sql" or request.begun != "tasks"):
        return found, ""
    if asked == "sql":
        raise ConfigError(
            [
                "aggregations='sql': Spark SQL gives the last value per key and batch, not every "
                "update; it needs output='latest'"
            ]
        )
    if request.begun == "tasks":
        return (), "the checkpoint was begun so"
    return (), "every update is asked for; output='latest' would let Spark SQL do it"


def _written(topology: Topology) -> set[str]:
    """Topics written that others read."""
    written = {topic for part in topology.subtopologies for topic in part.output_topics}
    return written - set(topology.repartition_topics)


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
