"""The error policy of a task, applied to one record, and the records as read for dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from streamlet.errors import ProcessingError, error_text
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.runtime.outputs import Output
from streamlet.runtime.policy import ErrorPolicy, reason_headers
from streamlet.types import TopicPartition
from streamlet.user_code import raised_at


@attrs.define
class TaskCounters:
    """The counts of a task since it was made."""

    records: int = 0
    dropped: int = 0  # by rule: null keys, negative times from an extractor
    late: int = 0  # out of closed windows; a record counts for each of its windows
    skipped: int = 0  # by error policy, dead letters included
    dead_lettered: int = 0


@attrs.define
class RecordFailures:
    """The failed records of a task.

    Args:
        policy: what becomes of them.
        application: name for dead letters.
        counters: of the task.
        emit: takes dead letters.
    """

    policy: ErrorPolicy
    application: str
    counters: TaskCounters
    emit: Callable[[Output], None]
    #: Batches as read, for dead letters; only those that may still be needed.
    raws: list[PartitionBatch] = attrs.field(factory=list, init=False)

    def keep(self, raw: PartitionBatch) -> None:
        """Keep a batch as it was read, if dead letters may need it."""
        if self.policy.topic is not None and len(raw):
            self.raws.append(raw)

    def processed(self, positions: Mapping[TopicPartition, int]) -> None:
        """Forget batches behind which the positions are.

        The last one stays: results that wait for a commit are ascribed to its last record.
        """
        if self.raws:
            self.raws = [
                raw
                for raw in self.raws
                if raw.offsets[-1] >= positions[TopicPartition(raw.topic, raw.partition)] - 1
            ]

    def apply(
        self,
        reason: str,
        where: TopicPartition,
        offset: int,
        operator: str,
        cause: BaseException | None,
        stream_time: int,
    ) -> None:
        """Apply the error policy to one record.

        Raises:
            ProcessingError: under ``fail``.
        """
        if self.policy.action == "skip":
            self.counters.skipped += 1
            return
        raised = error_text(cause) if cause is not None and raised_at(cause) is not None else None
        detail = reason if raised is not None else f"{reason} ({type(cause).__name__}: {cause})"
        error = ProcessingError(detail, where.topic, where.partition, offset, operator, raised)
        error.__cause__ = cause
        if self.policy.action == "fail":
            raise error
        self.counters.skipped += 1
        if self.policy.topic is not None:
            self.counters.dead_lettered += 1
            key, value, time, headers = self._as_read(where, offset, stream_time)
            letter = reason_headers(error, self.application, headers)
            origin = (1, where, [offset])
            self.emit(Output(self.policy.topic, [key], [value], [time], None, [letter], [origin]))

    def _as_read(
        self, where: TopicPartition, offset: int, stream_time: int
    ) -> tuple[bytes | None, bytes | None, int, Headers | None]:
        """The record as it came from the topic, for its dead letter.

        That of a result by the clock may not be there any more: it has no key and value then.
        """
        for raw in self.raws:
            if (raw.topic, raw.partition) == where and offset in raw.offsets:
                i = raw.offsets.index(offset)
                headers = None if raw.headers is None else raw.headers[i]
                return raw.keys[i], raw.values[i], raw.timestamps[i], headers
        return None, None, max(0, stream_time), None
