"""Brings tasks up: from an assignment to a task that may process.

In this order, because each step relies on the one before: lock the folder, open the stores, read
the committed positions, read where the changelogs end *after* that, restore up to there counting
only what the commit contains, then begin a new epoch at exactly the committed offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.errors import StateLockedError
from streamlet.group.commit_metadata import CommitMetadata
from streamlet.group.messages import Committed
from streamlet.kafka.ports import Admin
from streamlet.runtime.active import ActiveTask
from streamlet.runtime.opening import open_task
from streamlet.runtime.policy import ErrorPolicy
from streamlet.runtime.restore import RestoreJob, Restorer
from streamlet.runtime.start import start_offsets
from streamlet.runtime.task import Task
from streamlet.state.directory import StateDirectory
from streamlet.topology.graph import Topology
from streamlet.types import NO_STATE, TaskId, TopicPartition

log = logging.getLogger(__name__)

#: How often a folder that another worker still holds is tried again.
LOCKED_RETRY_MS = 50


class Positions(Protocol):
    """Who knows committed positions (``group.session``)."""

    def fetch_committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, Committed]:
        """Stable committed positions of these."""
        ...


class Activation:
    """Tasks on their way up.

    Args:
        topology: what the tasks do.
        directory: where their state lies.
        restorer: reads changelogs.
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
        positions: Positions,
        admin: Admin,
        settings: Settings,
        counts: Mapping[str, int],
        policy: ErrorPolicy,
        clock: Clock,
    ) -> None:
        self._topology = topology
        self._directory = directory
        self._restorer = restorer
        self._positions = positions
        self._admin = admin
        self._settings = settings
        self._counts = dict(counts)
        self._policy = policy
        self._clock = clock
        #: Wanted, not open yet; with the time before which trying is pointless.
        self._wanted: dict[TaskId, int] = {}
        #: Open and restoring.
        self._restoring: dict[TaskId, ActiveTask] = {}

    @property
    def idle(self) -> bool:
        """Whether no task is on its way."""
        return not self._wanted and not self._restoring

    def want(self, task: TaskId) -> None:
        """Bring this task up."""
        if task not in self._restoring:
            self._wanted.setdefault(task, 0)

    def keep(self, tasks: frozenset[TaskId]) -> None:
        """Bring up none but these; tasks already open are the caller's to close (``forget``)."""
        self._wanted = {task: at for task, at in self._wanted.items() if task in tasks}

    def forget(self, active: ActiveTask) -> None:
        """Stop restoring a task that is about to be closed."""
        if self._restoring.pop(active.task, None) is not None:
            self._restorer.remove(active.task)

    def opened(self) -> list[ActiveTask]:
        """Open what is wanted and not held by another worker; they restore from now on."""
        now = self._clock.now_ms()
        due = sorted(task for task, at in self._wanted.items() if at <= now)
        found = [active for task in due if (active := self._open(task, now)) is not None]
        if found:
            self._begin(found)
        return found

    def step(self, max_ms: int) -> list[ActiveTask]:
        """Restore for a while; tasks that may process from now on."""
        ready = []
        for task in self._restorer.step(max_ms):
            active = self._restoring.pop(task)
            self._finish(active)
            ready.append(active)
        return ready

    def close(self) -> None:
        """Free the restore consumer."""
        self._restorer.close()

    def _open(self, task: TaskId, now: int) -> ActiveTask | None:
        part = self._topology.subtopology(task.subtopology)
        try:
            opened = open_task(self._directory, part, task, self._settings.cache_max_bytes)
        except StateLockedError as error:
            log.debug("waiting: %s", error)
            self._wanted[task] = now + LOCKED_RETRY_MS
            return None
        del self._wanted[task]
        return ActiveTask(task, part, opened.state, opened.lock)

    def _begin(self, found: Sequence[ActiveTask]) -> None:
        """Read positions, then ends, and start restoring."""
        inputs = [tp for active in found for tp in active.inputs]
        committed = self._positions.fetch_committed(inputs, self._settings.rebalance_timeout_ms)
        starts = start_offsets(found, committed, self._admin, self._settings)
        logs = [tp for active in found for tp in active.changelogs]
        ends = self._admin.end_offsets(logs)
        ids = self._admin.topic_ids(
            sorted({tp.topic for active in found for tp in active.restores})
        )
        for active in found:
            metadata = _newest([committed[tp].metadata for tp in active.inputs])
            active.epoch = 0 if metadata is None else metadata.epoch
            active.contained = NO_STATE if metadata is None else metadata.state
            active.committed = {tp: starts[tp] for tp in active.inputs}
            active.ends = {tp: ends[tp] for tp in active.changelogs}
            targets = {tp: ends.get(tp, starts.get(tp, 0)) for tp in active.restores}
            limit = None if metadata is None else metadata.state
            self._restoring[active.task] = active
            self._restorer.add(RestoreJob(active.task, active.state, targets, limit, ids))

    def _finish(self, active: ActiveTask) -> None:
        """A new active period: an epoch above every one that was met."""
        # Without a commit of ours to start from everything counted: that is what we carry forward.
        active.contained = max(active.contained, active.state.state)
        met = max([0, *active.state.epochs.values()])
        active.epoch = 1 + max(active.epoch, met, active.contained.epoch)
        active.processor = Task(
            active.task,
            active.subtopology,
            active.state,
            active.committed,
            policy=self._policy,
            partition_counts=self._counts,
            idle_ms=self._settings.max_task_idle_ms,
        )


def _newest(texts: Sequence[str]) -> CommitMetadata | None:
    """What was said beside the committed positions; None if nothing of ours was.

    All input partitions of a task bear the same text, unless a tool set some of them.
    """
    found = [metadata for text in texts if (metadata := CommitMetadata.from_text(text)) is not None]
    return max(found, key=lambda metadata: (metadata.epoch, metadata.state), default=None)
