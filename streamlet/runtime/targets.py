"""From where to where a task is restored, read on a thread of its own.

Positions and ends are asked of brokers that may be away. The loop must not wait for them: its other
tasks have records to process and commits to finish, and somebody may want it to stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import attrs

from streamlet.config import Settings
from streamlet.group.handover_values import Positions
from streamlet.kafka.ports import Admin
from streamlet.runtime.copies import CommittedPositions
from streamlet.runtime.opening import changelogs_of
from streamlet.runtime.start import start_offsets
from streamlet.topology.graph import Topology
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import StateNumber, TaskId, TopicPartition


@attrs.frozen
class Target:
    """What a task begins with: the commit it starts from, and where its changelogs end."""

    positions: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    epoch: int
    #: State of the commit; None if nobody committed: everything in the changelogs counts.
    limit: StateNumber | None
    #: Ids of the topics it is restored from; None as long as nobody has read them.
    topic_ids: Mapping[str, str] | None = None


@attrs.frozen
class LogRange:
    """What the log of an input partition holds now, and the epoch of its task's last commit."""

    first: int
    end: int
    epoch: int


class Targets:
    """Finds targets: a mark's at once, any other on the thread.

    Args:
        topology: what the tasks do.
        positions: knows committed positions.
        admin: knows where partitions begin and end.
        settings: the application's.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        positions: CommittedPositions,
        admin: Admin,
        settings: Settings,
    ) -> None:
        self._topology = topology
        self._positions = positions
        self._admin = admin
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="streamlet-targets")

    def marked(self, task: TaskId, positions: Positions) -> Target | None:
        """What a mark says; None if it does not know the end of each changelog."""
        metadata = positions.newest
        if metadata is None or not set(self._changelogs(task)) <= set(metadata.ends):
            return None
        return Target(positions.offsets, metadata.ends, metadata.epoch, metadata.state)

    def read(self, tasks: Sequence[TaskId]) -> Future[dict[TaskId, Target]]:
        """Read the targets of tasks, topic ids included.

        The future's exception is a ``BrokerError`` or a ``TimedOutError``, whose ``passing`` says
        whether to ask again.
        """
        return self._thread.submit(self._read, tuple(tasks))

    def complete(self, task: TaskId, target: Target) -> Future[dict[TaskId, Target]]:
        """Read the topic ids that a mark does not tell; exceptions as for ``read``."""
        return self._thread.submit(self._complete, task, target)

    def log_range(self, task: TaskId, partition: TopicPartition) -> Future[LogRange]:
        """Read what the log of an input partition holds; exceptions as for ``read``."""
        return self._thread.submit(self._log_range, task, partition)

    def restore_ends(self, task: TaskId, target: Target) -> dict[TopicPartition, int]:
        """Where to stop reading: at the changelog's end; in a table's own topic at the commit."""
        known = {**target.positions, **target.ends}
        return {tp: known[tp] for tp in changelogs_of(self._part(task), task).values()}

    def inputs(self, task: TaskId) -> tuple[TopicPartition, ...]:
        """The input partitions of a task."""
        part = self._part(task)
        return tuple(TopicPartition(topic, task.partition) for topic in sorted(part.input_topics))

    def close(self) -> None:
        """Ask nothing any more; whoever waits for an answer does not get one."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    # On the thread.

    def _read(self, tasks: Sequence[TaskId]) -> dict[TaskId, Target]:
        """Positions first, then ends: what was written before a commit lies below its ends."""
        inputs = {task: self.inputs(task) for task in tasks}
        committed = self._positions.fetch_committed(
            _all(inputs.values()), self._settings.rebalance_timeout_ms
        )
        parts = {task: self._part(task) for task in tasks}
        starts = start_offsets(parts, committed, self._admin, self._settings)
        changelogs = {task: self._changelogs(task) for task in tasks}
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
        return self._with_ids(found)

    def _log_range(self, task: TaskId, partition: TopicPartition) -> LogRange:
        inputs = self.inputs(task)
        committed = self._positions.fetch_committed(inputs, self._settings.rebalance_timeout_ms)
        metadata = Positions.of(inputs, committed).newest
        first = self._admin.start_offsets([partition])[partition]
        end = self._admin.end_offsets([partition])[partition]
        return LogRange(first, end, 0 if metadata is None else metadata.epoch)

    def _complete(self, task: TaskId, target: Target) -> dict[TaskId, Target]:
        return self._with_ids({task: target})

    def _with_ids(self, targets: Mapping[TaskId, Target]) -> dict[TaskId, Target]:
        topics = {
            task: {tp.topic for tp in self.restore_ends(task, target)}
            for task, target in targets.items()
        }
        ids = self._admin.topic_ids(sorted(set().union(*topics.values())))
        return {
            task: attrs.evolve(target, topic_ids={t: ids[t] for t in topics[task] if t in ids})
            for task, target in targets.items()
        }

    def _changelogs(self, task: TaskId) -> tuple[TopicPartition, ...]:
        topics = self._part(task).changelog_topics
        return tuple(TopicPartition(topic, task.partition) for topic in topics)

    def _part(self, task: TaskId) -> Subtopology:
        return self._topology.subtopology(task.subtopology)


def _all(groups: Iterable[Sequence[TopicPartition]]) -> list[TopicPartition]:
    return [tp for group in groups for tp in group]
