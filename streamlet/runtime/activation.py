"""Brings tasks up: from the order to run one to a task that may process.

In this order, because each step relies on the one before: read the committed positions, read where
the changelogs end *after* that, restore up to there counting only what the commit contains, then
begin a new epoch at exactly the committed offsets. A mark says the positions and the ends itself.

A task with a warm copy on this worker is promoted by the thread that keeps it; any other is opened
and restored here, a step at a time, between the batches of tasks that run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.errors import StateLockedError
from streamlet.group.handover_values import Positions
from streamlet.kafka.ports import Admin
from streamlet.runtime.active import ActiveTask
from streamlet.runtime.copies import CommittedPositions, Copies, CopyFailed, Promoted
from streamlet.runtime.opening import OpenTask, changelogs_of, open_task
from streamlet.runtime.policy import ErrorPolicy
from streamlet.runtime.restore import RestoreJob, Restorer
from streamlet.runtime.start import start_offsets
from streamlet.runtime.task import Task
from streamlet.state.directory import StateDirectory
from streamlet.topology.graph import Topology
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import NO_STATE, StateNumber, TaskId, TopicPartition

log = logging.getLogger(__name__)

#: How often a folder that another worker still holds is tried again.
LOCKED_RETRY_MS = 20


@attrs.frozen
class Target:
    """What a task begins with: the commit it starts from, and where its changelogs end."""

    positions: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    epoch: int
    #: State of the commit; None if nobody committed: everything in the changelogs counts.
    limit: StateNumber | None


class Activation:
    """Tasks on their way up; it owns them until they are ready.

    Args:
        topology: what the tasks do.
        directory: where their state lies.
        restorer: reads changelogs, on the worker's thread.
        copies: keeps copies, on its own; None without learners and standbys.
        positions: knows committed positions.
        admin: knows where partitions begin and end.
        settings: the application's.
        counts: partitions of every topic.
        policy: what becomes of records that fail.
        clock: for retries.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        directory: StateDirectory,
        restorer: Restorer,
        copies: Copies | None = None,
        positions: CommittedPositions,
        admin: Admin,
        settings: Settings,
        counts: Mapping[str, int],
        policy: ErrorPolicy,
        clock: Clock,
    ) -> None:
        self._topology = topology
        self._directory = directory
        self._restorer = restorer
        self._copies = copies
        self._positions = positions
        self._admin = admin
        self._settings = settings
        self._counts = dict(counts)
        self._policy = policy
        self._clock = clock
        #: Wanted, nothing done yet; with the mark's positions where there is one.
        self._wanted: dict[TaskId, Positions | None] = {}
        #: To be opened here, once nobody else has the folder.
        self._to_open: dict[TaskId, Target] = {}
        self._retry_ms = 0
        #: Open and restoring here; being promoted there.
        self._restoring: dict[TaskId, tuple[OpenTask, Target]] = {}
        self._promoting: dict[TaskId, Target] = {}

    @property
    def application(self) -> str:
        """The application's name."""
        return self._topology.application

    @property
    def tasks(self) -> frozenset[TaskId]:
        """The tasks on their way."""
        on_way = (self._wanted, self._to_open, self._restoring, self._promoting)
        return frozenset(task for tasks in on_way for task in tasks)

    @property
    def idle(self) -> bool:
        """Whether no task is on its way."""
        return not self.tasks

    def reads(self) -> Mapping[TaskId, tuple[int, int]]:
        """Offset reached and end, summed over the changelogs, of tasks that are restored here."""
        return self._restorer.reads() if self._restoring else {}

    def inputs(self, task: TaskId) -> tuple[TopicPartition, ...]:
        """The input partitions of a task."""
        return _inputs(self._part(task), task)

    def want(self, task: TaskId, positions: Positions | None = None) -> None:
        """Bring this task up; ``positions`` are those of a mark, None: read them."""
        assert task not in self.tasks, f"{task} is on its way already"
        self._wanted[task] = positions

    def cancel(self, task: TaskId) -> None:
        """Bring it up no more; what was opened is closed, as far as it was written."""
        self._wanted.pop(task, None)
        self._to_open.pop(task, None)
        self._promoting.pop(task, None)  # closed when it comes
        restoring = self._restoring.pop(task, None)
        if restoring is not None:
            self._restorer.remove(task)
            restoring[0].close()

    def step(self, max_ms: int) -> list[ActiveTask]:
        """Go on for a while; tasks that may process from now on, the caller's to close."""
        if self._wanted:
            self._aim()
        if self._to_open and self._clock.now_ms() >= self._retry_ms:
            self._open()
        if not self._restoring:
            return []
        return [self._ready(*self._restoring.pop(task)) for task in self._restorer.step(max_ms)]

    def promoted(self, event: Promoted | CopyFailed) -> ActiveTask | None:
        """Take what became of a promotion; the task, if it may process from now on."""
        if isinstance(event, Promoted):
            target = self._promoting.pop(event.opened.task, None)
            if target is None:  # cancelled meanwhile
                event.opened.close()
                return None
            return self._ready(event.opened, target)
        target = self._promoting.pop(event.task, None)
        if target is not None:
            log.info("task %s is restored without its copy: %s", event.task, event.reason)
            self._to_open[event.task] = target
        return None

    def close(self) -> None:
        """Give everything up and free the restore consumer."""
        for task in self.tasks:
            self.cancel(task)
        self._restorer.close()

    # From where to where.

    def _aim(self) -> None:
        """Find out what the wanted tasks begin with, and send them on their way."""
        wanted, self._wanted = self._wanted, {}
        for task, target in self._targets(wanted).items():
            if self._copies is not None and task in self._copies.wanted:
                self._promoting[task] = target
                self._copies.promote(task, target.limit, self._restore_ends(task, target))
            else:
                self._to_open[task] = target
                self._retry_ms = 0

    def _targets(self, wanted: Mapping[TaskId, Positions | None]) -> dict[TaskId, Target]:
        found = {
            task: target
            for task, positions in wanted.items()
            if positions is not None and (target := self._marked(task, positions)) is not None
        }
        rest = [task for task in sorted(wanted) if task not in found]
        return found | (self._read_targets(rest) if rest else {})

    def _marked(self, task: TaskId, positions: Positions) -> Target | None:
        """What a mark says; None if it does not know the end of each changelog."""
        metadata = positions.newest
        changelogs = _own_changelogs(self._part(task), task)
        if metadata is None or not set(changelogs) <= set(metadata.ends):
            return None
        return Target(positions.offsets, metadata.ends, metadata.epoch, metadata.state)

    def _read_targets(self, tasks: Sequence[TaskId]) -> dict[TaskId, Target]:
        """Positions first, then ends: what was written before a commit lies below its ends."""
        inputs = {task: _inputs(self._part(task), task) for task in tasks}
        committed = self._positions.fetch_committed(
            _all(inputs.values()), self._settings.rebalance_timeout_ms
        )
        parts = {task: self._part(task) for task in tasks}
        starts = start_offsets(parts, committed, self._admin, self._settings)
        changelogs = {task: _own_changelogs(parts[task], task) for task in tasks}
        ends = self._admin.end_offsets(_all(changelogs.values()))
        found = {}
        for task in tasks:
            metadata = Positions.of(inputs[task], committed).newest
            found[task] = Target(
                {tp: starts[tp] for tp in inputs[task]},
                {tp: ends[tp] for tp in changelogs[task]},
                0 if metadata is None else metadata.epoch,
                None if metadata is None else metadata.state,
            )
        return found

    def _restore_ends(self, task: TaskId, target: Target) -> dict[TopicPartition, int]:
        """Where to stop reading: at the changelog's end; in a table's own topic at the commit."""
        known = {**target.positions, **target.ends}
        return {tp: known[tp] for tp in changelogs_of(self._part(task), task).values()}

    # Opening and being ready.

    def _open(self) -> None:
        self._retry_ms = self._clock.now_ms() + LOCKED_RETRY_MS
        for task in sorted(self._to_open):
            part = self._part(task)
            try:
                opened = open_task(self._directory, part, task, self._settings.cache_max_bytes)
            except StateLockedError as error:
                log.debug("waiting: %s", error)
                continue
            target = self._to_open.pop(task)
            self._restoring[task] = opened, target
            ends = self._restore_ends(task, target)
            ids = self._admin.topic_ids(sorted({tp.topic for tp in ends}))
            self._restorer.add(RestoreJob(task, opened.state, ends, target.limit, ids))

    def _ready(self, opened: OpenTask, target: Target) -> ActiveTask:
        """A new active period: an epoch above every one that was met."""
        state = opened.state
        # Without a commit of ours to start from everything counted: that is what we carry forward.
        contained = max(target.limit or NO_STATE, state.state)
        active = ActiveTask(opened, self._part(opened.task))
        active.contained = contained
        active.epoch = 1 + max([target.epoch, contained.epoch, state.met, *state.epochs.values()])
        active.committed = dict(target.positions)
        active.ends = {tp: target.ends[tp] for tp in active.changelogs}
        active.processor = Task(
            opened.task,
            active.subtopology,
            state,
            active.committed,
            policy=self._policy,
            partition_counts=self._counts,
            idle_ms=self._settings.max_task_idle_ms,
        )
        return active

    def _part(self, task: TaskId) -> Subtopology:
        return self._topology.subtopology(task.subtopology)


def _inputs(part: Subtopology, task: TaskId) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, task.partition) for topic in sorted(part.input_topics))


def _own_changelogs(part: Subtopology, task: TaskId) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, task.partition) for topic in part.changelog_topics)


def _all(groups: Iterable[Sequence[TopicPartition]]) -> list[TopicPartition]:
    return [tp for group in groups for tp in group]
