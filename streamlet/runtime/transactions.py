"""Inputs that others write in transactions: offsets without records, records held back.

The last offsets of such a partition are a marker, or records of a transaction that was aborted. No
record comes of them, so a position that goes by records would lag behind them for ever. Once all
that was read is processed a task's position goes on to that of the consumer, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from streamlet.kafka.ports import RecordSource
from streamlet.kafka.stable_offsets import held_text
from streamlet.kafka.waiting_partitions import WaitingPartitions
from streamlet.tasks.active import ActiveTask

#: How often to look at positions while no records come.
LOOK_MS = 200


@attrs.define
class OffsetGaps:
    """Moves positions of tasks that have nothing to do behind offsets that are no records."""

    _look_at_ms: int = 0

    def look(
        self, now_ms: int, running: Iterable[ActiveTask], source: RecordSource, *, own: bool = False
    ) -> None:
        """Move idle tasks' positions over offsets without records, now and then after empty polls.

        ``own``: the topics between tasks may be written in transactions, too.
        """
        if now_ms < self._look_at_ms:
            return
        self._look_at_ms = now_ms + LOOK_MS
        for active in running:
            processor = active.processor
            idle = not (active.stands or active.unsent or active.retrying or processor.under_way)
            if not idle or any(processor.buffered().values()):
                continue
            between = set() if own else {one.name for one in active.subtopology.repartitions}
            received = {tp: at for tp, at in processor.received.items() if tp.topic not in between}
            for tp, position in source.positions(sorted(received)).items():
                if position > received[tp]:
                    processor.skip_to(tp, position, lost=False)


@attrs.define
class OpenTransactions:
    """Names transactions that have been open for long, by the tasks that wait for them."""

    _waiting: WaitingPartitions = attrs.field(factory=WaitingPartitions)

    def problems(
        self, tasks: Iterable[ActiveTask], source: RecordSource, now_ms: int
    ) -> dict[str, str]:
        """The reason why each task waits, if it is the same transaction for ``LONG_MS``."""
        task_of = {tp: str(active.task) for active in tasks for tp in active.inputs}
        held = {tp: at for tp in task_of if (at := source.held_from(tp)) is not None}
        for_long = self._waiting.for_long(held, now_ms)
        return {task_of[tp]: held_text(tp, offset) for tp, offset in for_long.items()}
