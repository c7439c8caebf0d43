"""The error policy of a task, applied to one record, its pause before the record is tried again.

And the records as they were read, for dead letters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import attrs

from streamlet.batch import Batch, OperatorFailed, WaitedRecord
from streamlet.clock import pause
from streamlet.errors import ProcessingError, UnreachableRegistryError
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.logs import get_logger
from streamlet.processing.outputs import Output
from streamlet.processing.policy import (
    ErrorContext,
    ErrorPolicy,
    FailedRecord,
    RecordFailure,
    Stage,
    error_of,
    has_reason,
    reason_headers,
)
from streamlet.processing.users_functions import function_place
from streamlet.serdes.copies import own
from streamlet.topology.nodes import ProcessorNode, SinkNode
from streamlet.types import TaskId, TopicPartition
from streamlet.user_code import Place, shown

log = get_logger(__name__)

#: The pause before a schema registry that is away is asked again, and how often it is said, ms.
_AWAY_MS, _SAY_EVERY_MS = 1_000, 30_000


@attrs.define
class RecordCounters:
    """The counts of a task since it was made or they were cleared, or of a worker since its start.

    A worker's ``records`` are those that it polled.
    """

    records: int = 0
    dropped: int = 0  # by rule: null keys, negative times from an extractor
    late: int = 0  # out of closed windows; a record counts for each of its windows
    skipped: int = 0  # by error policy, dead letters included
    dead_lettered: int = 0

    def clear(self) -> None:
        """Begin to count again."""
        self.records = self.dropped = self.late = self.skipped = self.dead_lettered = 0

    def add(self, others: RecordCounters) -> None:
        """Add what became of the records of a task, all but how many they were."""
        self.dropped += others.dropped
        self.late += others.late
        self.skipped += others.skipped
        self.dead_lettered += others.dead_lettered


def decide(
    policy: ErrorPolicy,
    failure: RecordFailure,
    counters: RecordCounters,
    error: Callable[[RecordFailure], ProcessingError],
    letter: Callable[[str, ProcessingError], None],
) -> int | None:
    """Apply an error policy to one record.

    Args:
        policy: of its task.
        failure: of the record.
        counters: count it, if it is left out.
        error: makes the error to raise, or for the dead letter.
        letter: writes a dead letter to a topic.

    Returns:
        The pause before the record is to be tried again, ms; None: it is left out.

    Raises:
        ProcessingError: under ``fail``, or because a handler failed.
    """
    decision = policy.decide(failure)
    if isinstance(decision, int):
        return decision
    if decision.action == "fail":
        raise error(failure)
    counters.skipped += 1
    if decision.topic is not None and not _lies_there(policy, failure, decision.topic):
        counters.dead_lettered += 1
        letter(decision.topic, error(failure))
    return None


def _lies_there(policy: ErrorPolicy, failure: RecordFailure, topic: str) -> bool:
    """True if a record was read from the topic of its dead letter, and is one already.

    It would be written and read for ever. A handler may bound that by headers, so it is not asked.
    """
    at = failure.context
    again = at.topic == topic and has_reason(list(at.headers))
    return again and not callable(getattr(policy, at.stage))


@attrs.define
class RetryPause:
    """The pause of one task.

    Args:
        in_parts: whether the caller comes back to the task, so that nothing need block.
        block: blocks for some ms, where the pause cannot be left for later.
    """

    in_parts: bool
    block: Callable[[int], None] = pause
    #: The time of the task's present step.
    now_ms: int = 0
    #: The time at which the record is due, by the same clock; None: there is no pause.
    due_ms: int | None = None

    def begin(self, pause_ms: int) -> None:
        """Begin a pause, or lengthen the present one."""
        self.due_ms = max(self.now_ms + pause_ms, self.due_ms or 0)

    def rest_of(self, pause_ms: int) -> int:
        """The part of a pause that is left to a caller that comes back, ms; else it is over."""
        if not self.in_parts:
            self.block(pause_ms)
        return pause_ms if self.in_parts else 0

    @property
    def lasts(self) -> bool:
        """True if the caller is to come back later; otherwise waits for the end of the pause."""
        if self.due_ms is None:
            return False
        if self.in_parts and self.now_ms < self.due_ms:
            return True
        self.sit_out()
        return False

    def sit_out(self) -> None:
        """Wait for the end of the pause, if there is one."""
        if self.due_ms is not None:
            self.block(max(0, self.due_ms - self.now_ms))
            self.due_ms = None


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
    counters: RecordCounters
    emit: Callable[[Output], None]
    stream_time: Callable[[], int]
    pause: RetryPause
    #: When it was said last that the task waits, ms; None: it was not.
    _said_ms: int | None = attrs.field(default=None, init=False)
    #: The operators of nodes, by the names of these.
    operators: dict[str, object] = attrs.field(factory=dict, init=False)
    _places: dict[str, Place | None] = attrs.field(factory=dict, init=False)
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
        self, batch: Batch, node: ProcessorNode | SinkNode, failed: OperatorFailed, attempt: int
    ) -> bool:
        """Apply the policy to the record at the beginning of a batch, on which a node failed.

        True if it is to be tried again, after a pause that has begun.
        """
        pause_ms = self.pause_ms(batch, node, failed, attempt)
        if pause_ms is not None:
            self.pause.begin(pause_ms)
        return pause_ms is not None

    def pause_ms(
        self, batch: Batch, node: ProcessorNode | SinkNode, failed: OperatorFailed, attempt: int
    ) -> int | None:
        """Apply the policy to the first record of a batch, without a pause of the task.

        Returns:
            The pause before the record is to be tried again, ms; None: it is left out.
        """
        topic = node.topic if isinstance(node, SinkNode) else None
        stage: Stage = "processing" if topic is None else "production"
        # A store may have the objects themselves, and a handler may change what it is given.
        record = FailedRecord(own(batch.keys[0]), own(batch.values[0]), topic)
        context = self.context(stage, node.name, batch, 0, attempt)
        failure = RecordFailure(
            *(context, record, "a record failed", failed.__cause__, not failed.again),
            self._place(node.name),
        )
        return self._apply_to_row(failure) if failed.of_row else self.apply(failure)

    def _place(self, node: str) -> Place | None:
        """The line at which the function of a node begins, looked up once a record fails."""
        if node not in self._places:
            self._places[node] = function_place(self.operators.get(node))
        return self._places[node]

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

    def away(self, error: UnreachableRegistryError) -> int:
        """The pause before a schema registry that is away is asked again, ms.

        Raises:
            UnreachableRegistryError: nothing comes back to the task later, so there is no pause.
        """
        if self.blocks:
            raise error
        now_ms = self.pause.now_ms
        if self._said_ms is None or now_ms - self._said_ms >= _SAY_EVERY_MS:
            self._said_ms = now_ms
            log.warning("task %s waits: %s", self.task, error)
        return _AWAY_MS

    # What operators tell (topology.operator.WaitedFailures).

    @property
    def as_they_came(self) -> bool:
        """True if records are wanted as they came, to try them again or for dead letters."""
        return self.policy.may_retry or self.policy.writes_letters

    def waited_failed(
        self, operator: str, at: Batch, waited: WaitedRecord, error: BaseException, attempt: int
    ) -> bool:
        """Apply the policy to a record that waited, and was due with the first one of a batch.

        True if it is to be tried again, after a pause that has begun; else it is left out.
        """
        context = attrs.evolve(
            self.context("processing", operator, at, 0, attempt),
            timestamp=waited.timestamp,
            headers=tuple(waited.headers or ()),
        )
        failure = RecordFailure(
            context,
            FailedRecord(waited.key, waited.value),
            f"a record that waited failed (key {shown(waited.key)}, time {waited.timestamp}), "
            "sent by the one",
            error,
        )
        letter = partial(self._waited_letter, waited)
        pause_ms = decide(self.policy, failure, self.counters, error_of, letter)
        if pause_ms is not None:
            self.pause.begin(pause_ms)
        return pause_ms is not None

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
        """Apply the error policy to one record; as ``decide``."""
        return decide(self.policy, failure, self.counters, error_of, self._letter)

    def _apply_to_row(self, failure: RecordFailure) -> int | None:
        """Apply the error policy to a record that is good, but for a row that is there already.

        The record goes on, so it is neither counted nor written to a dead letter topic.
        """
        decision = self.policy.decide(failure)
        if isinstance(decision, int):
            return decision
        if decision.action == "fail":
            raise error_of(failure)
        return None

    def _letter(self, topic: str, error: ProcessingError) -> None:
        """Write the dead letter of a record."""
        where = TopicPartition(error.topic, error.partition)
        self._write_letter(topic, error, *self._as_read(where, error.offset))

    def _waited_letter(self, waited: WaitedRecord, topic: str, error: ProcessingError) -> None:
        """Write the dead letter of a record that waited."""
        time = max(0, waited.timestamp)
        self._write_letter(topic, error, *waited.encoded(), time, waited.headers)

    def _write_letter(
        self,
        topic: str,
        error: ProcessingError,
        key: bytes | None,
        value: bytes | None,
        time: int,
        headers: Headers | None,
    ) -> None:
        letter = reason_headers(error, self.application, headers)
        origin = (1, TopicPartition(error.topic, error.partition), [error.offset])
        self.emit(Output(topic, [key], [value], [time], None, [letter], [origin]))

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
