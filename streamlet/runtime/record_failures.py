"""The error policy of a task, applied to one record, and the records as read for dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.runtime.error_context import ErrorContext, FailedRecord, RecordFailure, Stage
from streamlet.runtime.outputs import Output
from streamlet.runtime.policy import ErrorPolicy, FinalAnswer, error_of, reason_headers
from streamlet.runtime.retry_pause import RetryPause
from streamlet.topology.nodes import ProcessorNode, SinkNode
from streamlet.types import TaskId, TopicPartition


@attrs.define
class TaskCounters:
    """The counts of a task since it was made, or since they were cleared."""

    records: int = 0
    dropped: int = 0  # by rule: null keys, negative times from an extractor
    late: int = 0  # out of closed windows; a record counts for each of its windows
    skipped: int = 0  # by error policy, dead letters included
    dead_lettered: int = 0

    def clear(self) -> None:
        """Begin to count again."""
        self.records = self.dropped = self.late = self.skipped = self.dead_lettered = 0


@attrs.define
class RecordFailures:
    """The failed records of a task.

    Args:
        policy: what becomes of them.
        application: its name.
        task: which; None for global tables.
        counters: of the task.
        emit: takes outputs, and dead letters among them.
        stream_time: of the task, ms.
        pause: before a record is tried again.
    """

    policy: ErrorPolicy
    application: str
    task: TaskId | None
    counters: TaskCounters
    emit: Callable[[Output], None]
    stream_time: Callable[[], int]
    pause: RetryPause
    #: Batches as read, for dead letters; only those that may still be needed.
    raws: list[PartitionBatch] = attrs.field(factory=list, init=False)

    def keep(self, raw: PartitionBatch) -> None:
        """Keep a batch as it was read, if dead letters may need it."""
        if self.policy.writes_letters and len(raw):
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

    # What nodes tell (node_steps.Results).

    def record_failed(
        self,
        batch: Batch,
        node: ProcessorNode | SinkNode,
        failed: OperatorFailed,
        attempt: int,
    ) -> bool:
        """Apply the policy to the record at the beginning of a batch, on which a node failed.

        True if it is to be tried again, after a pause that has begun.
        """
        pause_ms = self.pause_ms(batch, node, failed, attempt)
        if pause_ms is not None:
            self.pause.begin(pause_ms)
        return pause_ms is not None

    def pause_ms(
        self,
        batch: Batch,
        node: ProcessorNode | SinkNode,
        failed: OperatorFailed,
        attempt: int,
    ) -> int | None:
        """Apply the policy to the first record of a batch, without a pause of the task.

        Returns:
            The pause before the record is to be tried again, ms; None: it is left out.
        """
        topic = node.topic if isinstance(node, SinkNode) else None
        stage: Stage = "processing" if topic is None else "production"
        record = FailedRecord(batch.keys[0], batch.values[0], topic)
        context = self.context(stage, node.name, batch, 0, attempt)
        return self.apply(
            RecordFailure(context, record, "a record failed", failed.__cause__, not failed.again)
        )

    @property
    def blocks(self) -> bool:
        """True if the task waits for what takes time; else its caller comes back to it."""
        return not self.pause.in_parts

    def sit_out(self) -> None:
        """Wait until the record that failed is to be tried again, if one is."""
        self.pause.sit_out()

    def without_record(self, operator: str, at: Batch, error: BaseException) -> None:
        """Apply the policy to what an operator did without a record of its own."""
        context = self.context("processing", operator, at, 0, 1)
        self.apply(RecordFailure(context, None, "a record failed", error, final=True))

    def context(
        self, stage: Stage, node: str, batch: Batch | PartitionBatch, index: int, attempt: int
    ) -> ErrorContext:
        """The context of a failure on one record of a batch."""
        headers = batch.headers and batch.headers[index]
        return ErrorContext(
            *(stage, self.application, self.task, node),
            *(batch.topic, batch.partition, batch.offsets[index], batch.timestamps[index]),
            tuple(headers or ()),
            attempt,
        )

    # The answer.

    def apply(self, failure: RecordFailure) -> int | None:
        """Apply the error policy to one record.

        Returns:
            The pause before the record is to be tried again, ms; None: it is left out.

        Raises:
            ProcessingError: under ``fail``, or because a handler failed.
        """
        decision = self.policy.decide(failure)
        if isinstance(decision, int):
            return decision
        if decision.action != "skip":
            self._letter(failure, decision)
        self.counters.skipped += 1
        return None

    def _letter(self, failure: RecordFailure, decision: FinalAnswer) -> None:
        """Write the dead letter of a record; raises under ``fail``."""
        error, at = error_of(failure), failure.context
        if decision.topic is None:
            raise error
        self.counters.dead_lettered += 1
        where = TopicPartition(at.topic, at.partition)
        key, value, time, headers = self._as_read(where, at.offset)
        letter = reason_headers(error, at.application, headers)
        origin = (1, where, [at.offset])
        self.emit(Output(decision.topic, [key], [value], [time], None, [letter], [origin]))

    def _as_read(
        self, where: TopicPartition, offset: int
    ) -> tuple[bytes | None, bytes | None, int, Headers | None]:
        """The record as it came from the topic, for its dead letter.

        That of a result by the clock may not be there any more: it has no key and value then.
        """
        for raw in self.raws:
            if (raw.topic, raw.partition) == where and offset in raw.offsets:
                i = raw.offsets.index(offset)
                headers = None if raw.headers is None else raw.headers[i]
                return raw.keys[i], raw.values[i], raw.timestamps[i], headers
        return None, None, max(0, self.stream_time()), None
