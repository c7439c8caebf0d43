"""Hands a task's outputs to the producer; a record that it refuses meets the error policy."""

from __future__ import annotations

import logging

import attrs

from streamlet.errors import ProcessingError, RecordRefusedError
from streamlet.kafka.ports import RecordSink
from streamlet.runtime.edges.writer import EdgeWriter
from streamlet.runtime.outputs import Output
from streamlet.runtime.policy import ErrorPolicy, has_reason, reason_headers

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

    def send(self, output: Output, writer: EdgeWriter | None = None) -> None:
        """Queue records in order, with the prefixes that ``writer`` gives those of exact topics.

        Raises:
            ProcessingError: one is refused, under ``fail``.
            DeliveryError: a record queued earlier failed.
        """
        while True:
            written = output if writer is None else writer.prefixed(output)
            try:
                self.sink.send(
                    written.topic,
                    written.keys,
                    written.values,
                    written.timestamps,
                    written.partitions,
                    written.headers,
                )
                return
            except RecordRefusedError as refused:
                if writer is not None and written is not output:
                    writer.refused(output, refused.index)
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
        """Write it as it was to be written, with the place of the input record in its headers.

        What is too large is left out: first the value, then the record's own headers.
        """
        own = None if output.headers is None else output.headers[index]
        reason = reason_headers(error, self.application)
        headers = reason_headers(error, self.application, own)
        if own is not None and output.topic == topic and has_reason(own):
            reason = headers = own  # a letter has its reason already
        key, time = output.keys[index], output.timestamps[index]
        for value, heads in ((output.values[index], headers), (None, headers), (None, reason)):
            try:
                self.sink.send(topic, [key], [value], [time], headers=[heads])
                return
            except RecordRefusedError as refused:
                log.warning("a dead letter cannot hold its record: %s (%s)", refused, error)
