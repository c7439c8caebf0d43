"""Kafka for Spark by our own client: a source whose rows are packed; ``python_sink`` writes.

Spark's cost is per row, and Java's connector makes every record a row twice. Here a row is some
thousands of records, from the client that reads them to the client that writes them. It needs
PySpark 4.2, and no jars. Unlike Spark's, each record is written with its own time. Only imported
where PySpark is.

The source plans one range per partition on the driver; workers read exactly their ranges, and
let stateless tasks process what is for them.

At the start of a query the driver has some Python processes of this source that read nothing: what
reads and packs (``packed_reads``) is loaded by those that do.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from streamlet.errors import StateError
from streamlet.garbage import without_gc
from streamlet.spark.cluster.daemon import keep_quiet
from streamlet.spark.error_notes import reported, reported_rows
from streamlet.spark.kafka import held, identity
from streamlet.spark.kafka.clients import Clients
from streamlet.spark.kafka.identity import Offsets
from streamlet.spark.kafka.ranges import HANDED_ON, Ends, Range, capped, shared_out
from streamlet.spark.plan.plan import SparkPlan, check_counts
from streamlet.spark.rows.schemas import READ_SCHEMA
from streamlet.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from streamlet.kafka.admin import KafkaAdmin

FORMAT = "streamlet-kafka"

T = TypeVar("T")

#: Clients of this process by their settings, not there while they are in use, as in ``clients``.
_ADMINS: dict[str, KafkaAdmin] = {}


class PythonKafka(DataSource):
    """Options are those that ``reading`` makes."""

    @classmethod
    def name(cls) -> str:
        """The name given to ``format()``."""
        return FORMAT

    def schema(self) -> str:
        """The schema of what is read."""
        return str(self.options["columns"])

    def streamReader(self, schema: Any) -> KafkaReader:
        """Spark's reader of this source."""
        keep_quiet()
        # Made on the driver by ``reading``; Spark hands on options, and has no types for them.
        return KafkaReader(pickle.loads(base64.b64decode(self.options["reading"])))


@attrs.frozen
class SourceSettings:
    """The settings of a source; for the arguments see ``reading``."""

    clients: Clients
    plan: SparkPlan
    starts: Mapping[str, Mapping[str, int]]
    max_records: int | None
    folds: bool
    ends: Ends | None
    #: Ranges of so many records are handed on.
    handed_on: int

    @property
    def read_committed(self) -> bool:
        """True if records of open transactions, and of those that were aborted, do not count."""
        return self.clients.consumer.get("isolation.level") == "read_committed"


def reading(
    clients: Clients,
    plan: SparkPlan,
    starts: Mapping[str, Mapping[str, int]],
    max_records: int | None = None,
    aggregates: str | None = None,
    ends: Mapping[TopicPartition, int] | None = None,
) -> dict[str, str]:
    """Options of the source.

    Args:
        clients: how to reach Kafka.
        plan: of the query: which records go where.
        starts: where to begin each partition of each topic; -2 is the beginning, -1 the end.
        max_records: in one micro-batch; None for all there are.
        aggregates: schema of partial aggregates, where the rows are to be such; None: packed.
        ends: where reading ends for good; None: nowhere.
    """
    chosen: Ends | None = None
    if ends is not None:
        chosen = {
            topic: {p: ends[TopicPartition(topic, int(p))] for p in starts[topic]}
            for topic in starts
        }
    found = SourceSettings(
        clients, plan, starts, max_records, aggregates is not None, chosen, HANDED_ON
    )
    return {
        "columns": READ_SCHEMA if aggregates is None else f"{aggregates}, read bigint",
        "reading": base64.b64encode(pickle.dumps(found)).decode(),
    }


@attrs.frozen
class Ranges(InputPartition):
    """The ranges that one Spark task reads; others it hands on, to be read where processed."""

    ranges: tuple[Range, ...]
    handed_on: tuple[Range, ...] = ()


class KafkaReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans on the driver, reads on workers.

    Offsets are ``{topic: {partition: next}}``, with the ids of the topics beside them
    (``identity``), so that a topic that is made again is not read on.
    """

    def __init__(self, of: SourceSettings) -> None:
        self._of = of
        self._last = of.ends
        self._compared = False

    @reported
    def initialOffset(self) -> Offsets:
        """The offsets at which a query without a checkpoint begins."""
        first, last = self._ask("start"), self._readable()[0]
        begin = {
            topic: {
                partition: (first if start == -2 else last)[topic][partition]
                for partition, start in partitions.items()
            }
            for topic, partitions in self._of.starts.items()
        }
        return identity.marked(begin, self._ids())

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of one micro-batch."""
        most = self._of.max_records
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @reported
    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """The end of the next micro-batch.

        Raises:
            PositionsMismatchError: a topic was made again, or ends before ``start``.
            StateError: a topic was given more partitions.
        """
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        ids, (readable, ends) = self._ids(), self._readable()
        identity.compare(start, ids, ends)
        self._compared = True
        return identity.marked(capped(identity.offsets(start), self._last or readable, most), ids)

    @reported
    def reportLatestOffset(self) -> Offsets:
        """The ends of the topics, for the lag, and which of them open transactions hold back."""
        return held.reported(*self._readable())

    @reported
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the ends: later records are not read."""
        self._last = self._last or self._readable()[0]

    @reported
    def partitions(self, start: Offsets, end: Offsets) -> Sequence[Ranges]:
        """A range for each partition that has records, shared out over Spark's tasks.

        Raises:
            PositionsMismatchError: a topic was made again, or ends before ``end``.
            StateError: records behind the checkpoint are gone.
            BrokerError: an open transaction holds some of them back.
        """
        if not self._compared:  # planned by a query before this one, and perhaps read_uncommitted
            readable, ends = self._readable()
            identity.compare(end, self._ids(), ends)
            held.check(identity.offsets(end), readable, ends)
        start, end = identity.offsets(start), identity.offsets(end)
        first = self._ask("start")
        found: list[Range] = []
        for topic, partitions in end.items():
            for partition, until in partitions.items():
                begin = start[topic][partition]
                if begin < first[topic][partition]:
                    raise StateError(
                        f"{topic}-{partition}: the checkpoint goes on at offset {begin}, and the "
                        f"topic now begins at {first[topic][partition]}: records are lost"
                    )
                if begin < until:
                    found.append(Range(TopicPartition(topic, int(partition)), begin, until))
        small, large = self._by_reader(found)
        tasks = [Ranges(some) for some in shared_out(small)]
        return [*tasks, Ranges((), tuple(large))] if large else tasks

    @reported_rows
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of ranges, all of them.

        Raises:
            BrokerError: they cannot be read.
        """
        from streamlet.spark.kafka.packed_reads import handed_on_rows, packed_reads
        from streamlet.spark.rows.aggregate_rows import folded_rows

        assert isinstance(partition, Ranges)
        plan = self._of.plan
        yield from handed_on_rows(plan, partition.handed_on)
        if not partition.ranges:
            return
        batches = self._of.clients.records(partition.ranges)
        with without_gc():
            yield from (folded_rows if self._of.folds else packed_reads)(plan, batches)

    def stop(self) -> None:
        """End the driver's process of this source where Spark has hung up.

        PySpark would send the end of its input there as an error, which over a Unix socket fails,
        and print that.
        """
        if isinstance(sys.exception(), EOFError):
            os._exit(0)

    def _by_reader(self, ranges: Sequence[Range]) -> tuple[list[Range], list[Range]]:
        """Ranges to be read here, and those to be read where their records are processed."""
        of, plan = self._of, self._of.plan
        here: list[Range] = []
        there: list[Range] = []
        for one in ranges:
            mapped = of.folds or plan.readers[one.where.topic] in plan.mapped
            (here if mapped or one.end - one.begin < of.handed_on else there).append(one)
        return here, there

    def _ids(self) -> dict[str, str]:
        """The ids of the topics, which have the partitions that they had.

        Raises:
            StateError: one was given more.
        """
        there = self._asked(lambda admin: admin.described(sorted(self._of.starts)))
        check_counts(self._of.starts, {name: one.partitions for name, one in there.items()})
        return {name: one.topic_id for name, one in there.items()}

    def _readable(self) -> tuple[Ends, Ends]:
        """The ends of what consumers get, and the ends; the same where all records count."""
        ends = self._ask("end")
        return (self._ask("readable") if self._of.read_committed else ends), ends

    def _ask(self, which: Literal["start", "readable", "end"]) -> Ends:
        wanted = [
            TopicPartition(topic, int(partition))
            for topic, partitions in self._of.starts.items()
            for partition in partitions
        ]

        def ask(admin: KafkaAdmin) -> dict[TopicPartition, int]:
            if which == "start":
                return admin.start_offsets(wanted)
            return admin.readable_ends(wanted) if which == "readable" else admin.end_offsets(wanted)

        found = self._asked(ask)
        ends: Ends = {}
        for where, offset in found.items():
            ends.setdefault(where.topic, {})[str(where.partition)] = offset
        return ends

    def _asked(self, ask: Callable[[KafkaAdmin], T]) -> T:
        """An answer of Kafka's, by a client that is kept: several are asked for in every batch."""
        from streamlet.kafka.admin import KafkaAdmin

        bootstrap, settings = self._of.clients.bootstrap_servers, dict(self._of.clients.admin)
        committed = self._of.read_committed
        client = f"{bootstrap}{json.dumps(settings)}{committed}"
        admin = _ADMINS.pop(client, None)
        if admin is None:
            admin = KafkaAdmin(bootstrap, settings, read_committed=committed)
        try:
            found = ask(admin)
        except BaseException:
            admin.close()
            raise
        _ADMINS[client] = admin
        return found
