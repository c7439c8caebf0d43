"""Partitions whose next record waits for long: for an open transaction, or for a call."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from streamlet.types import TopicPartition

#: How long a record may wait until the reason is told, ms.
LONG_MS = 10_000


@attrs.define
class WaitingPartitions:
    """Partitions with a record that waits, and since when each has waited at the same offset."""

    _since: dict[TopicPartition, tuple[int, int]] = attrs.field(factory=dict)

    def for_long(
        self, waiting: Mapping[TopicPartition, int], now_ms: int
    ) -> dict[TopicPartition, int]:
        """The partitions that have waited at the same offset for ``LONG_MS``.

        Args:
            waiting: the offset that each waits at now, of all that wait.
            now_ms: the time.
        """
        seen: dict[TopicPartition, tuple[int, int]] = {}
        for partition, offset in waiting.items():
            before, since_ms = self._since.get(partition, (-1, now_ms))
            seen[partition] = offset, since_ms if before == offset else now_ms
        self._since = seen
        return {
            tp: waiting[tp] for tp, (_, since_ms) in seen.items() if now_ms - since_ms >= LONG_MS
        }
