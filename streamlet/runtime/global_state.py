"""The rows of all global tables in one process: records in, rows in their stores.

Sans-IO, like a task; the worker, the TopologyTestDriver and tests drive it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from streamlet.errors import ProcessingError
from streamlet.kafka.ports import PartitionBatch
from streamlet.runtime.policy import ErrorPolicy
from streamlet.runtime.record_decoder import RecordDecoder
from streamlet.state.store import CachedStore
from streamlet.state.task_state import TaskState
from streamlet.topology.nodes import GlobalTableSpec
from streamlet.types import StateNumber, TopicPartition

log = logging.getLogger(__name__)


class GlobalState:
    """The stores of global tables, and what they contain of their topics.

    Args:
        tables: of the topology.
        state: their stores; it has no changelogs: the topics are.
        policy: what becomes of records that cannot be decoded; none of them is a dead letter.
    """

    def __init__(
        self, tables: Sequence[GlobalTableSpec], state: TaskState, policy: ErrorPolicy
    ) -> None:
        self.state = state
        self.topics = tuple(sorted(table.topic for table in tables))
        #: Next offset to read of each partition.
        self.positions: dict[TopicPartition, int] = dict(state.positions)
        #: Records that the error policy took out.
        self.skipped = 0
        self._policy = policy
        self._decoder = RecordDecoder(self._failed, lambda operator, count: None)
        self._tables = {
            table.topic: (table.source, table.make(state.stores[table.store.name]))
            for table in tables
        }

    @property
    def stores(self) -> Mapping[str, CachedStore]:
        """The stores by name."""
        return self.state.stores

    def apply(self, raw: PartitionBatch) -> None:
        """Put the records of a batch into their table.

        Raises:
            ProcessingError: one cannot be decoded, under the policy ``fail``.
        """
        source, table = self._tables[raw.topic]
        batch = self._decoder.batch(source, raw)
        mask = [key is not None for key in batch.keys]
        table.process(batch if all(mask) else batch.select(mask))
        self.positions[TopicPartition(raw.topic, raw.partition)] = raw.offsets[-1] + 1

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

    def _failed(
        self,
        reason: str,
        where: TopicPartition,
        offset: int,
        operator: str,
        cause: BaseException | None,
    ) -> None:
        """Apply the error policy to a record.

        Raises:
            ProcessingError: under ``fail``.
        """
        detail = f"{reason} ({type(cause).__name__}: {cause})"
        error = ProcessingError(detail, where.topic, where.partition, offset, operator, None)
        if self._policy.action == "fail":
            raise error from cause
        self.skipped += 1
        log.warning("left out of a global table: %s", error)
