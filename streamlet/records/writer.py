"""Writes records to a topic, and knows how many of them were delivered."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from streamlet.clock import Clock
from streamlet.errors import DeliveryError, RecordRefusedError
from streamlet.kafka.ports import OutgoingRecords, RecordSink
from streamlet.records.lines import InputRecord

#: How long records may be undelivered, and how long the last of them are waited for, ms.
DELIVERY_MS = 30_000
_FLUSH_MS = 2 * DELIVERY_MS


@attrs.define
class TopicWriter:
    """Writes to one topic; Kafka's default partitioner chooses the partition.

    Args:
        sink: the producer.
        topic: where to.
        clock: the time of records without one.
        origin: the name of the file that the records are from.
        sent: how many were given to the producer.
    """

    sink: RecordSink
    topic: str
    clock: Clock
    origin: str
    sent: int = 0

    def send(self, given: Iterable[InputRecord]) -> None:
        """Give records to the producer, in order.

        Raises:
            RecordRefusedError: the producer does not take one; its line is in the message.
            DeliveryError: one of those before was not delivered.
        """
        batch = list(given)
        now = self.clock.wall_ms()
        records = OutgoingRecords(
            self.topic,
            [record.key for record in batch],
            [record.value for record in batch],
            [now if record.timestamp is None else record.timestamp for record in batch],
            headers=[r.headers for r in batch] if any(r.headers for r in batch) else None,
        )
        try:
            self.sink.send(records)
        except RecordRefusedError as error:
            self.sent += error.index
            raise RecordRefusedError(
                f"{self.origin}, line {batch[error.index].line}: {error}",
                error.index,
                too_large=error.too_large,
                wrong_time=error.wrong_time,
            ) from error
        self.sent += len(batch)

    def deliver(self) -> int:
        """Wait until all are delivered; how many.

        Raises:
            DeliveryError: some are not; the message tells how many.
        """
        try:
            self.sink.flush(_FLUSH_MS)
        except DeliveryError as error:
            raise type(error)(f"of {self.sent} records sent: {error}") from error
        return self.sent
