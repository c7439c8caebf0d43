"""Lets the broker drop records of internal topics, which are ours alone, that are not needed.

Those are records of repartition topics that were read, and records of changelogs about windows that
have expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamlet.kafka.ports import Admin
from streamlet.runtime.active import TaskCommit
from streamlet.types import TopicPartition

#: As Kafka Streams' repartition.purge.interval.ms.
PURGE_INTERVAL_MS = 30_000


class Purge:
    """Collects offsets that accepted commits allow, and has the records before them deleted.

    Args:
        admin: deletes.
        topics: the repartition topics.
        alive: tells if our membership still stands. A process that slept while its application was
            reset must not delete from the topics that were made again.
    """

    def __init__(
        self, admin: Admin, topics: Iterable[str], alive: Callable[[], bool] = lambda: True
    ) -> None:
        self._admin = admin
        self._alive = alive
        self._topics = frozenset(topics)
        self._before: dict[TopicPartition, int] = {}
        self._next_ms: int | None = None

    def committed(self, part: TaskCommit) -> None:
        """Note how far an accepted commit goes in its inputs, and what its changelogs can lack.

        Its metadata tells from where on they are whole, and so does that of every later commit: no
        reader takes the records for lost, however late they are deleted.
        """
        for tp, offset in part.offsets.items():
            if tp.topic in self._topics and offset > 0:
                self._before[tp] = offset
        self._before.update(part.starts)

    def run(self, now_ms: int) -> None:
        """Delete, at most once an interval."""
        if self._next_ms is None:
            self._next_ms = now_ms + PURGE_INTERVAL_MS
        if now_ms >= self._next_ms and self._before:
            if not self._alive():
                self._before = {}
                return
            self._admin.delete_records(self._before)
            self._before = {}
            self._next_ms = now_ms + PURGE_INTERVAL_MS
