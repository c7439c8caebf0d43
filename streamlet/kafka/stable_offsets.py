"""Last stable offsets of partitions, from the statistics of a client that reads what is committed.

The client shows applications the high watermark alone. Behind the last stable offset lie records
of transactions that are open: no consumer gets them before these end.
"""

from __future__ import annotations

import json

from streamlet.types import TopicPartition


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
