"""Kafka for Spark without Java's connector: a source and a sink over our own client.

For machines that cannot fetch the connector's jars. It needs PySpark 4.2. Unlike Spark's, the sink
writes each record with its own time. Only imported where PySpark is.

The source plans one range per partition on the driver; workers read exactly their ranges. What a
worker writes it flushes before it says so, and a batch that did not count is written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from streamlet.errors import BrokerError, StateError
from streamlet.kafka.client import KafkaAdmin, KafkaSink, KafkaSource
from streamlet.kafka.ports import PartitionBatch
from streamlet.spark.ranges import Ends, capped
from streamlet.types import TopicPartition

FORMAT = "streamlet-kafka"

_SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp bigint"
_ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
    ]
)
_POLL_RECORDS = 10_000
_POLL_MS = 100
#: Polls without a record before a partition that should have some is given up.
_EMPTY_POLLS = 600
_FLUSH_MS = 60_000

#: Clients of this worker process by their settings; a batch comes after the other.
_SOURCES: dict[str, KafkaSource] = {}
_SINKS: dict[str, KafkaSink] = {}


class PythonKafka(DataSource):
    """Options are those that ``options`` makes."""

    @classmethod
    def name(cls) -> str:
        """What ``format()`` is given."""
        return FORMAT

    def schema(self) -> str:
        """Spark's Kafka columns, but the time as ms since the epoch."""
        return _SCHEMA

    def streamReader(self, schema: Any) -> Reader:
        """The source."""
        return Reader(dict(self.options))

    def streamWriter(self, schema: Any, overwrite: bool) -> Writer:
        """The sink."""
        return Writer(dict(self.options))


def options(
    bootstrap_servers: str,
    client: Mapping[str, Any],
    starts: Mapping[str, Mapping[str, int]] | None = None,
    max_records: int | None = None,
) -> dict[str, str]:
    """Options of source and sink.

    Args:
        bootstrap_servers: ``host:port,…``.
        client: librdkafka's settings, such as ``security.protocol``.
        starts: where to begin each partition of each topic; -2 is the beginning, -1 the end.
        max_records: in one micro-batch; None for all there are.
    """
    found = {"bootstrap": bootstrap_servers, "client": json.dumps(dict(client))}
    if starts is not None:
        found["starts"] = json.dumps(starts)
    if max_records is not None:
        found["most"] = str(max_records)
    return found


@attrs.frozen
class Range(InputPartition):
    """Records of one partition, ``begin`` to ``end`` (exclusive)."""

    topic: str
    partition: int
    begin: int
    end: int


