"""Counters beside a worker's work: a few additions per batch and per commit, none per record.

Only the worker's own thread touches a ``Meters``; once a second ``measure`` turns it into a
``Snapshot`` that others may read.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

import attrs

from streamlet.clock import Clock
from streamlet.coordinator.events import CommitOutcome
from streamlet.histogram import Histogram
from streamlet.processing.task import Task
from streamlet.state.backing import StoreFigures
from streamlet.tasks.commit_share import Settled
from streamlet.tasks.open_task import RestoreProgress
from streamlet.tasks.topic_meters import TopicMeters
from streamlet.types import TaskId

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


#: Rates are taken over so long, ms: Kafka's window.
RATE_MS = 30_000
#: A share of less time than this says little.
BUSY_MS = 1_000


@attrs.define
class Rate:
    """Things per second over the last half minute, of a count reported now and then."""

    points: deque[tuple[int, int]] = attrs.field(factory=deque)

    def add(self, now_ms: int, count: int) -> float:
        """Add a reading of the count; returns the rate per second."""
        points = self.points
        points.append((now_ms, count))
        while len(points) > 2 and points[1][0] <= now_ms - RATE_MS:
            points.popleft()
        since_ms, before = points[0]
        return 0.0 if now_ms <= since_ms else (count - before) * 1000 / (now_ms - since_ms)


@attrs.define
class Meters:
    """The counters of one worker."""

    clock: Clock
    poll: Histogram = attrs.field(factory=Histogram)
    process: Histogram = attrs.field(factory=Histogram)
    commit: Histogram = attrs.field(factory=Histogram)
    release: Histogram = attrs.field(factory=Histogram)
    activate_marked: Histogram = attrs.field(factory=Histogram)
    activate_outright: Histogram = attrs.field(factory=Histogram)
    created: int = 0
    closed: int = 0
    rebalances: int = 0
    last_rebalance_wall_ms: int = 0
    lost: int = 0
    store_failures: int = 0
    #: Positions that the log did not hold any more, by what became of their tasks.
    out_of_range: Counter[str] = attrs.field(factory=Counter)
    #: Records of samples that lie in other partitions than their keys belong, by topic.
    misplaced: Counter[str] = attrs.field(factory=Counter)
    #: Processed by tasks that are closed.
    processed_before: int = 0
    process_rate: Rate = attrs.field(factory=Rate)
    #: The newest word of each store that is being restored, or was for a task that runs.
    restores: dict[tuple[TaskId, str], RestoreProgress] = attrs.field(factory=dict)
    started_wall_ms: int = attrs.field(init=False)
    #: Records, bytes and times to output by topic.
    topics: TopicMeters = attrs.field(init=False)
    stores: StoreMeters = attrs.field(init=False)
    #: From an assignment until it was acted on.
    assigned: Histogram = attrs.field(factory=Histogram)
    _assigned_ns: int | None = None
    #: When ``busy`` was asked last, what it was, and the seconds worked by then.
    _busy: tuple[int, float | None, float] | None = None
    _commit_began_ns: int | None = None
    _stopped_ns: dict[TaskId, int] = attrs.field(factory=dict)
    _activating: dict[TaskId, tuple[int, bool]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        """Note when it began; nothing is counted yet."""
        self.started_wall_ms = self.clock.wall_ms()
        self.topics, self.stores = TopicMeters(self.clock), StoreMeters(self.clock)

    def busy(self, now_ms: int) -> float | None:
        """Share of the time that records were processed since the last call; None the first time.

        Asked again within a second it is as before.
        """
        worked = self.process.sum
        if self._busy is None:
            self._busy = (now_ms, None, worked)
            return None
        since_ms, known, before = self._busy
        if now_ms - since_ms >= BUSY_MS:
            known = min(1.0, (worked - before) * 1000 / (now_ms - since_ms))
            self._busy = (now_ms, known, worked)
        return known

    def committing(self, began_ns: int) -> None:
        """A commit is under way; of one that is sent again the first begin counts."""
        if self._commit_began_ns is None:
            self._commit_began_ns = began_ns

    def settled(self, settled: Settled) -> None:
        """A commit was answered."""
        now = self.clock.now_ns()
        if settled.outcome is CommitOutcome.ACCEPTED:
            if self._commit_began_ns is not None:
                self.commit.add_ns(now - self._commit_began_ns)
            for part in settled.parts:
                stopped = self._stopped_ns.pop(part.active.task, None)
                if stopped is not None and part.release_to is not None:
                    self.release.add_ns(now - stopped)
        if settled.outcome in (CommitOutcome.ACCEPTED, CommitOutcome.LOST):
            self._commit_began_ns = None

    def stopping(self, tasks: Iterable[TaskId]) -> None:
        """Note tasks that process nothing more, and are about to be committed for the last time."""
        self._stopped_ns |= dict.fromkeys(tasks, self.clock.now_ns())

    def activating(self, task: TaskId, *, marked: bool) -> None:
        """A task is to be brought up; ``marked``: its owner has released it to us."""
        self._activating[task] = (self.clock.now_ns(), marked)

    def running(self, task: TaskId) -> None:
        """Note that a task processes from now on."""
        self.created += 1
        began = self._activating.pop(task, None)
        if began is not None:
            histogram = self.activate_marked if began[1] else self.activate_outright
            histogram.add_ns(self.clock.now_ns() - began[0])

    def gone(self, task: TaskId, processed: int) -> None:
        """A task ceased to run, or will not."""
        self.closed += 1
        self.processed_before += processed
        self.forget(task)

    def forget(self, task: TaskId) -> None:
        """Drop the values of a task."""
        self._stopped_ns.pop(task, None)
        self._activating.pop(task, None)
        for key in [key for key in self.restores if key[0] == task]:
            del self.restores[key]

    def rebalanced(self) -> None:
        """An assignment was applied."""
        self.rebalances += 1
        self.last_rebalance_wall_ms = self.clock.wall_ms()
        self._assigned_ns = self.clock.now_ns()

    def acted(self) -> None:
        """News of the group were acted on."""
        if self._assigned_ns is not None:
            self.assigned.add_ns(self.clock.now_ns() - self._assigned_ns)
            self._assigned_ns = None

    def restoring(self, progress: RestoreProgress) -> None:
        """Note that a store's restoring began, ended or was given up."""
        if progress.phase == "suspended":
            self.restores.pop((progress.task, progress.store), None)
        else:
            self.restores[progress.task, progress.store] = progress
