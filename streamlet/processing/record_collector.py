"""Hands a task's outputs to the producer; a record that it refuses meets the error policy."""

from __future__ import annotations

from functools import partial

import attrs

from streamlet.clock import pause
from streamlet.errors import ProcessingError, RecordRefusedError
from streamlet.kafka.ports import OutgoingRecords, RecordSink
from streamlet.logs import get_logger
from streamlet.processing.edges.writer import EdgeWriter
from streamlet.processing.outputs import Output
from streamlet.processing.policy import (
    ErrorContext,
    ErrorPolicy,
    FailedRecord,
    RecordFailure,
    has_reason,
    reason_headers,
)
from streamlet.processing.record_failures import RecordCounters, decide
from streamlet.types import TaskId

log = get_logger(__name__)


@attrs.frozen
class Resend:
    """The rest of an output, from a refused record on that is to be sent again after a pause.

    ``attempt`` is the number of that try, 2 after the first.
    """

    rest: Output
    attempt: int
    pause_ms: int


@attrs.define
class RecordCollector:
    """Sends records of tasks, and applies the error policy to those that the producer refuses.

    Args:
        sink: the producer.
        policy: what becomes of a refused record.
        application: for dead letters.
        counters: count what was refused, and its dead letters.
    """

    sink: RecordSink
    policy: ErrorPolicy
    application: str
    counters: RecordCounters = attrs.field(factory=RecordCounters)

    def send(
        self,
        output: Output,
        writer: EdgeWriter | None = None,
        task: TaskId | None = None,
        attempt: int = 1,
        *,
        sent: list[Output] | None = None,
    ) -> Resend | None:
        """Queue records in order, with the prefixes that ``writer`` gives those of exact topics.

        Args:
            output: the records.
            writer: gives prefixes; None: there are none.
            task: for handlers.
            attempt: the number of tries of the first record, this one included.
            sent: gets what was queued, without refused records and their dead letters.

        Returns:
            What is left to send later; None: nothing is.

        Raises:
            ProcessingError: one is refused, under ``fail``.
            DeliveryError: a record queued earlier failed.
        """
        queued: list[Output] = [] if sent is None else sent
        while True:
            written = output if writer is None else writer.prefixed(output)
            try:
                self.sink.send(written)
                if output.keys:
                    queued.append(output)
                return None
            except RecordRefusedError as refused:
                if refused.index:
                    queued.append(output.slice(0, refused.index))
                if writer is not None and written is not output:
                    writer.refused(output, refused.index)
                tries = 1 if refused.index else attempt
                pause_ms = self._refused(output, refused, task, tries)
                if pause_ms is not None:
                    return Resend(output.behind(refused.index - 1), tries + 1, pause_ms)
                output, attempt = output.behind(refused.index), 1

    def send_now(self, output: Output, task: TaskId | None = None) -> None:
        """Send records without prefixes, waiting for the pauses; raises as ``send``."""
        again = self.send(output, task=task)
        while again is not None:
            pause(again.pause_ms)
            again = self.send(again.rest, task=task, attempt=again.attempt)

    def _refused(
        self, output: Output, refused: RecordRefusedError, task: TaskId | None, attempt: int
    ) -> int | None:
        """Apply the error policy to a refused record; as ``decide``."""
        failure = self._failure(output, refused, task, attempt)
        letter = partial(self._dead_letter, output, refused.index)
        return decide(self.policy, failure, self.counters, _error_of, letter)

    def _failure(
        self, output: Output, refused: RecordRefusedError, task: TaskId | None, attempt: int
    ) -> RecordFailure:
        index = refused.index
        where, offset = output.origin(index)
        headers = output.headers and output.headers[index]
        context = ErrorContext(
            *("production", self.application, task, f"sink to {output.topic}"),
            *(where.topic, where.partition, offset, output.timestamps[index]),
            tuple(headers or ()),
            attempt,
        )
        record = FailedRecord(output.keys[index], output.values[index], output.topic)
        return RecordFailure(context, record, str(refused), refused)

    def _dead_letter(self, output: Output, index: int, topic: str, error: ProcessingError) -> None:
        """Write it as it was to be written, with the place of the input record in its headers.

        What is too large is left out: first the value, then the record's own headers. A time that
        the topic does not take becomes that of the writing.
        """
        own = None if output.headers is None else output.headers[index]
        reason = reason_headers(error, self.application)
        headers = reason_headers(error, self.application, own)
        if own is not None and output.topic == topic and has_reason(own):
            reason = headers = own  # a letter has its reason already
        key = output.keys[index]
        times: list[int] | None = [output.timestamps[index]]
        tries = [(output.values[index], headers), (None, headers), (None, reason)]
        while tries:
            value, heads = tries[0]
            try:
                self.sink.send(OutgoingRecords(topic, [key], [value], times, headers=[heads]))
                return
            except RecordRefusedError as refused:
                log.warning("a dead letter cannot hold its record: %s (%s)", refused, error)
                if refused.wrong_time and times is not None:
                    times = None
                else:
                    tries.pop(0)


def _error_of(failure: RecordFailure) -> ProcessingError:
    """The error that the refusal of a record ends its task with, or that its dead letter names."""
    at = failure.context
    error = ProcessingError(failure.reason, at.topic, at.partition, at.offset, at.node)
    error.__cause__ = failure.cause
    return error
