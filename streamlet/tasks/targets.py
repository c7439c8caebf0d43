"""Finds from where to where a task is restored, or a copy is read, by asking brokers.

For tasks of this worker that is done on a thread of its own. Brokers may be away, and the loop must
not wait for them: its other tasks have records to process and commits to finish, and may have to
stop. The state updater asks by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Protocol, TypeAlias

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.coordinator.commit_metadata import (
    CommitMetadata,
    CommitMetadataError,
    Positions,
)
from streamlet.coordinator.messages import Committed
from streamlet.kafka.ports import Admin, PartitionBatch, RecordSource
from streamlet.kafka.reading import read_until
from streamlet.kafka.waiting_partitions import LONG_MS
from streamlet.logs import get_logger
from streamlet.state.changelog import decode
from streamlet.state.entries import ChangelogEntries, CommitEntry, newest_complete
from streamlet.state.task_state import TaskState
from streamlet.tasks.opening import changelogs_of, reads_committed
from streamlet.tasks.start import LogRanges, input_ranges
from streamlet.tasks.target import Target
from streamlet.topology.graph import Topology
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TaskId, TopicPartition

log = get_logger(__name__)

#: What brokers will say of targets, by task.
TargetAnswer: TypeAlias = Future[dict[TaskId, Target]]


#: The newest commit of each task that there is; None: it has none that can be read.
CommitAnswer: TypeAlias = Future[dict[TaskId, CommitMetadata | None]]


class CommittedPositions(Protocol):
    """Reads committed positions (``coordinator.session``)."""

    def fetch_committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, Committed]:
        """Stable committed positions of these."""
        ...


@attrs.define(eq=False)
class Targets:
    """Finds targets: a mark's at once, a copy's on the thread that asks, any other on its own.

    Args:
        topology: what the tasks do.
        inputs: the input partitions of a task, as they are just now.
        positions: knows committed positions.
        admin: knows where partitions begin and end.
        settings: the application's.
        open_source: a consumer with headers, to search changelogs for commit entries.
        clock: for the time limit of that.
        later: True for inputs that came while the application ran.
        remade: True for those whose topic was deleted and made again meanwhile.
        thread: runs what reads from brokers.
    """

    _topology: Topology
    #: The input partitions of a task.
    inputs: Callable[[TaskId], tuple[TopicPartition, ...]]
    _positions: CommittedPositions
    #: Knows topics and logs; from any thread.
    admin: Admin
    _settings: Settings
    _open_source: Callable[[], RecordSource]
    _clock: Clock
    _later: Callable[[TopicPartition], bool] = lambda tp: False
    _remade: Callable[[TopicPartition], bool] = lambda tp: False
    _thread: Executor = attrs.field(
        factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="streamlet-targets")
    )

    def marked(self, task: TaskId, positions: Positions) -> Target | None:
        """The target of a hand-over marker; None if it does not know all that is needed.

        That is the end of each changelog, and the position of each input: a new one has none.
        """
        positions = self._named(task, positions)
        metadata = positions.newest
        if metadata is None or not set(self._changelogs(task)) <= set(metadata.ends):
            return None
        if min(positions.offsets.values()) < 0:
            return None
        return Target.of(positions, metadata.ends)

    def read(self, tasks: Sequence[TaskId]) -> TargetAnswer:
        """Read the targets of tasks, topic ids included.

        The future's exception is a ``BrokerError`` or a ``TimedOutError``, whose ``passing`` says
        whether to ask again.
        """
        return self._thread.submit(self._read, tuple(tasks))

    def commits(self, tasks: Sequence[TaskId]) -> CommitAnswer:
        """Read the newest commits of those tasks that there are; exceptions as for ``read``."""
        return self._thread.submit(self._commits, tuple(tasks))

    def complete(self, task: TaskId, target: Target) -> TargetAnswer:
        """Read the topic ids that a mark does not tell; exceptions as for ``read``."""
        return self._thread.submit(lambda: self._completed(task, target))

    def search(
        self, task: TaskId, target: Target, then: Callable[[CommitEntry | None], Target]
    ) -> TargetAnswer:
        """Search the changelogs for the newest state whose input positions they hold.

        ``then`` makes a target of it, on the thread. The future's exception is what that raises, or
        a ``BrokerError`` whose ``passing`` says whether to ask again.
        """
        return self._thread.submit(lambda: {task: then(self._search(task, target))})

    def close(self) -> None:
        """Ask nothing any more; pending requests get no answer."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    # Of copies, on the thread that keeps them.

    def of_copy(self, task: TaskId, state: TaskState) -> Target:
        """The newest commit of a task that another member runs, and where its changelogs end.

        A copy counts nothing up to that commit only: it has no ``limit``.

        Raises:
            BrokerError: no broker answers.
            TimedOutError: the group coordinator does not answer.
        """
        logs = sorted(tp for s, tp in state.changelogs.items() if s not in state.plain)
        starts = self.admin.start_offsets(logs)  # raised only after a commit that says so
        positions = self._committed(task)
        target = Target.of(positions, self.admin.end_offsets(logs), starts=starts)
        ids = self.admin.topic_ids(sorted({tp.topic for tp in state.changelogs.values()}))
        return attrs.evolve(target, limit=None, topic_ids=ids)

    def whole_from(self, task: TaskId) -> Mapping[TopicPartition, int]:
        """``Target.whole_from`` of the newest commit; raises as ``of_copy``."""
        return Target.of(self._committed(task), {}).whole_from()

    def table_ends(self, state: TaskState) -> dict[TopicPartition, int]:
        """The ends up to which tables over source topics may be read: their owner's commit."""
        tables = sorted(state.changelogs[name] for name in state.plain)
        if not tables:
            return {}
        timeout_ms = self._settings.session_timeout_ms
        committed = self._positions.fetch_committed(tables, timeout_ms)
        return {tp: max(0, committed[tp].offset) for tp in tables}

    def _committed(self, task: TaskId) -> Positions:
        inputs, timeout_ms = self.inputs(task), self._settings.session_timeout_ms
        committed = self._positions.fetch_committed(inputs, timeout_ms)
        return self._named(task, Positions.of(inputs, committed))

    def _named(self, task: TaskId, positions: Positions) -> Positions:
        return positions.named(tp.topic for tp in self._changelogs(task))

    # On the thread.

    def _read(self, tasks: Sequence[TaskId]) -> dict[TaskId, Target]:
        """Positions first, then ends: what was written before a commit lies below its ends."""
        inputs = {task: self.inputs(task) for task in tasks}
        patience_ms = min(LONG_MS, self._settings.rebalance_timeout_ms)
        committed = self._positions.fetch_committed(_all(inputs.values()), patience_ms)
        logs = {task: self._changelogs(task) for task in tasks}
        every = [*dict.fromkeys(_all([*inputs.values(), *logs.values()]))]
        stable = reads_committed(self._topology, self._settings)
        known = LogRanges.read(self.admin, every, committed=stable)
        ranges = input_ranges(
            {tp: self._part(task) for task in tasks for tp in inputs[task]},
            known,
            self.admin,
            self._settings,
            self._later,
            self._remade,
            now_ms=self._clock.wall_ms(),
        )
        _name_unreadable(committed)
        found = {}
        for task in tasks:
            positions = self._named(task, Positions.of(inputs[task], committed))
            found[task] = Target.of(
                positions,
                self._counting(positions, logs[task], known),
                starts={tp: known.starts[tp] for tp in logs[task]},
                ranges={tp: ranges[tp] for tp in inputs[task]},
            )
        return {task: one.in_new_topics() for task, one in self._with_ids(found).items()}

    def _counting(
        self,
        positions: Positions,
        changelogs: Sequence[TopicPartition],
        found: LogRanges,
    ) -> dict[TopicPartition, int]:
        """The ends up to which records of changelogs count.

        An open transaction behind them is left out. All that is ``stable`` is read: keys that an
        owner without transactions wrote behind its last commit are written again. Nothing counts
        before the first commit; a transaction that was aborted leaves offsets.
        """
        newest, ends = positions.newest, {tp: found.ends[tp] for tp in changelogs}
        if newest is not None:
            known = {tp: min(end, newest.ends.get(tp, end)) for tp, end in ends.items()}
            return {tp: max(end, found.stable[tp]) for tp, end in known.items()}
        written = {tp: found.starts[tp] for tp, end in ends.items() if found.starts[tp] < end}
        if written and self._holds_records(written, {tp: found.stable[tp] for tp in written}):
            return ends
        return dict.fromkeys(ends, 0)

    def _holds_records(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> bool:
        """True if a consumer gets a record of these logs, which it reads from there.

        Raises:
            TimedOutError: nothing can be read in a session timeout.
        """
        with self._records(ends, starts) as batches:
            return next(batches, None) is not None

    @contextmanager
    def _records(
        self, ends: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]
    ) -> Iterator[Iterator[PartitionBatch]]:
        """The records of logs from one place to another, as a consumer of their own reads them."""
        silent_ms, source = self._settings.session_timeout_ms, self._open_source()
        batches = read_until(source, ends, begins=starts, clock=self._clock, silent_ms=silent_ms)
        with closing(source), closing(batches):
            yield batches

    def _commits(self, tasks: Sequence[TaskId]) -> dict[TaskId, CommitMetadata | None]:
        inputs = {task: found for task in tasks if (found := self.inputs(task))}
        if not inputs:
            return {}
        committed = self._positions.fetch_committed(
            _all(inputs.values()), self._settings.session_timeout_ms
        )
        return {task: Positions.of(tps, committed).newest for task, tps in inputs.items()}

    def _completed(self, task: TaskId, target: Target) -> dict[TaskId, Target]:
        found = self._with_ids({task: target})
        same = found[task].in_new_topics() is found[task]
        return found if same else self._read((task,))  # a mark does not tell where topics begin

    def _search(self, task: TaskId, target: Target) -> CommitEntry | None:
        """Read the whole changelogs; None if their entries do not tell for certain.

        Raises:
            TimedOutError: nothing can be read in a session timeout.
            BrokerError: what the client reports as fatal.
        """
        starts, whole = target.starts, target.whole_from()
        found = {tp: ChangelogEntries(claimed=target.epoch) for tp in self._changelogs(task)}
        left = {tp: target.ends[tp] for tp in found if starts[tp] < target.ends[tp]}
        with self._records(left, starts) as batches:
            for batch in batches:
                _take_entries(found[TopicPartition(batch.topic, batch.partition)], batch)
        late = {tp.topic: starts[tp] for tp in found if starts[tp] > whole.get(tp, 0)}
        return newest_complete({tp.topic: entries for tp, entries in found.items()}, late)

    def _with_ids(self, targets: Mapping[TaskId, Target]) -> dict[TaskId, Target]:
        topics = {
            task: {tp.topic for tp in changelogs_of(self._part(task), task).values()}
            | {tp.topic for tp in self.inputs(task)}
            for task in targets
        }
        ids = self.admin.topic_ids(sorted(set().union(*topics.values())))
        return {
            task: attrs.evolve(target, topic_ids={t: ids[t] for t in topics[task] if t in ids})
            for task, target in targets.items()
        }

    def _changelogs(self, task: TaskId) -> tuple[TopicPartition, ...]:
        return tuple(changelogs_of(self._part(task), task, tables=False).values())

    def _part(self, task: TaskId) -> Subtopology:
        return self._topology.subtopology(task.subtopology)


def _name_unreadable(committed: Mapping[TopicPartition, Committed]) -> None:
    for tp, one in sorted(committed.items()):
        try:
            CommitMetadata.from_text(one.metadata)
        except CommitMetadataError as error:
            log.warning(
                "%s: the text beside its position %d tells nothing: %s", tp, one.offset, error
            )


def _take_entries(entries: ChangelogEntries, batch: PartitionBatch) -> None:
    heads = batch.headers or [None] * len(batch)
    for value, head in zip(batch.values, heads, strict=True):
        try:
            state, _ = decode(value, head)
        except ValueError:
            continue  # restoring says what is wrong with it
        entries.take(state, head)


def _all(groups: Iterable[Sequence[TopicPartition]]) -> list[TopicPartition]:
    return [tp for group in groups for tp in group]
