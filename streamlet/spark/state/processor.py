"""A stage of the query as Spark runs it: one group per stream task; needs PySpark to be imported.

Spark calls ``handleInputRows`` with all rows of a group in a micro-batch. Everything that happens
in a call counts, or nothing: Spark keeps state and output of a batch in one piece.

At the start of a query the driver starts a Python process for each stage, which only names the
state: what runs tasks (``stage``) is loaded by those that run some.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from streamlet.garbage import without_gc
from streamlet.spark.cluster.daemon import keep_quiet
from streamlet.spark.error_notes import reported, reported_rows
from streamlet.spark.kafka.clients import Clients, Outbox
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.state.segments import SegmentLimits

_NUMBER = StructType([StructField("number", LongType())])
_SEGMENT = StructType([StructField("segment", BinaryType())])


@attrs.frozen
class Options:
    """The options of a stage beside its topology."""

    limits: SegmentLimits = attrs.field(factory=SegmentLimits)
    #: Write only the last record per topic and key of a batch.
    last_only: bool = False
    #: Epoch of a backfill, whose tasks write their changelogs; None: they write none.
    epoch: int | None = None
    #: How tasks reach Kafka to read ranges; None: they get all records from Spark.
    clients: Clients | None = None
    #: Write what leaves the query to Kafka, rather than make rows of it.
    writes: bool = False
    #: Merge what several tasks send to one by the time of each record, not of each row of some
    #: thousands; needed where the data is in no order of its own.
    by_time: bool = False


class StageProcessor(StatefulProcessor):
    """All tasks of one stage, and the handing on of what is for later ones.

    Args:
        plan: of the query.
        stage: number of the stage.
        options: how it runs.
    """

    def __init__(self, plan: SparkPlan, stage: int, options: Options) -> None:
        self._plan, self._stage, self._options = plan, stage, options
        self._outbox: Outbox | None = None

    @reported
    def init(self, handle: Any) -> None:
        """Name the state that Spark keeps for each group.

        Spark analyses the types of each state, for each shuffle partition of each batch, in some
        milliseconds: so there is only one. Types written as text it would have to parse, too.
        """
        keep_quiet()
        self._segments = handle.getMapState("segments", _NUMBER, _SEGMENT)
        if self._options.writes:
            assert self._options.clients is not None
            self._outbox = Outbox(self._options.clients)

    @reported_rows
    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Run a task over its rows, or hand rows on."""
        from streamlet.spark.state.stage import KeptBySpark, Stage

        with without_gc():
            kept = KeptBySpark(self._segments)
            stage = Stage(self._plan, self._stage, self._options, kept, self._outbox)
            yield from stage.handled(key[0], rows)

    @reported
    def close(self) -> None:
        """Wait for what was written; stores outlive the batch.

        Raises:
            DeliveryError: not all of it is delivered.
        """
        if self._outbox is not None:
            self._outbox.flush()
