"""A stage of the query as Spark runs it: one group per stream task; needs PySpark to be imported.

Spark calls ``handleInputRows`` with all rows of a group in a micro-batch. Everything that happens
in a call counts, or nothing: Spark keeps state and output of a batch in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from streamlet.spark.cluster.collector import without_gc
from streamlet.spark.cluster.daemon import keep_quiet
from streamlet.spark.kafka.clients import Clients, Outbox
from streamlet.spark.kafka.latest import Latest
from streamlet.spark.plan.plan import SparkPlan
from streamlet.spark.rows.packing import LEAVES, Packed, Sender
from streamlet.spark.state.run import Runner
from streamlet.spark.state.segments import SegmentLimits
from streamlet.types import TaskId

_PackedRow = Row(*Packed._fields)

_NUMBER = StructType([StructField("number", LongType())])
_SEGMENT = StructType([StructField("segment", BinaryType())])
#: The number of a task's head among its segments, whose numbers begin at 0.
_HEAD = -1

#: Runners of this worker process by query and stage; it outlives the processors, which Spark makes
#: again for every batch.
_RUNNERS: dict[tuple[str, int], tuple[SparkPlan, Options, Runner]] = {}

#: A test run has many queries, and a worker serves all of them.
_QUERIES_KEPT = 8


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

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Run a task over its rows, or hand rows on."""
        with without_gc():
            yield from self._handled(key, rows)

    def _handled(self, key: Any, rows: Iterator[Row]) -> Iterator[Row]:
        packed = [_packed(row) for row in rows]
        task = self._plan.stages[self._stage].tasks.get(key[0])
        found = self._handed_on(packed) if task is None else self._run(task, packed)
        for row in found:
            yield _PackedRow(*row)

    def close(self) -> None:
        """Wait for what was written; stores outlive the batch.

        Raises:
            DeliveryError: not all of it is delivered.
        """
        if self._outbox is not None:
            self._outbox.flush()

    def _handed_on(self, rows: list[Packed]) -> Iterator[Packed]:
        """Rows that are not for this stage, by their address in the next one."""
        rows.sort(key=lambda row: (row.sender, row.first, row.part))
        for row in rows:
            if row.partition == LEAVES and self._outbox is not None:
                self._outbox.send_packed(row.topic, row.records)
            else:
                group = self._plan.address(self._stage + 1, row.topic, row.partition, row.sender)
                yield row._replace(group=group)

    def _run(self, task: TaskId, rows: list[Packed]) -> Iterator[Packed]:
        send = None if self._outbox is None else self._outbox.send
        sender = Sender(self._plan, self._stage + 1, str(task), send)
        inside, latest, count = self._plan.inside, Latest(), 0
        runner = _runner(self._plan, self._stage, self._options)
        for outputs in runner.run(task, rows, _Kept(self._segments), _batch_id()):
            now = outputs
            if self._options.last_only:
                now = [output for output in outputs if output.topic in inside]
                latest.hold(output for output in outputs if output.topic not in inside)
            yield from sender.rows(now, count)
            count += 1
        yield from sender.rows(latest.outputs(), count)
        yield runner.report(task, sender.records).row()


class _Kept:
    """A task's state in Spark: one call is one round trip to the JVM."""

    def __init__(self, segments: Any) -> None:
        self._segments = segments

    def head(self) -> bytes | None:
        found = self._segments.getValue((_HEAD,))
        return None if found is None else bytes(found[0])

    def set_head(self, head: bytes) -> None:
        self.put(_HEAD, head)

    def get(self, number: int) -> bytes:
        return bytes(self._segments.getValue((number,))[0])

    def put(self, number: int, segment: bytes) -> None:
        self._segments.updateValue((number,), (segment,))

    def remove(self, number: int) -> None:
        self._segments.removeKey((number,))


def _runner(plan: SparkPlan, stage: int, options: Options) -> Runner:
    read = None if options.clients is None else options.clients.records
    place = (_property("sql.streaming.queryId"), stage)
    if not place[0]:  # a bounded DataFrame: no batch comes after this one
        return Runner(plan, options.limits, options.epoch, read)
    known = _RUNNERS.get(place)
    if known is not None and known[:2] == (plan, options):
        return known[2]
    while len(_RUNNERS) >= _QUERIES_KEPT:
        del _RUNNERS[next(iter(_RUNNERS))]
    runner = Runner(plan, options.limits, options.epoch, read)
    _RUNNERS[place] = (plan, options, runner)
    return runner


def _batch_id() -> int:
    return int(_property("streaming.sql.batchId") or 0)


def _property(name: str) -> str:
    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty(name) or ""


def _packed(row: Row) -> Packed:
    found = Packed(*row)
    return found._replace(records=bytes(found.records))
