"""The rows of all global tables in one process: records in, rows in their stores.

Sans-IO, like a task; the worker, the TopologyTestDriver and tests drive it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from streamlet.batch import Batch, OperatorFailed
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy, FailedRecord, RecordFailure
from streamlet.processing.record_decoder import RecordDecoder, Undecoded
from streamlet.processing.record_failures import RecordCounters, RecordFailures, RetryPause
from streamlet.state.store_commits import TaskStore
from streamlet.state.task_state import TaskState
from streamlet.topology.nodes import GlobalTableSpec
from streamlet.topology.operator import Operator
from streamlet.types import StateNumber, TopicPartition


class GlobalState:
    """The stores of global tables, and what they contain of their topics.

    Args:
        tables: of the topology.
        state: their stores; it has no changelogs: the topics are.
        policy: what becomes of records that cannot be decoded.
        application: its name.
        emit: takes dead letters.
        pause: before a record is decoded again.
    """

    def __init__(
        self,
        tables: Sequence[GlobalTableSpec],
        state: TaskState,
        policy: ErrorPolicy,
        application: str,
        emit: Callable[[Output], None],
        pause: RetryPause,
    ) -> None:
        self.state = state
        state.check_entries(None, {})
        self.topics = tuple(sorted(table.topic for table in tables))
        #: Next offset to read of each partition.
        self.positions: dict[TopicPartition, int] = dict(state.positions)
        #: Counts what the error policy took out.
        self.counters = RecordCounters()
        self._pause = pause
        self._failures = RecordFailures(
            *(policy, application, None, self.counters, emit, lambda: 0, pause)
        )
        self._decoder = RecordDecoder(self._failures, lambda operator, count: None)
        #: Batches from the one on that is to be decoded again.
        self._waiting: deque[PartitionBatch | Undecoded] = deque()
        self._tables = {
            table.topic: (table.source, table.make(state.stores[table.store.name]))
            for table in tables
        }

    @property
    def stores(self) -> Mapping[str, TaskStore]:
        """The stores by name."""
        return self.state.stores

    def apply(self, raw: PartitionBatch, now_ms: int) -> None:
        """Put the records of a batch into their table, behind those that wait.

        Raises:
            ProcessingError: one cannot be decoded, or written, under the policy ``fail``.
        """
        self._waiting.append(raw)
        self.go_on(now_ms)

    def go_on(self, now_ms: int) -> bool:
        """Put records that wait into their tables, up to one that is to be decoded again later.

        True if there is such a record. Raises as ``apply``.
        """
        self._pause.now_ms = now_ms
        while self._waiting and not self._pause.lasts:
            self._put(self._waiting.popleft())
        self._failures.processed(self.positions)
        return bool(self._waiting)

    def _put(self, given: PartitionBatch | Undecoded) -> None:
        source, table = self._tables[(given.raw if isinstance(given, Undecoded) else given).topic]
        batch, received = self._decoder.next(source, given, None)
        rest = self._decoder.undecoded
        if rest is not None:
            self._waiting.appendleft(rest)
            self._pause.begin(rest.pause_ms)
        mask = [key is not None for key in batch.keys]
        left = batch if all(mask) else batch.select(mask)
        while (at := self._refused(table, left, source.name)) is not None:
            left = left.slice(at + 1, len(left))
        self.positions[TopicPartition(batch.topic, batch.partition)] = received

    def _refused(self, table: Operator, batch: Batch, operator: str) -> int | None:
        """Put rows; the index of one that has no bytes, which was left out; None: all are there."""
        try:
            table.process(batch)
        except OperatorFailed as failed:
            at = failed.index
            context = self._failures.context("processing", operator, batch, at, 1)
            record = FailedRecord(batch.keys[at], batch.values[at])
            cause = failed.__cause__
            self._failures.apply(RecordFailure(context, record, "a record failed", cause, True))
            return at
        return None

    @property
    def changed(self) -> bool:
        """True if there is something to write."""
        return self.positions != self.state.positions or self.state.has_dirty()

    def write(self, times: Mapping[TopicPartition, int] | None = None) -> None:
        """Put rows and positions on the medium, in one piece.

        ``times`` are wall-clock times, ms, at which topics ended at the positions.

        Raises:
            StateError: the medium refused.
        """
        number = StateNumber(1, self.state.state.number + 1)
        self.state.write(self.state.drain(), number, self.positions, times)

    def wipe(self) -> None:
        """Empty all tables, which are read again from their topics' starts.

        Raises:
            StateError: the files cannot be deleted.
        """
        self.state.wipe()
        self.positions = {}
        self._waiting.clear()
