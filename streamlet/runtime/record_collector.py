"""Hands a task's outputs to the producer; a record that it refuses meets the error policy."""

from __future__ import annotations

import logging

import attrs

from streamlet.errors import ProcessingError, RecordRefusedError
from streamlet.kafka.ports import RecordSink
from streamlet.runtime.policy import ErrorPolicy, reason_headers
from streamlet.runtime.task import Output

log = logging.getLogger(__name__)


@attrs.define
class RecordCollector:
    """Counts what the producer refused in ``skipped``, and its dead letters among them.

    Args:
        sink: the producer.
        policy: what becomes of a refused record.
        application: for dead letters.
    """

    sink: RecordSink
    policy: ErrorPolicy
    application: str
    skipped: int = 0
    dead_lettered: int = 0

    def send(self, output: Output) -> None:
        """Queue records in order.

        Raises:
            ProcessingError: one is refused, under ``fail``.
            DeliveryError: a record queued earlier failed.
        """
        while True:
            try:
                self.sink.send(
                    output.topic,
                    output.keys,
                    output.values,
                    output.timestamps,
                    output.partitions,
                    output.headers,
                )
                return
            except RecordRefusedError as refused:
                self._refused(output, refused)
                output = output.behind(refused.index)

    def _refused(self, output: Output, refused: RecordRefusedError) -> None:
        where, offset = output.origin(refused.index)
        operator = f"sink to {output.topic}"
        error = ProcessingError(str(refused), where.topic, where.partition, offset, operator)
        if self.policy.action == "fail":
            raise error from refused
        self.skipped += 1
        if self.policy.topic is not None:
            error.__cause__ = refused
            self.dead_lettered += 1
            self._dead_letter(self.policy.topic, output, refused.index, error)

    def _dead_letter(self, topic: str, output: Output, index: int, error: ProcessingError) -> None:
        """Write it as it was to be written; without its value where that is what is too large.

        The headers tell where the record that led to it lies.
        """
        headers = reason_headers(error, self.application)
        if output.topic == topic and output.headers is not None:  # a letter has its reason already
            headers = output.headers[index] or headers
        for value in (output.values[index], None):
            key, time = output.keys[index], output.timestamps[index]
            try:
                self.sink.send(topic, [key], [value], [time], headers=[headers])
                return
            except RecordRefusedError as refused:
                log.warning("a dead letter cannot hold its record: %s (%s)", refused, error)
