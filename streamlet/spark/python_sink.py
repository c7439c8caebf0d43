"""The sink of ``python_kafka``: records out of packed rows, to Kafka by our own client.

Spark hands a stream of appended rows to the one, and of updates only batches to the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from streamlet.kafka.client import KafkaSink
from streamlet.spark.blobs import unpack
from streamlet.spark.collector import without_gc

_FLUSH_MS = 60_000

#: Clients of this process by their settings, not there while they are in use: whatever goes wrong,
#: the next one to ask gets a new one.
_SINKS: dict[str, KafkaSink] = {}


class Writer(DataSourceStreamArrowWriter):
    """Writes what is packed in rows of ``packing.PACKED_SCHEMA``."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send everything, and wait until it is delivered.

        Raises:
            DeliveryError: something is not.
        """
        return _written(self._given, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All is delivered already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what was delivered stays, and comes again."""


class BatchWriter(DataSourceArrowWriter):
    """The same for one batch."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Like ``Writer.write``."""
        return _written(self._given, iterator)


def _written(given: Mapping[str, str], rows: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    options = {name.lower(): text for name, text in given.items()}
    bootstrap, producer = options["bootstrap"], options["producer"]
    sink = _SINKS.pop(bootstrap + producer, None)
    if sink is None:
        sink = KafkaSink(bootstrap, json.loads(producer))
    with without_gc():
        for some in rows:
            for topic, packed in zip(some["topic"], some["records"], strict=True):
                _send(sink, topic.as_py(), packed.as_py())
    sink.flush(_FLUSH_MS)
    _SINKS[bootstrap + producer] = sink
    return WriterCommitMessage()


def _send(sink: KafkaSink, topic: str, packed: bytes) -> None:
    found = unpack(packed)
    sink.send(topic, found.keys, found.values, found.timestamps, found.partitions, found.headers)
