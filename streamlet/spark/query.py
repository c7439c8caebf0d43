"""An application as a streaming DataFrame, and as a running query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from streamlet.config import Settings
from streamlet.errors import ConfigError
from streamlet.spark import checkpoint as checkpoints
from streamlet.spark import topics
from streamlet.spark.placement import shuffle_partitions as shuffle_partitions_for
from streamlet.spark.plan import Plan, plan
from streamlet.spark.pushdown import pushed
from streamlet.spark.reference import Application, reference_of, resolve
from streamlet.spark.security import java_settings
from streamlet.spark.session import PROVIDER_SETTING, ROCKSDB_PROVIDER, require_pyspark
from streamlet.topology.graph import Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from streamlet.spark.processor import Options

_SHUFFLE_SETTING = "spark.sql.shuffle.partitions"

OutputKind = Literal["updates", "latest"]
Connector = Literal["java", "python"]


@attrs.frozen
class _Prepared:
    """An application that was found fit for Spark, over topics whose partitions are known."""

    topology: Topology
    plan: Plan
    settings: Settings
    #: Settings of the Java client.
    client: Mapping[str, str]
    #: Settings of our own client, where it takes the place of Java's.
    python: Mapping[str, Any] | None
    #: Whether dead letters are written.
    letters: bool


def to_dataframe(
    app: Application | str,
    spark: SparkSession,
    *,
    source: DataFrame | None = None,
    partitions: Mapping[str, int] | None = None,
    bootstrap_servers: str | None = None,
    settings: Settings | None = None,
    kafka: Mapping[str, str] | None = None,
    max_records_per_batch: int | None = None,
    output: OutputKind = "updates",
    connector: Connector | None = None,
    options: Options | None = None,
) -> DataFrame:
    """What an application writes to its topics, as a DataFrame for any query.

    The tasks, operators and stores are those of a native run; Spark keeps their state. Rows have
    ``key``, ``value``, ``topic``, ``partition`` (null: the key decides), ``timestamp`` (ms since
    the epoch) and ``headers``. A query over it must use the output mode ``update`` or ``append``,
    and a checkpoint of its own; with another topology or other partition counts it needs a new one.
    Within a batch, records that meet in a task come in the order of their times; a batch comes
    after the one before it, whatever the times.

    Args:
        app: a module's variable, or ``module:attribute``.
        spark: a session, see ``session``.
        source: records in place of Kafka's, streaming, with the columns of Spark's Kafka source;
            ``timestamp`` may be ms since the epoch. Needs ``partitions``.
        partitions: partitions of the source topics; asked of the broker if not given.
        bootstrap_servers: over the settings.
        settings: in place of the application's.
        kafka: settings of the Java client, such as ``security.protocol``, in place of those that
            follow from the application's.
        max_records_per_batch: read from Kafka's streams; None for all there are.
        output: ``updates`` for every record, as natively; ``latest`` for the last per topic, key
            and micro-batch of each task, which is enough where a topic is read as a table.
        connector: who reads Kafka, Java's connector or our own; None for Java's if it is there.
        options: how stages run, for tests; overrides ``output``.

    Raises:
        AppNotFoundError: workers cannot import the application.
        ConfigError: settings that Spark cannot carry out.
        TopologyError: a topology that cannot be one query.
        MissingTopicError: a topic read or written does not exist.
        BrokerError: the broker does not answer.
    """
    where = (bootstrap_servers, settings, kafka, connector)
    ready = _prepare(app, spark, source, partitions, *where)
    return _frame(ready, spark, source, max_records_per_batch, output, options)


def start(
    app: Application | str,
    spark: SparkSession,
    *,
    checkpoint: Path | str,
    trigger: str = "1s",
    bootstrap_servers: str | None = None,
    settings: Settings | None = None,
    kafka: Mapping[str, str] | None = None,
    max_records_per_batch: int | None = None,
    output: OutputKind = "updates",
    connector: Connector | None = None,
    name: str | None = None,
    shuffle_partitions: int | None = None,
) -> StreamingQuery:
    """Run an application as a Structured Streaming query from Kafka to Kafka.

    State is exact after any crash: positions and state lie in the checkpoint, in one piece per
    batch. What was written behind the last batch may be written again. Java's connector gives
    records the time they are written at; our own writes them with their times.

    Args:
        app: a module's variable, or ``module:attribute``.
        spark: a session with the Kafka connector, see ``session`` and ``connector_jars``.
        checkpoint: folder or URL that belongs to this query alone; the same one goes on.
        trigger: time from batch to batch, as ``1s`` or ``500ms``, or ``available-now``: process
            what is there and end.
        bootstrap_servers: over the settings.
        settings: in place of the application's.
        kafka: as of ``to_dataframe``.
        max_records_per_batch: read from Kafka's streams; None for all there are.
        output: see ``to_dataframe``.
        connector: who reads and writes Kafka, Java's connector or our own, which is slower and
            needs no jars; None for Java's if the session has it.
        name: of the query; unique in the session.
        shuffle_partitions: over which the tasks of a stage are dealt out; a checkpoint keeps its
            first number. None: as many as there are cores, at most one per task.

    Raises:
        StateError: the checkpoint is of something else.
        StreamletError: as ``to_dataframe``.
    """
    rhythm = _trigger(trigger)
    where = (bootstrap_servers, settings, kafka, connector)
    ready = _prepare(app, spark, None, None, *where)
    frame = _frame(ready, spark, None, max_records_per_batch, output, None, _sunk(ready))
    checkpoints.check(spark, str(checkpoint), ready.topology, ready.plan)
    writer = _sink(frame, ready).option("checkpointLocation", str(checkpoint))
    if name is not None:
        writer = writer.queryName(name)
    with _shuffling(spark, ready.plan, shuffle_partitions):
        return writer.trigger(**rhythm).start()


def _sunk(ready: _Prepared) -> tuple[str, ...] | None:
    """What Java's sink needs to be told of each record: every column costs time for every record.

    All of it for our own sink. Headers only dead letters have, partitions only what a partitioner
    of the user's writes.
    """
    if ready.python is not None:
        return None
    chosen = any(
        sink.partitioner is not None for part in ready.topology.subtopologies for sink in part.sinks
    )
    partition = ("partition",) if chosen else ()
    return ("key", "value", "topic", *partition, *(("headers",) if ready.letters else ()))


def _sink(frame: DataFrame, ready: _Prepared) -> DataStreamWriter:
    if ready.python is not None:
        from streamlet.spark.python_kafka import FORMAT, options

        chosen = options(ready.client["bootstrap.servers"], ready.python)
        return frame.writeStream.format(FORMAT).options(**chosen).outputMode("append")
    writer = frame.writeStream.format("kafka").outputMode("update")
    for key, value in sorted(ready.client.items()):
        writer = writer.option(f"kafka.{key}", value)
    return writer


def assemble(
    laid_out: Plan, source: DataFrame, options: Options, columns: tuple[str, ...] | None = None
) -> DataFrame:
    """The operators of a plan over a source; of the rows these columns, all if none are named."""
    from streamlet.spark.columns import OUTPUT_COLUMNS, output_schema, source_columns
    from streamlet.spark.packing import PACKED_SCHEMA
    from streamlet.spark.processor import StageProcessor
    from streamlet.spark.tasks import MapTasks, Pack, Unpack

    rows, schema = source_columns(source), output_schema(columns or OUTPUT_COLUMNS)
    if not laid_out.stages:
        return rows.mapInArrow(MapTasks(laid_out, columns), schema)
    rows = rows.mapInArrow(Pack(laid_out), PACKED_SCHEMA)
    for stage in range(len(laid_out.stages)):
        rows = rows.groupBy("group").transformWithState(
            statefulProcessor=StageProcessor(laid_out, stage, options),
            outputStructType=PACKED_SCHEMA,
            outputMode="Update",
            timeMode="None",
        )
    return rows.mapInArrow(Unpack(columns), schema)


def _prepare(
    app: Application | str,
    spark: SparkSession,
    source: DataFrame | None,
    partitions: Mapping[str, int] | None,
    bootstrap_servers: str | None,
    settings: Settings | None,
    kafka: Mapping[str, str] | None,
    connector: Connector | None,
) -> _Prepared:
    require_pyspark()
    reference = reference_of(app)
    found = resolve(reference)
    topology, chosen = found.topology(), settings or found.settings
    _check_settings(chosen)
    client = {"bootstrap.servers": bootstrap_servers or chosen.bootstrap_servers}
    python = None
    if source is None:
        if (connector or ("java" if topics.has_connector(spark) else "python")) == "java":
            client |= kafka if kafka is not None else java_settings(chosen.security)
        elif kafka:
            raise ConfigError(["kafka: Java's settings, and streamlet's own client reads here"])
        else:
            python = chosen.security
    if partitions is None:
        if source is not None:
            raise ConfigError(["partitions: needed where the records do not come from Kafka"])
        wanted = {*topology.source_topics, *_written(topology)}
        if found.policy.topic is not None:
            wanted.add(found.policy.topic)
        if python is None:
            partitions = topics.partition_counts(spark, wanted, client)
        else:
            servers = client["bootstrap.servers"]
            partitions = topics.counts_by_client(wanted, servers, python)
    laid_out = plan(reference, topology, partitions, partitions)
    if laid_out.stages:
        _check_state_store(spark)
    letters = found.policy.topic is not None
    return _Prepared(topology, laid_out, chosen, client, python, letters)


def _frame(
    ready: _Prepared,
    spark: SparkSession,
    source: DataFrame | None,
    max_records: int | None,
    output: OutputKind,
    options: Options | None,
    columns: tuple[str, ...] | None = None,
) -> DataFrame:
    from streamlet.spark.processor import Options

    if source is None:
        source = topics.source(
            spark,
            ready.topology,
            ready.plan.counts,
            ready.client,
            reset=ready.settings.auto_offset_reset,
            max_records=max_records,
            python=ready.python,
        )
    chosen = options or Options(last_only=output == "latest")
    return assemble(ready.plan, pushed(source, ready.topology, ready.plan.mapped), chosen, columns)


@contextmanager
def _shuffling(spark: SparkSession, laid_out: Plan, given: int | None) -> Iterator[None]:
    """Start a query with a number of its own; it copies the session's settings when it starts."""
    tasks = max((len(stage.tasks) for stage in laid_out.stages), default=1)
    number = given or shuffle_partitions_for(tasks, spark.sparkContext.defaultParallelism)
    before = spark.conf.get(_SHUFFLE_SETTING)
    spark.conf.set(_SHUFFLE_SETTING, str(number))
    try:
        yield
    finally:
        spark.conf.set(_SHUFFLE_SETTING, before or "200")


def _written(topology: Topology) -> set[str]:
    """Topics written that others read."""
    written = {topic for part in topology.subtopologies for topic in part.output_topics}
    return written - set(topology.repartition_topics)


def _check_settings(settings: Settings) -> None:
    problems = []
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


def _check_state_store(spark: SparkSession) -> None:
    provider = spark.conf.get(PROVIDER_SETTING, "")
    if provider != ROCKSDB_PROVIDER:
        raise ConfigError(
            [
                f"{PROVIDER_SETTING}: tasks with state need {ROCKSDB_PROVIDER}, "
                f"not {provider or 'the default'}"
            ]
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