class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans on the driver, reads on workers. Offsets are ``{topic: {partition: next}}``."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = {name.lower(): text for name, text in given.items()}
        self._starts: dict[str, dict[str, int]] = json.loads(self._given["starts"])
        self._last: Ends | None = None

    def initialOffset(self) -> Ends:
        """Where a query without a checkpoint begins."""
        first, last = self._ask("start"), self._ask("end")
        return {
            topic: {
                partition: (first if start == -2 else last)[topic][partition]
                for partition, start in partitions.items()
            }
            for topic, partitions in self._starts.items()
        }

    def getDefaultReadLimit(self) -> ReadLimit:
        """What one micro-batch reads at most."""
        most = self._given.get("most")
        return ReadAllAvailable() if most is None else ReadMaxRows(int(most))

    def latestOffset(self, start: Ends, limit: ReadLimit) -> Ends:
        """The end of the next micro-batch."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return capped(start, self._last or self._ask("end"), most)

    def reportLatestOffset(self) -> Ends:
        """The ends of the topics, for the lag."""
        return self._ask("end")

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes from now on is not read."""
        self._last = self._ask("end")

    def partitions(self, start: Ends, end: Ends) -> Sequence[Range]:
        """A range for each partition that has records.

        Raises:
            StateError: records behind the checkpoint are gone.
        """
        first = self._ask("start")
        found = []
        for topic, partitions in end.items():
            for partition, until in partitions.items():
                begin = start[topic][partition]
                if begin < first[topic][partition]:
                    raise StateError(
                        f"{topic}-{partition}: the checkpoint goes on at offset {begin}, and the "
                        f"topic now begins at {first[topic][partition]}: records are lost"
                    )
                if begin < until:
                    found.append(Range(topic, int(partition), begin, until))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a range, all of them.

        Raises:
            BrokerError: they cannot be read.
        """
        assert isinstance(partition, Range)
        setting = json.dumps([self._given["bootstrap"], self._given["client"]])
        # Not there while it is in use: whatever goes wrong, the next range gets a new one.
        source = _SOURCES.pop(setting, None)
        if source is None:
            source = KafkaSource(self._given["bootstrap"], json.loads(self._given["client"]))
        where = TopicPartition(partition.topic, partition.partition)
        source.assign({where: partition.begin})
        for batch in _until(source, where, partition.end):
            yield _rows(batch)
        source.unassign([where])
        _SOURCES[setting] = source

    def _ask(self, which: str) -> Ends:
        admin = KafkaAdmin(self._given["bootstrap"], json.loads(self._given["client"]))
        wanted = [
            TopicPartition(topic, int(partition))
            for topic, partitions in self._starts.items()
            for partition in partitions
        ]
        try:
            found = (admin.start_offsets if which == "start" else admin.end_offsets)(wanted)
        finally:
            admin.close()
        ends: Ends = {}
        for where, offset in found.items():
            ends.setdefault(where.topic, {})[str(where.partition)] = offset
        return ends


def _until(source: KafkaSource, where: TopicPartition, end: int) -> Iterator[PartitionBatch]:
    """What lies before ``end``; the last offsets may be no records but holes or markers."""
    empty = 0
    while source.positions([where]).get(where, 0) < end:
        batches = source.poll(_POLL_RECORDS, _POLL_MS)
        empty = 0 if batches else empty + 1
        if empty > _EMPTY_POLLS:
            raise BrokerError(f"{where} gives no records, though it has some before {end}")
        for batch in batches:
            count = sum(offset < end for offset in batch.offsets)
            if count:
                yield batch if count == len(batch) else _first(batch, count)


def _first(batch: PartitionBatch, count: int) -> PartitionBatch:
    return attrs.evolve(
        batch,
        offsets=batch.offsets[:count],
        keys=batch.keys[:count],
        values=batch.values[:count],
        timestamps=batch.timestamps[:count],
    )


def _rows(batch: PartitionBatch) -> pa.RecordBatch:
    count = len(batch)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(batch.keys, pa.binary()),
            pa.array(batch.values, pa.binary()),
            pa.array([batch.topic] * count, pa.string()),
            pa.array([batch.partition] * count, pa.int32()),
            pa.array(batch.offsets, pa.int64()),
            pa.array(batch.timestamps, pa.int64()),
        ],
        schema=_ARROW,
    )


class Writer(DataSourceStreamArrowWriter):
    """Writes rows of ``columns.OUTPUT_SCHEMA``."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = {name.lower(): text for name, text in given.items()}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send everything, and wait until it is delivered.

        Raises:
            DeliveryError: something is not.
        """
        setting = json.dumps([self._given["bootstrap"], self._given["client"]])
        sink = _SINKS.pop(setting, None)
        if sink is None:
            sink = KafkaSink(self._given["bootstrap"], json.loads(self._given["client"]))
        for rows in iterator:
            for topic in pc.unique(rows["topic"]).to_pylist():
                _send(sink, topic, rows.filter(pc.equal(rows["topic"], topic)))
        sink.flush(_FLUSH_MS)
        _SINKS[setting] = sink
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All is delivered already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was delivered stays, and comes again."""


def _send(sink: KafkaSink, topic: str, rows: pa.RecordBatch) -> None:
    partitions, headers = rows["partition"], rows["headers"]
    sink.send(
        topic,
        rows["key"].to_pylist(),
        rows["value"].to_pylist(),
        rows["timestamp"].to_pylist(),
        None if partitions.null_count == len(rows) else partitions.to_pylist(),
        None
        if headers.null_count == len(rows)
        else [
            None if one is None else [(h["key"], h["value"]) for h in one]
            for one in headers.to_pylist()
        ],
    )
