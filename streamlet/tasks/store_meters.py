"""Figures of the stores of a worker's tasks, read now and then."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from streamlet.clock import Clock
from streamlet.processing.task import Task
from streamlet.state.backing import StoreFigures

#: How often the figures are read, ms; RocksDB takes some 20 us for those of one store.
EVERY_MS = 5_000


@attrs.define(eq=False)
class StoreMeters:
    """The newest figures; only for the worker's own thread."""

    _clock: Clock
    _read_ms: int | None = attrs.field(default=None, init=False)
    _tasks: frozenset[str] = attrs.field(default=frozenset(), init=False)
    _found: dict[tuple[str, str], StoreFigures] = attrs.field(factory=dict, init=False)

    def figures(self, tasks: Mapping[str, Task]) -> dict[tuple[str, str], StoreFigures]:
        """The figures by task and store, at most ``EVERY_MS`` old where the tasks are the same."""
        now_ms = self._clock.now_ms()
        due = self._read_ms is None or now_ms - self._read_ms >= EVERY_MS
        if due or tasks.keys() != self._tasks:
            self._read_ms, self._tasks = now_ms, frozenset(tasks)
            self._found = {
                (name, store): one.commits.figures()
                for name, task in tasks.items()
                for store, one in task.state.stores.items()
            }
        return self._found
