"""Finds from where to where a task is restored, on a thread of its own.

Positions and ends are asked of brokers that may be away. The loop must not wait for them: its other
tasks have records to process and commits to finish, and may have to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.group.commit_metadata import CommitMetadata, InputNote, Positions, Rebuilt
from streamlet.kafka.ports import Admin, RecordSource
from streamlet.runtime.entry_search import search_entries
from streamlet.runtime.opening import changelogs_of
from streamlet.runtime.start import InputRange, input_ranges
from streamlet.runtime.state_updater import CommittedPositions
from streamlet.state.entries import CommitEntry
from streamlet.topology.graph import Topology
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import StateNumber, TaskId, TopicPartition


@attrs.frozen
class Target:
    """The start of a task: the commit it starts from, and the contents of the logs.

    ``offsets`` are the committed positions, -1 where there is none. ``ranges`` tells of each input
    what it holds, ``starts`` and ``ends`` of each changelog that the task writes; of a task whose
    mark was seen only the ends are known, and needed.
    """

    offsets: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    epoch: int
    #: State of the commit; None without a commit: everything in the changelogs counts.
    limit: StateNumber | None
    #: Ids of the topics it is restored from; None as long as they were not read.
    topic_ids: Mapping[str, str] | None = None
    starts: Mapping[TopicPartition, int] = attrs.field(factory=dict)
    ranges: Mapping[TopicPartition, InputRange] = attrs.field(factory=dict)
    #: The newest commit's own text, and the inputs that do not bear it.
    metadata: CommitMetadata | None = None
    unmarked: frozenset[TopicPartition] = frozenset()
    #: Input positions that the state is known to belong to, by the changelogs' commit entries.
    recorded: Mapping[TopicPartition, int] | None = None
    #: Whether ``state.mismatch.policy`` made it what it is: it is not compared once more.
    decided: bool = False
    #: Changelogs that the first commit writes as a whole, and what later commits then say of that.
    rewrite: frozenset[TopicPartition] = frozenset()
    rebuilt: Rebuilt | None = None
    #: What the commit notes of each input, and the inputs that do not begin at its position.
    notes: Mapping[TopicPartition, InputNote] = attrs.field(factory=dict)
    moved: frozenset[TopicPartition] = frozenset()
    #: The committed positions where ``offsets`` are by now the first ones to read.
    committed: Mapping[TopicPartition, int] | None = None

    @property
    def inputs(self) -> dict[TopicPartition, int] | None:
        """The input positions that ``limit`` belongs to; None where they are unknown."""
        if self.metadata is None:
            return None if self.recorded is None else dict(self.recorded)
        return {tp: at for tp, at in self.offsets.items() if tp not in self.unmarked and at >= 0}

    @property
    def claimed(self) -> int | None:
        """Epoch of the commit's claim; None where records prove nothing: no owner committed it."""
        one = self.metadata
        return None if one is None or one.generation < 0 else one.epoch

    @property
    def rebuilt_epoch(self) -> int | None:
        """The epoch before which local copies are outdated; None if there is none."""
        return None if self.metadata is None else self.metadata.rebuilt_epoch

    def placed(self) -> Target:
        """The same, with ``offsets`` the first ones to read.

        Raises:
            BrokerError: as ``InputRange.start``.
        """
        return attrs.evolve(self, offsets=self.positions(), committed=self.offsets)

    def whole_from(self) -> Mapping[TopicPartition, int]:
        """The offsets from which on changelogs are whole, of those that may lack older records."""
        return {} if self.rebuilt is None else self.rebuilt.starts

    def rebuilt_in(self, epoch: int) -> Rebuilt | None:
        """The rewrite that the commits of an active period with this target note."""
        if not self.rewrite and not self.decided:
            return self.rebuilt
        starts = {**self.whole_from(), **{tp: self.ends[tp] for tp in self.rewrite}}
        return Rebuilt(epoch, bool(self.rewrite), starts)

    def positions(self) -> dict[TopicPartition, int]:
        """The first offset to read of each input.

        Raises:
            BrokerError: as ``InputRange.start``.
        """
        ranges = self.ranges
        return {
            tp: ranges[tp].start(tp, offset) if tp in ranges else offset
            for tp, offset in self.offsets.items()
        }


@attrs.frozen
class LogRange:
    """The range that an input partition's log holds now, and the epoch of its task's commit."""

    first: int
    end: int
    epoch: int


