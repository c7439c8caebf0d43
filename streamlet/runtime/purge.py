"""Lets the broker drop what was read of repartition topics: they are ours alone."""

from __future__ import annotations

from collections.abc import Iterable

from streamlet.kafka.ports import Admin
from streamlet.runtime.active import ActiveTask
from streamlet.types import TopicPartition

#: As Kafka Streams' repartition.purge.interval.ms.
PURGE_INTERVAL_MS = 30_000


class Purge:
    """Collects committed positions of repartition topics and has records below them deleted."""

    def __init__(self, admin: Admin, topics: Iterable[str]) -> None:
        self._admin = admin
        self._topics = frozenset(topics)
        self._before: dict[TopicPartition, int] = {}
        self._next_ms: int | None = None

    def committed(self, active: ActiveTask) -> None:
        """Note how far a task has committed its input."""
        for tp, offset in active.committed.items():
            if tp.topic in self._topics and offset > 0:
                self._before[tp] = offset

    def run(self, now_ms: int) -> None:
        """Delete, at most once an interval."""
        if self._next_ms is None:
            self._next_ms = now_ms + PURGE_INTERVAL_MS
        if now_ms >= self._next_ms and self._before:
            self._admin.delete_records(self._before)
            self._before = {}
            self._next_ms = now_ms + PURGE_INTERVAL_MS
