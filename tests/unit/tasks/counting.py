"""A source that notes what it is told, call by call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamlet.testing.memory_ports import MemorySource
from streamlet.types import TopicPartition


class CountingSource(MemorySource):
    """Notes what was assigned and unassigned together."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.assigned: list[list[TopicPartition]] = []
        self.unassigned: list[list[TopicPartition]] = []

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self.assigned.append(sorted(positions))
        super().assign(positions)

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        self.unassigned.append(sorted(partitions))
        super().unassign(partitions)