class Targets:
    """Finds targets: a mark's at once, any other on the thread.

    Args:
        topology: what the tasks do.
        inputs: the input partitions of a task, as they are just now.
        positions: knows committed positions.
        admin: knows where partitions begin and end.
        settings: the application's.
        open_source: a consumer with headers, to search changelogs for commit entries.
        clock: for the time limit of that.
        thread: runs what reads from brokers; None: a thread of its own.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        inputs: Callable[[TaskId], tuple[TopicPartition, ...]],
        positions: CommittedPositions,
        admin: Admin,
        settings: Settings,
        open_source: Callable[[], RecordSource],
        clock: Clock,
        thread: Executor | None = None,
    ) -> None:
        self._open_source = open_source
        self._clock = clock
        self._topology = topology
        #: The input partitions of a task.
        self.inputs = inputs
        self._positions = positions
        self._admin = admin
        self._settings = settings
        self._thread = thread or ThreadPoolExecutor(1, thread_name_prefix="streamlet-targets")

    def marked(self, task: TaskId, positions: Positions) -> Target | None:
        """The target of a hand-over marker; None if it does not know all that is needed.

        That is the end of each changelog, and the position of each input: a new one has none.
        """
        metadata = positions.newest
        if metadata is None or not set(self._changelogs(task)) <= set(metadata.ends):
            return None
        if min(positions.offsets.values()) < 0:
            return None
        return Target(
            positions.offsets,
            metadata.ends,
            metadata.epoch,
            metadata.state,
            metadata=metadata,
            rebuilt=metadata.rebuilt,
            notes=positions.notes,
        )

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
        """The ends to read to: the changelog's end; in a table's own topic the commit."""
        part = self._part(task)
        ends = dict(target.ends)
        tables = set(changelogs_of(part, task).values()) - ends.keys()
        if tables:
            ends |= target.positions()
        return {tp: ends[tp] for tp in changelogs_of(part, task).values()}

    def newest_entry(self, task: TaskId, target: Target) -> Future[CommitEntry | None]:
        """Search the changelogs for the newest state whose input positions they hold.

        The future's exception is a ``BrokerError`` whose ``passing`` says whether to ask again.
        """
        logs = {tp: (target.starts[tp], target.ends[tp]) for tp in self._changelogs(task)}
        whole = target.whole_from()
        late = {tp.topic: at for tp, (at, _) in logs.items() if at > whole.get(tp, 0)}
        return self._thread.submit(self._search, logs, late)

    def close(self) -> None:
        """Ask nothing any more; pending requests get no answer."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    # On the thread.

    def _read(self, tasks: Sequence[TaskId]) -> dict[TaskId, Target]:
        """Positions first, then ends: what was written before a commit lies below its ends."""
        inputs = {task: self.inputs(task) for task in tasks}
        committed = self._positions.fetch_committed(
            _all(inputs.values()), self._settings.rebalance_timeout_ms
        )
        ranges = input_ranges(
            {tp: self._part(task) for task in tasks for tp in inputs[task]},
            *(self._admin, self._settings),
        )
        logs = {task: self._changelogs(task) for task in tasks}
        starts = self._admin.start_offsets(_all(logs.values()))
        ends = self._admin.end_offsets(_all(logs.values()))
        found = {}
        for task in tasks:
            positions = Positions.of(inputs[task], committed)
            newest = positions.newest
            found[task] = Target(
                positions.offsets,
                {tp: ends[tp] for tp in logs[task]},
                0 if newest is None else newest.epoch,
                None if newest is None else newest.state,
                starts={tp: starts[tp] for tp in logs[task]},
                ranges={tp: ranges[tp] for tp in inputs[task]},
                metadata=newest,
                unmarked=positions.unlike(newest),
                rebuilt=None if newest is None else newest.rebuilt,
                notes=positions.notes,
            )
        return self._with_ids(found)

    def _log_range(self, task: TaskId, partition: TopicPartition) -> LogRange:
        inputs = self.inputs(task)
        committed = self._positions.fetch_committed(inputs, self._settings.rebalance_timeout_ms)
        metadata = Positions.of(inputs, committed).newest
        first = self._admin.start_offsets([partition])[partition]
        end = self._admin.end_offsets([partition])[partition]
        return LogRange(first, end, 0 if metadata is None else metadata.epoch)

    def _search(
        self, logs: Mapping[TopicPartition, tuple[int, int]], starts: Mapping[str, int]
    ) -> CommitEntry | None:
        return search_entries(
            self._open_source,
            logs,
            clock=self._clock,
            timeout_ms=self._settings.session_timeout_ms,
            starts=starts,
        )

    def _complete(self, task: TaskId, target: Target) -> dict[TaskId, Target]:
        return self._with_ids({task: target})

    def _with_ids(self, targets: Mapping[TaskId, Target]) -> dict[TaskId, Target]:
        topics = {
            task: {tp.topic for tp in changelogs_of(self._part(task), task).values()}
            | {tp.topic for tp in self.inputs(task)}
            for task in targets
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
