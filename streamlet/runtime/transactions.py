"""Inputs that others write in transactions: offsets without records, records held back.

The last offsets of such a partition are a marker, or records of a transaction that was aborted. No
record comes of them, so a position that goes by records would lag behind them for ever. Once all
that was read is processed a task's position goes on to that of the consumer, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from streamlet.kafka.ports import RecordSource
from streamlet.tasks.active import ActiveTask
from streamlet.types import TopicPartition

#: How often to look at positions while no records come.
LOOK_MS = 200
#: How long a transaction may be open before the task that waits for it is named.
OPEN_MS = 10_000


@attrs.define
class OffsetGaps:
    """Moves positions of tasks that have nothing to do behind offsets that are no records."""

    _look_at_ms: int = 0

    def look(self, now_ms: int, running: Iterable[ActiveTask], source: RecordSource) -> None:
        """Move positions, if it is time to look; a poll has just found no record."""
        if now_ms < self._look_at_ms:
            return
        self._look_at_ms = now_ms + LOOK_MS
        for active in running:
            processor = active.processor
            idle = not (active.halted or active.unsent or active.retrying or processor.under_way)
            if not idle or any(processor.buffered().values()):
                continue
            between = {topic.name for topic in active.subtopology.repartitions}
            received = {tp: at for tp, at in processor.received.items() if tp.topic not in between}
            for tp, position in source.positions(sorted(received)).items():
                if position > received[tp]:
                    processor.skip_to(tp, position)


@attrs.define
class OpenTransactions:
    """Names transactions that have been open for long, by the tasks that wait for them."""

    _since: dict[TopicPartition, tuple[int, int]] = attrs.field(factory=dict)

    def problems(
        self, tasks: Iterable[ActiveTask], source: RecordSource, now_ms: int
    ) -> dict[str, str]:
        """The reason why each task waits, if it is the same transaction for ``OPEN_MS``."""
        found: dict[str, str] = {}
        seen: dict[TopicPartition, tuple[int, int]] = {}
        for active in tasks:
            for tp in active.inputs:
                offset = source.held_from(tp)
                if offset is None:
                    continue
                before, since_ms = self._since.get(tp, (-1, now_ms))
                since_ms = since_ms if before == offset else now_ms
                seen[tp] = offset, since_ms
                if now_ms - since_ms >= OPEN_MS:
                    found[str(active.task)] = (
                        f"a transaction that is open since offset {offset} of {tp} holds back what "
                        "is behind it, until it is committed or aborted"
                    )
        self._since = seen
        return found
