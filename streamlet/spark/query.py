"""An application as a streaming DataFrame, and as a running query."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.config import Settings
from streamlet.config.spark import MAX_RECORDS_PER_BATCH
from streamlet.errors import ConfigError
from streamlet.logs import get_logger
from streamlet.spark import checkpoint as checkpoints
from streamlet.spark import checkpoint_lock, query_settings
from streamlet.spark.cluster.session import require_pyspark
from streamlet.spark.cluster.shipping import ship
from streamlet.spark.kafka import topics
from streamlet.spark.plan.prepare import (
    Aggregations,
    OutputKind,
    Prepared,
    QueryRequest,
    Where,
    prepare,
)
from streamlet.spark.plan.reference import Application
from streamlet.spark.rows.schemas import OUTPUT_COLUMNS
from streamlet.spark.sql import frames
from streamlet.spark.sql.framed import framed
from streamlet.spark.sql.typed_columns import ALL_TOPICS, only_topic, typed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from streamlet.spark.sql.frame_sources import Source
    from streamlet.spark.state.processor import Options

log = get_logger(__name__)

#: Short units of the time between batches, besides those that Spark takes itself.
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "min": "minutes", "h": "hours"}
_TRIGGER = re.compile(
    rf"([0-9]+) *({'|'.join(_UNITS)}|((micro|milli)?second|minute|hour|day|week)s?) *"
)


def to_dataframe(
    app: Application | str,
    spark: SparkSession,
    *,
    source: DataFrame | None = None,
    sources: Mapping[str, Source] | None = None,
    topic: str | None = None,
    partitions: Mapping[str, int] | None = None,
    bootstrap_servers: str | None = None,
    settings: Settings | None = None,
    max_records_per_batch: int | None = None,
    output: OutputKind = "updates",
    aggregations: Aggregations | None = None,
    options: Options | None = None,
) -> DataFrame:
    """The outputs of an application, as a DataFrame for any query: docs/spark-dataframes.md.

    Tasks, operators and stores are those of a native run; Spark keeps their state. Rows have
    ``key``, ``value``, ``topic``, ``partition`` (null: the key decides), ``timestamp`` (ms since
    the epoch) and ``headers``. A query over it has the output mode ``update``, or ``append`` where
    Spark SQL aggregates nothing, and a checkpoint of its own, which fits one topology and its
    partition counts. Over bounded ``sources`` it is bounded itself, and needs neither.

    Args:
        app: a module's variable, or ``module:attribute``.
        spark: a session, see ``session``.
        source: records in place of Kafka's, streaming, with the columns of Spark's Kafka source;
            ``timestamp`` may be ms since the epoch. Needs ``partitions``.
        sources: typed DataFrames in place of topics, see ``FrameSource``; others are Kafka's.
        topic: the output topic that is wanted, see ``typed``; ``*`` for the records of all topics,
            in bytes. None: the only one with ``sources``, ``*`` without.
        partitions: of the source topics; those of Kafka are asked of the broker, where not given.
        bootstrap_servers: over the settings.
        settings: in place of the application's.
        max_records_per_batch: read from Kafka's streams; None for all there are.
        output: ``updates`` for every record; ``latest`` for the last per topic, key and batch.
        aggregations: ``sql`` to have Spark SQL do them (needs ``latest``), or ``tasks``; None:
            Spark SQL if it ends with the same value per key.
        options: how stages run, for tests; overrides ``output``, and leaves all to the tasks.

    Raises:
        StreamletError: it cannot be; the message says why, and what to do instead.
    """
    where = Where(bootstrap_servers, settings)
    asked = QueryRequest(output, aggregations if options is None else "tasks", writes=False)
    if sources is not None and source is None:
        topic = topic or only_topic(app)
        limits = (partitions, max_records_per_batch, options)
        ready, rows = framed(app, spark, where, asked, sources, *limits, every=topic == ALL_TOPICS)
    elif sources is not None:
        raise ConfigError(["source: is for the records of all topics, and sources are given too"])
    else:
        ready = prepare(app, spark, where, asked, source, partitions)
        ship(spark, ready.plan.reference)
        how = max_records_per_batch, output, options
        rows = _frame(ready, spark, source, *how, OUTPUT_COLUMNS)
    query_settings.warn_of_many(spark, ready.plan, rows)
    return rows if topic in (None, ALL_TOPICS) else typed(rows, app, topic)


def start(
    app: Application | str,
    spark: SparkSession,
    *,
    checkpoint: Path | str,
    trigger: str = "1s",
    bootstrap_servers: str | None = None,
    settings: Settings | None = None,
    max_records_per_batch: int | None = MAX_RECORDS_PER_BATCH,
    output: OutputKind = "updates",
    aggregations: Aggregations | None = None,
    name: str | None = None,
    shuffle_partitions: int | None = None,
    notify: Callable[[str], None] = log.info,
) -> StreamingQuery:
    """Run an application as a Structured Streaming query from Kafka to Kafka.

    State is exact after any crash: positions and state lie in the checkpoint, in one piece per
    batch. What was written behind the last batch may be written again.

    Args:
        app: a module's variable, or ``module:attribute``.
        spark: a session, see ``session``.
        checkpoint: folder or URL that belongs to this query alone; the same one goes on.
        trigger: time between batches (``1s``, ``500ms``), or ``available-now``: once, then end.
        bootstrap_servers: over the settings.
        settings: in place of the application's.
        max_records_per_batch: about as many are read of streams; None for all there are.
        output: see ``to_dataframe``.
        aggregations: as of ``to_dataframe``; None goes on as the checkpoint was begun.
        name: of the query, in Spark's UI and progress; unique in the session. None: that of the
            application, unless a query that runs has it.
        shuffle_partitions: over which the tasks of a stage are dealt out; a checkpoint keeps its
            first number. None: as many as there are cores, at most one per task.
        notify: gets a line about aggregations by Spark SQL; the log if not given.

    Raises:
        StateError: the checkpoint is of something else, or another query has it (StateLockedError).
        StreamletError: as ``to_dataframe``.
    """
    rhythm = trigger_options(trigger)
    require_pyspark()
    topics.require_classic(spark)
    where, place = Where(bootstrap_servers, settings), str(checkpoint)
    with checkpoint_lock.locked(spark, place, notify) as keep:
        begun = checkpoints.begun(spark, place)
        ready = prepare(app, spark, where, QueryRequest(output, aggregations, begun))
        ship(spark, ready.plan.reference, place)
        frame = _frame(ready, spark, None, max_records_per_batch, output, None, None)
        ids = topics.topic_ids(ready)
        now = checkpoints.described(ready.topology, ready.plan, ready.aggregations, ids)
        checkpoints.check(spark, place, now, ready.reason)
        notify(ready.text)
        writer = _sink(frame, ready).option("checkpointLocation", place)
        writer = _named(writer, spark, ready.topology.application, name)
        chosen = query_settings.of_query(spark, ready, place, shuffle_partitions)
        with query_settings.settings(spark, chosen):
            query = writer.trigger(**rhythm).start()
        keep(query)
        return query


def _named(
    writer: DataStreamWriter, spark: SparkSession, application: str, given: str | None
) -> DataStreamWriter:
    running = {query.name for query in spark.streams.active}
    if given is not None and given in running:
        raise ConfigError([f"name: a query that runs in this session has the name {given!r}"])
    name = given or (None if application in running else application)
    return writer if name is None else writer.queryName(name)


def _sink(frame: DataFrame, ready: Prepared) -> DataStreamWriter:
    from streamlet.spark.kafka.python_sink import delivered, written

    assert ready.clients is not None
    mode = "update" if ready.folds else "append"
    if _stages_write(ready):
        return written(frame, mode)
    return delivered(frame, ready.clients, mode)


def _stages_write(ready: Prepared) -> bool:
    """True if stages write what leaves the query to Kafka."""
    return bool(ready.plan.stages) and not ready.folds


def _frame(
    ready: Prepared,
    spark: SparkSession,
    source: DataFrame | None,
    max_records: int | None,
    output: OutputKind,
    options: Options | None,
    columns: tuple[str, ...] | None,
) -> DataFrame:
    """The outputs as rows with these columns; None: packed, or written already."""
    from streamlet.spark.rows.aggregate_rows import partial_schema
    from streamlet.spark.state.processor import Options

    chosen = options or Options(last_only=output == "latest")
    reset, folds = ready.settings.auto_offset_reset, ready.folds
    if source is None:
        assert ready.clients is not None
        where = (ready.topology, ready.plan, ready.clients)
        rows = topics.packed_source(
            spark,
            *where,
            reset=reset,
            max_records=max_records,
            aggregates=partial_schema(folds) if folds else None,
        )
        if folds:
            return frames.folded(ready.plan, folds, rows, columns)
        writes = columns is None and _stages_write(ready)
        chosen = attrs.evolve(chosen, clients=ready.clients, writes=writes)
        staged = frames.staged(ready.plan, rows, chosen)
        return staged if columns is None else frames.unpacked(staged, columns)
    assert columns is not None
    if folds:
        return frames.folded(ready.plan, folds, frames.partials(ready.plan, folds, source), columns)
    return frames.assemble(ready.plan, source, chosen, columns)


def trigger_options(text: str) -> dict[str, Any]:
    """Spark's arguments for the time between batches, or for ``available-now``.

    Raises:
        ConfigError: it is neither.
    """
    if text == "available-now":
        return {"availableNow": True}
    found = _TRIGGER.fullmatch(text)
    if found is None:
        raise ConfigError([f"trigger {text!r}: expected a time as 1s or 500ms, or available-now"])
    return {"processingTime": f"{found[1]} {_UNITS.get(found[2], found[2])}"}
