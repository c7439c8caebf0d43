"""The end of a query that our own client writes to Kafka: an operator, and an idle sink behind.

A sink in Python has Spark ask Python twice per batch, on the driver, before its tasks and behind
them, and there is nothing to ask: a task has flushed what it wrote when it ends, and a batch that
did not count is written again. So records are written by the last operator, in the tasks, and the
sink gets no rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.kafka.client import KafkaSink
from streamlet.spark.blobs import unpack
from streamlet.spark.collector import without_gc

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_FLUSH_MS = 60_000

#: Spark's sink that takes rows and does nothing.
_NO_SINK = "noop"

#: Clients of this process by their settings, not there while they are in use: whatever goes wrong,
#: the next one to ask gets a new one.
_SINKS: dict[str, KafkaSink] = {}


@attrs.frozen
class ToKafka:
    """The map that writes to Kafka what is packed in rows of ``packing.PACKED_SCHEMA``.

    There are no rows out. A Spark partition ends when all of it is delivered.

    Raises:
        DeliveryError: when called, something is not.
    """

    bootstrap_servers: str
    producer: Mapping[str, Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send the rows of one Spark partition, and wait until they are delivered."""
        key = self.bootstrap_servers + json.dumps(dict(self.producer))
        sink = _SINKS.pop(key, None)
        if sink is None:
            sink = KafkaSink(self.bootstrap_servers, dict(self.producer))
        with without_gc():
            for rows in batches:
                for topic, packed in zip(rows["topic"], rows["records"], strict=True):
                    _send(sink, topic.as_py(), packed.as_py())
        sink.flush(_FLUSH_MS)
        _SINKS[key] = sink
        yield from ()


def delivered(
    packed: DataFrame, bootstrap_servers: str, producer: Mapping[str, Any], mode: str
) -> DataStreamWriter:
    """A query that writes rows of ``packing.PACKED_SCHEMA`` to Kafka, in this output mode."""
    rows = packed.mapInArrow(ToKafka(bootstrap_servers, producer), "nothing int")
    return rows.writeStream.format(_NO_SINK).outputMode(mode)


def _send(sink: KafkaSink, topic: str, packed: bytes) -> None:
    found = unpack(packed)
    sink.send(topic, found.keys, found.values, found.timestamps, found.partitions, found.headers)
