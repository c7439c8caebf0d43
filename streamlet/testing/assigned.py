"""The part of a consumer in memory that keeps what it reads, and where; without any log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamlet.types import TopicPartition


class AssignedPartitions:
    """The partitions of a ``RecordSource``, with positions, in the order of their next turn.

    What ``poll`` finds behind these is for the source that is made of it.
    """

    def __init__(self) -> None:
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Add partitions, or move them."""
        self._positions.update(positions)
        self._paused -= set(positions)

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop partitions."""
        for partition in partitions:
            self._positions.pop(partition, None)
            self._paused.discard(partition)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Return no more of these."""
        self._paused.update(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Return these again."""
        self._paused -= set(partitions)

    def positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The position of each: behind gaps too, once there is no record before the end."""
        return {partition: self._positions[partition] for partition in partitions}

    def held_from(self, partition: TopicPartition) -> int | None:
        """None: there are no transactions."""
        return None

    def close(self) -> None:
        """Forget everything."""
        self._positions.clear()
