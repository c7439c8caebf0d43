"""Last stable offsets of partitions, from the statistics of a client that reads what is committed.

The client shows applications the high watermark alone. Behind the last stable offset lie records
of transactions that are open: no consumer gets them before these end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import attrs

from streamlet.types import TopicPartition

#: How long a transaction may be open before it is named.
OPEN_MS = 10_000


class StableOffsets:
    """High watermark and last stable offset of each partition, as of the last statistics."""

    def __init__(self) -> None:
        self._found: dict[TopicPartition, tuple[int, int]] = {}

    def take(self, text: str) -> None:
        """Read the client's statistics."""
        topics = json.loads(text).get("topics", {})
        self._found = {
            TopicPartition(name, int(number)): (one["hi_offset"], one["ls_offset"])
            for name, topic in topics.items()
            for number, one in topic["partitions"].items()
            if int(number) >= 0 and one["ls_offset"] >= 0
        }

    def end(self, partition: TopicPartition, high: int) -> int:
        """The end of what a consumer gets, given the high watermark of now.

        The last stable offset moves only with the high watermark: a transaction ends by a marker.
        """
        then, stable = self._found.get(partition, (-1, -1))
        return stable if then == high else high

    def held_from(self, partition: TopicPartition) -> int | None:
        """The last stable offset, if records lie behind it."""
        high, stable = self._found.get(partition, (0, 0))
        return stable if stable < high else None


def held_text(partition: TopicPartition, offset: int) -> str:
    """The reason why records from an offset on are not read, as a sentence without its end."""
    return (
        f"a transaction that is open since offset {offset} of {partition} holds back what is "
        "behind it, until it is committed or aborted"
    )


@attrs.define
class HeldPartitions:
    """Partitions that open transactions hold back, and since when each does."""

    _since: dict[TopicPartition, tuple[int, int]] = attrs.field(factory=dict)

    def for_long(
        self, held: Mapping[TopicPartition, int], now_ms: int
    ) -> dict[TopicPartition, int]:
        """Those that the same transaction has held back for ``OPEN_MS``.

        Args:
            held: the offset from which on each is held back now, of all that are.
            now_ms: the time.
        """
        seen: dict[TopicPartition, tuple[int, int]] = {}
        for partition, offset in held.items():
            before, since_ms = self._since.get(partition, (-1, now_ms))
            seen[partition] = offset, since_ms if before == offset else now_ms
        self._since = seen
        return {tp: held[tp] for tp, (_, since_ms) in seen.items() if now_ms - since_ms >= OPEN_MS}
