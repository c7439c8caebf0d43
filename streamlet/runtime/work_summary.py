"""Logs now and then how much a worker did, as Kafka Streams' threads do."""

from __future__ import annotations

import attrs

from streamlet.clock import Clock
from streamlet.logs import get_logger
from streamlet.tasks.meters import Meters
from streamlet.tasks.task_registry import TaskRegistry

log = get_logger(__name__)


@attrs.define(eq=False)
class WorkSummary:
    """A line about the records and commits since the line before, each ``every_ms``.

    Args:
        every_ms: ``log.summary.interval.ms``; below 0: never.
        clock: the time.
        meters: count beside the work.
        registry: the active tasks, which count their records.
    """

    _every_ms: int
    _clock: Clock
    _meters: Meters
    _registry: TaskRegistry
    _since_ms: int = attrs.field(init=False)
    _counted: tuple[int, int] = attrs.field(default=(0, 0), init=False)

    def __attrs_post_init__(self) -> None:
        self._since_ms = self._clock.now_ms()

    def step(self) -> None:
        """Log the line if it is due."""
        now = self._clock.now_ms()
        if self._every_ms < 0 or now - self._since_ms < self._every_ms:
            return
        tasks = self._registry.tasks.values()
        records = self._meters.processed_before + sum(
            active.processor.counters.records for active in tasks
        )
        commits = sum(self._meters.commit.counts)
        log.info(
            "processed %d records and committed %d times in %d s; running: %d tasks",
            *(records - self._counted[0], commits - self._counted[1]),
            *(round((now - self._since_ms) / 1000), len(tasks)),
        )
        self._since_ms, self._counted = now, (records, commits)
