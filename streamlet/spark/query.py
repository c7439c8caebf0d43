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
from streamlet.spark import frames, topics
from streamlet.spark.placement import shuffle_partitions as shuffle_partitions_for
from streamlet.spark.plan import Plan, mapped_by, plan
from streamlet.spark.pushdown import filters, pushed
from streamlet.spark.reference import Application, reference_of, resolve
from streamlet.spark.security import check_clients, java_settings
from streamlet.spark.session import PROVIDER_SETTING, ROCKSDB_PROVIDER, require_pyspark
from streamlet.topology.graph import Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from streamlet.spark.processor import Options
    from streamlet.spark.python_kafka import Clients

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
    #: Our own clients, where they take the place of Java's.
    clients: Clients | None
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
        connector: who reads Kafka, Java's connector or our own, see ``start``.
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
    from streamlet.spark.columns import OUTPUT_COLUMNS

    return _frame(ready, spark, source, max_records_per_batch, output, options, OUTPUT_COLUMNS)


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
    batch. What was written behind the last batch may be written again. Our own client writes
    records with their times; Java's connector gives them the time they are written at.

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
        connector: who reads and writes Kafka, Java's connector or our own client. None for our
            own, unless the session has Java's and there are settings for it (``kafka``) or a filter
            that SQL may judge before Python sees the records.
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

    None for our own sink, which takes rows packed. Headers only dead letters have, partitions only
    what a partitioner of the user's writes.
    """
    if ready.clients is not None:
        return None
    chosen = any(
        sink.partitioner is not None for part in ready.topology.subtopologies for sink in part.sinks
    )
    partition = ("partition",) if chosen else ()
    return ("key", "value", "topic", *partition, *(("headers",) if ready.letters else ()))


def _sink(frame: DataFrame, ready: _Prepared) -> DataStreamWriter:
    if ready.clients is not None:
        from streamlet.spark.python_kafka import FORMAT, writing

        chosen = writing(ready.clients)
        return frame.writeStream.format(FORMAT).options(**chosen).outputMode("append")
    writer = frame.writeStream.format("kafka").outputMode("update")
    for key, value in sorted(ready.client.items()):
        writer = writer.option(f"kafka.{key}", value)
    return writer


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
    clients = None
    if source is None:
        if (connector or _connector(spark, topology, chosen, kafka)) == "java":
            client |= _java_settings(chosen) if kafka is None else kafka
        elif kafka:
            raise ConfigError(["kafka: Java's settings, and streamlet's own client reads here"])
        else:
            from streamlet.spark.python_kafka import Clients

            kinds = (chosen.client_config(kind) for kind in ("consumer", "producer", "admin"))
            clients = Clients(client["bootstrap.servers"], *kinds)
    if partitions is None:
        if source is not None:
            raise ConfigError(["partitions: needed where the records do not come from Kafka"])
        wanted = {*topology.source_topics, *_written(topology)}
        if found.policy.topic is not None:
            wanted.add(found.policy.topic)
        if clients is None:
            partitions = topics.partition_counts(spark, wanted, client)
        else:
            partitions = topics.counts_by_client(wanted, clients.bootstrap_servers, clients.admin)
    laid_out = plan(reference, topology, partitions, partitions)
    if laid_out.stages:
        _check_state_store(spark)
    letters = found.policy.topic is not None
    return _Prepared(topology, laid_out, chosen, client, clients, letters)


def _connector(
    spark: SparkSession,
    topology: Topology,
    settings: Settings,
    kafka: Mapping[str, str] | None,
) -> Connector:
    """Our own, which costs less, unless Java's is there and has something to do that it cannot."""
    if not topics.has_connector(spark):
        return "python"
    if kafka is not None:
        return "java"
    sql = filters(topology, mapped_by(topology)) and not settings.clients
    return "java" if sql else "python"


def _java_settings(settings: Settings) -> dict[str, str]:
    check_clients(settings.clients)
    return java_settings(settings.security)


def _frame(
    ready: _Prepared,
    spark: SparkSession,
    source: DataFrame | None,
    max_records: int | None,
    output: OutputKind,
    options: Options | None,
    columns: tuple[str, ...] | None,
) -> DataFrame:
    """What is written, as rows with these columns; None: packed, from and for our own client."""
    from streamlet.spark.processor import Options

    chosen = options or Options(last_only=output == "latest")
    reset = ready.settings.auto_offset_reset
    if source is None and ready.clients is not None:
        where = (ready.topology, ready.plan, ready.clients)
        packed = topics.packed_source(spark, *where, reset=reset, max_records=max_records)
        staged = frames.staged(ready.plan, packed, chosen)
        return staged if columns is None else frames.unpacked(staged, columns)
    if source is None:
        where_java = (ready.topology, ready.plan.counts, ready.client)
        source = topics.source(spark, *where_java, reset=reset, max_records=max_records)
    assert columns is not None
    source = pushed(source, ready.topology, ready.plan.mapped)
    return frames.assemble(ready.plan, source, chosen, columns)


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
