"""The query of a backfill: bounded data through tasks that write changelogs beside outputs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from streamlet.errors import MissingTopicError, TopologyError
from streamlet.spark import query_settings
from streamlet.spark.cluster.shipping import ship
from streamlet.spark.hadoop_file import HadoopFile
from streamlet.spark.plan.prepare import Prepared, QueryRequest, Where, prepare
from streamlet.spark.plan.reference import resolve
from streamlet.spark.progress import BatchProgress, follow
from streamlet.spark.sql import frames
from streamlet.spark.sql.frame_columns import FrameSource
from streamlet.spark.sql.frame_sources import frame_sources
from streamlet.spark.sql.framed import packed_rows
from streamlet.spark.sql.typed_columns import output_topics
from streamlet.topology.graph import Topology
from streamlet.topology.internal_topics import changelog_topics
from streamlet.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streamlet.config import Settings

#: What is written to output topics: every update, the last per key and micro-batch, or nothing.
Written: TypeAlias = Literal["updates", "latest", "none"]


@attrs.frozen
class BackfillQuery:
    """An application over bounded data.

    Args:
        reference: ``module:attribute`` of the application.
        spark: the session.
        settings: of the application.
        sources: streams of files by topic; each ends with the files that are there. All other
            topics are read from Kafka.
        written: to output topics.
        max_records: read from Kafka's streams in one micro-batch; None for all there are.
        parent: folder or URL below which Spark keeps its state meanwhile.
    """

    reference: str
    spark: SparkSession
    settings: Settings
    sources: Mapping[str, FrameSource]
    written: Written
    max_records: int | None
    parent: str

    def prepared(
        self, ends: Mapping[TopicPartition, int], counts: Mapping[str, int]
    ) -> PreparedBackfill:
        """Check all preconditions before anything is changed.

        Args:
            ends: where each partition of a topic that is read from Kafka ends.
            counts: partitions of all topics there are.

        Raises:
            TopologyError: a topic cannot come from files, or the application cannot run on Spark.
            ConfigError: settings that Spark cannot carry out, or a column that does not fit.
            MissingTopicError: an output topic does not exist.
            AppNotFoundError: workers cannot import the application.
        """
        app = resolve(self.reference)
        topology = app.topology()
        _check_files(topology, self.sources)
        wanted = {*output_topics(topology), *app.policy.topics} - counts.keys()
        if wanted and self.written != "none":
            lacks = sorted(wanted)
            text = f"topic does not exist: {', '.join(lacks)}"
            raise MissingTopicError(text, hidden=lacks, operation="WRITE")
        where = Where(settings=self.settings)
        request = QueryRequest("updates", "tasks", writes=self.written != "none")
        ready = prepare(self.reference, self.spark, where, request, None, counts)
        ship(self.spark, ready.plan.reference)
        # Files are one micro-batch; what is read beside them is merged with them by time.
        most = None if self.sources else self.max_records
        rows = packed_rows(self.spark, ready, self.sources, most, ends)
        return PreparedBackfill(self, ready, rows)


@attrs.frozen
class PreparedBackfill:
    """A backfill's query that can be begun; ``rows`` are its packed records."""

    query: BackfillQuery
    ready: Prepared
    rows: DataFrame

    def run(
        self, epoch: int, on_batch: Callable[[BatchProgress], None], going: Callable[[], bool]
    ) -> None:
        """Process all of the data.

        Tasks write what they keep to their changelogs, in Kafka, batch by batch.

        Args:
            epoch: that of the changelog records.
            on_batch: called for each micro-batch.
            going: asked meanwhile; when it says no, the micro-batch under way is the last one.

        Raises:
            StreamletError: the query failed.
        """
        with _temporary_folder(self.query.spark, self.query.parent) as checkpoint:
            running = self._start(epoch, checkpoint)
            try:
                follow(running, on_batch, keep_going=going)
            finally:
                running.stop()

    def _start(self, epoch: int, checkpoint: str) -> StreamingQuery:
        from streamlet.spark.kafka.python_sink import delivered
        from streamlet.spark.state.processor import Options

        assert self.ready.clients is not None
        options = Options(
            last_only=self.query.written != "updates",
            epoch=epoch,
            clients=self.ready.clients,
            by_time=True,
        )
        rows = frames.staged(self.ready.plan, self.rows, options)
        if self.query.written == "none":
            rows = _changelogs_only(rows, self.ready.topology)
        writer = delivered(rows, self.ready.clients, "append")
        writer = writer.option("checkpointLocation", checkpoint)
        chosen = query_settings.of_query(self.query.spark, self.ready, checkpoint)
        with query_settings.settings(self.query.spark, chosen):
            return writer.trigger(availableNow=True).start()


def _check_files(topology: Topology, sources: Mapping[str, FrameSource]) -> None:
    """Refuse files for tables that are restored from their own topics.

    Raises:
        TopologyError: there are such, or topics that the application does not read.
    """
    if not sources:
        return
    frame_sources(topology, sources)
    tables = {spec.source_topic for part in topology.subtopologies for spec in part.stores}
    found = sorted(topic for topic in sources if topic in tables)
    if found:
        raise TopologyError(
            f"{', '.join(found)}: instances restore this table from its topic, so its rows must be "
            "there: write them to the topic, and leave it out of the files"
        )


@contextmanager
def _temporary_folder(spark: SparkSession, parent: str) -> Iterator[str]:
    """A folder or URL of its own for Spark's state, removed when the block ends."""
    parent, name = parent.rstrip("/"), f"backfill-{uuid.uuid4().hex}"
    folder = HadoopFile.of(spark, parent, name)
    try:
        yield f"{parent}/{name}"
    finally:
        folder.files.delete(folder.path, True)


def _changelogs_only(rows: DataFrame, topology: Topology) -> DataFrame:
    from pyspark.sql import functions as f

    return rows.where(f.col("topic").isin(list(changelog_topics(topology))))
