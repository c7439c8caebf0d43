"""An application as a streaming DataFrame, and as a running query."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from streamlet.errors import ConfigError
from streamlet.spark import topics
from streamlet.spark.plan import Plan, plan
from streamlet.spark.reference import Application, reference_of, resolve
from streamlet.spark.session import PROVIDER_SETTING, ROCKSDB_PROVIDER, require_pyspark
from streamlet.topology.graph import Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streamlet.spark.processor import Options

Output = Literal["updates", "latest"]


def to_dataframe(
    app: Application | str,
    spark: SparkSession,
    *,
    source: DataFrame | None = None,
    partitions: Mapping[str, int] | None = None,
    bootstrap_servers: str | None = None,
    kafka: Mapping[str, str] | None = None,
    max_records_per_batch: int | None = None,
    output: Output = "updates",
    options: Options | None = None,
) -> DataFrame:
    """What an application writes to its topics, as a DataFrame for any query.

    The tasks, operators and stores are those of a native run; Spark keeps their state. Rows have
    ``key``, ``value``, ``topic``, ``partition`` (null: the key decides), ``timestamp`` (ms since
    the epoch) and ``headers``. A query over it must use the output mode ``update`` or ``append``,
    and a checkpoint of its own.

    Args:
        app: a module's variable, or ``module:attribute``.
        spark: a session, see ``session``.
        source: records in place of Kafka's, streaming, with the columns of Spark's Kafka source;
            ``timestamp`` may be ms since the epoch. Needs ``partitions``.
        partitions: partitions of the source topics; asked of the broker if not given.
        bootstrap_servers: in place of the application's.
        kafka: settings of the Java client, such as ``security.protocol``.
        max_records_per_batch: read from Kafka's streams; None for all there are.
        output: ``updates`` for every record, as natively; ``latest`` for the last per topic, key
            and micro-batch of each task, which is enough where a topic is read as a table.
        options: how stages run, for tests; overrides ``output``.

    Raises:
        AppNotFoundError: workers cannot import the application.
        ConfigError: settings that Spark cannot carry out.
        TopologyError: a topology that cannot be one query.
        MissingTopicError: a source topic does not exist.
        BrokerError: the broker does not answer.
    """
    require_pyspark()
    from streamlet.spark.processor import Options

    reference = reference_of(app)
    found = resolve(reference)
    topology = found.topology()
    _check_supported(found)
    client = {
        "bootstrap.servers": bootstrap_servers or found.settings.bootstrap_servers,
        **(kafka or {}),
    }
    laid_out = _planned(reference, topology, spark, source, partitions, client)
    if laid_out.stages:
        _check_state_store(spark)
    if source is None:
        source = topics.source(
            spark,
            topology,
            laid_out.counts,
            client,
            reset=found.settings.auto_offset_reset,
            max_records=max_records_per_batch,
        )
    return assemble(laid_out, source, options or Options(last_only=output == "latest"))


def assemble(laid_out: Plan, source: DataFrame, options: Options) -> DataFrame:
    """The operators of a plan over a source."""
    from streamlet.spark.columns import OUTPUT_SCHEMA, source_columns
    from streamlet.spark.packing import PACKED_SCHEMA
    from streamlet.spark.processor import StageProcessor
    from streamlet.spark.tasks import MapTasks, Pack, Unpack

    rows = source_columns(source)
    if not laid_out.stages:
        return rows.mapInArrow(MapTasks(laid_out), OUTPUT_SCHEMA)
    rows = rows.mapInArrow(Pack(laid_out), PACKED_SCHEMA)
    for stage in range(len(laid_out.stages)):
        rows = rows.groupBy("group").transformWithState(
            statefulProcessor=StageProcessor(laid_out, stage, options),
            outputStructType=PACKED_SCHEMA,
            outputMode="Update",
            timeMode="None",
        )
    return rows.mapInArrow(Unpack(), OUTPUT_SCHEMA)


def start(
    app: Application | str,
    spark: SparkSession,
    *,
    checkpoint: Path | str,
    trigger: str = "1s",
    bootstrap_servers: str | None = None,
    kafka: Mapping[str, str] | None = None,
    max_records_per_batch: int | None = None,
    output: Output = "updates",
    name: str | None = None,
) -> StreamingQuery:
    """Run an application as a Structured Streaming query from Kafka to Kafka.

    State is exact after any crash: positions and state lie in the checkpoint, in one piece per
    batch. What was written behind the last batch may be written again. Spark's Kafka sink gives
    records the time they are written at.

    Args:
        app: a module's variable, or ``module:attribute``.
        spark: a session with the Kafka connector, see ``session`` and ``connector_jars``.
        checkpoint: folder or URL that belongs to this query alone; the same one goes on.
        trigger: time from batch to batch, as ``1s`` or ``500 milliseconds``, or ``available-now``:
            process what is there and end.
        bootstrap_servers: in place of the application's.
        kafka: settings of the Java clients, such as ``security.protocol``.
        max_records_per_batch: read from Kafka's streams; None for all there are.
        output: see ``to_dataframe``.
        name: of the query; unique in the session.

    Raises:
        StreamletError: as ``to_dataframe``.
    """
    rows = to_dataframe(
        app,
        spark,
        bootstrap_servers=bootstrap_servers,
        kafka=kafka,
        max_records_per_batch=max_records_per_batch,
        output=output,
    )
    found = resolve(reference_of(app))
    client = {
        "bootstrap.servers": bootstrap_servers or found.settings.bootstrap_servers,
        **(kafka or {}),
    }
    writer = (
        rows.drop("timestamp")
        .writeStream.format("kafka")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
    )
    for key, value in sorted(client.items()):
        writer = writer.option(f"kafka.{key}", value)
    if name is not None:
        writer = writer.queryName(name)
    return writer.trigger(**_trigger(trigger)).start()


def _planned(
    reference: str,
    topology: Topology,
    spark: SparkSession,
    source: DataFrame | None,
    partitions: Mapping[str, int] | None,
    client: Mapping[str, str],
) -> Plan:
    if partitions is None:
        if source is not None:
            raise ConfigError(["partitions: needed where the records do not come from Kafka"])
        written = _outside(topology)
        partitions = topics.partition_counts(spark, {*topology.source_topics, *written}, client)
    return plan(reference, topology, partitions, partitions)


def _outside(topology: Topology) -> set[str]:
    """Topics written that others read."""
    written = {topic for part in topology.subtopologies for topic in part.output_topics}
    return written - set(topology.repartition_topics)


def _check_supported(app: Application) -> None:
    problems = []
    guarantee = app.settings.processing_guarantee
    if guarantee != "at_least_once":
        problems.append(
            f"processing.guarantee: Spark's Kafka sink cannot do {guarantee}; use "
            "at_least_once, or run natively. State is exact in either case"
        )
    if app.settings.auto_offset_reset == "none":
        problems.append(
            "auto.offset.reset: on Spark a query without a checkpoint begins somewhere; use "
            "earliest or latest"
        )
    if problems:
        raise ConfigError(problems)


def _check_state_store(spark: SparkSession) -> None:
    provider = spark.conf.get(PROVIDER_SETTING, "")
    if provider != ROCKSDB_PROVIDER:
        raise ConfigError(
            [f"{PROVIDER_SETTING}: tasks with state need {ROCKSDB_PROVIDER}, not {provider}"]
        )


def _trigger(text: str) -> dict[str, Any]:
    if text == "available-now":
        return {"availableNow": True}
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip()
    known = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "min": "minutes"}
    if not number.isdigit() or not unit:
        raise ConfigError([f"trigger {text!r}: expected a time as 1s or 500ms, or available-now"])
    return {"processingTime": f"{number} {known.get(unit, unit)}"}
