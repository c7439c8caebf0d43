"""The end of a query that our own client writes to Kafka: an operator, and an idle sink behind.

A sink in Python has Spark ask Python twice per batch, on the driver, before its tasks and behind
them, and there is nothing to ask: a task has flushed what it wrote when it ends, and a batch that
did not count is written again. So records are written in Spark's tasks: by the stages of a plan,
else by an operator behind the last one. The sink gets no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from streamlet.garbage import without_gc
from streamlet.spark.error_notes import reported_rows
from streamlet.spark.kafka.clients import Clients, Outbox

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

#: Spark's sink that takes rows and does nothing.
_NO_SINK = "noop"


@attrs.frozen
class ToKafka:
    """The map that writes to Kafka what is packed in rows of ``schemas.PACKED``.

    There are no rows out. A Spark partition ends when all of it is delivered.

    Raises:
        DeliveryError: when called, something is not.
    """

    clients: Clients

    @reported_rows
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send the rows of one Spark partition, and wait until they are delivered."""
        outbox = Outbox(self.clients)
        with without_gc():
            for rows in batches:
                for topic, packed in zip(rows["topic"], rows["records"], strict=True):
                    outbox.send_packed(topic.as_py(), packed.as_py())
        outbox.flush()
        yield from ()


def delivered(packed: DataFrame, clients: Clients, mode: str) -> DataStreamWriter:
    """A query that writes rows of ``schemas.PACKED`` to Kafka, in this output mode."""
    return written(packed.mapInArrow(ToKafka(clients), "nothing int"), mode)


def written(rows: DataFrame, mode: str) -> DataStreamWriter:
    """A query that writes nowhere: the program's operators write to Kafka. ``mode``: of output."""
    return rows.writeStream.format(_NO_SINK).outputMode(mode)
