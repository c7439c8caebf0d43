"""Finds from where to where a task is restored, or a copy is read, by asking brokers.

For tasks of this worker that is done on a thread of its own. Brokers may be away, and the loop must
not wait for them: its other tasks have records to process and commits to finish, and may have to
stop. The state updater asks by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Protocol, TypeAlias

import attrs

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.coordinator.commit_metadata import (
    CommitMetadata,
    CommitMetadataError,
    InputNote,
    Positions,
    Rebuilt,
)
from streamlet.coordinator.messages import Committed
from streamlet.errors import UnreachableError
from streamlet.kafka.ports import Admin, PartitionBatch, RecordSource
from streamlet.logs import get_logger
from streamlet.state.changelog import decode
from streamlet.state.entries import ChangelogEntries, CommitEntry, newest_complete
from streamlet.state.task_state import TaskState
from streamlet.tasks.opening import changelogs_of
from streamlet.tasks.start import InputRange, input_ranges
from streamlet.topology.graph import Topology
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import StateNumber, TaskId, TopicPartition

log = get_logger(__name__)

#: One poll of a search for commit entries.
POLL_MS = 100
POLL_RECORDS = 10_000


@attrs.frozen
class Target:
    """The start of a task: the commit it starts from, and the contents of the logs.

    ``offsets`` are the committed positions, -1 where there is none. ``ranges`` tells of each input
    what it holds, ``starts`` and ``ends`` of each changelog that the task writes; of a task whose
    mark was seen only the ends are known, and needed.
    """

    offsets: Mapping[TopicPartition, int] = attrs.field(factory=dict)
    ends: Mapping[TopicPartition, int] = attrs.field(factory=dict)
    epoch: int = 0
    #: State of the commit; None without a commit: everything in the changelogs counts.
    limit: StateNumber | None = None
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
    #: The first offset to read of each input, once that is worked out: see ``placed``.
    first: Mapping[TopicPartition, int] | None = None

    @classmethod
    def of(
        cls,
        positions: Positions,
        ends: Mapping[TopicPartition, int],
        *,
        starts: Mapping[TopicPartition, int] | None = None,
        ranges: Mapping[TopicPartition, InputRange] | None = None,
    ) -> Target:
        """The target that committed positions tell, and what was read of the logs."""
        newest = positions.newest
        return cls(
            positions.offsets,
            ends,
            0 if newest is None else newest.epoch,
            None if newest is None else newest.state,
            starts=starts or {},
            ranges=ranges or {},
            metadata=newest,
            unmarked=positions.unlike(newest),
            rebuilt=None if newest is None else newest.rebuilt,
            notes=positions.notes,
        )

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
        """The same, with the first offsets to read worked out once.

        Raises:
            BrokerError: as ``InputRange.start``.
        """
        return attrs.evolve(self, first=self.positions())

    def notes_at_start(
        self, starts: Mapping[TopicPartition, int], wall_ms: int
    ) -> dict[TopicPartition, InputNote]:
        """The note of each input of a task that begins with this.

        A position that is the commit's own goes on with the commit's note. One that was set from
        outside, or by ``state.mismatch.policy``, begins a new incarnation: the same offsets may now
        stand for records that count once more. Where records are skipped, edges go on behind the
        gap.

        Args:
            starts: first offset to read of each input.
            wall_ms: the time, ms since the epoch; the next incarnation is made of it.
        """
        return {tp: self._note(tp, at, wall_ms // 1000) for tp, at in starts.items()}

    def _note(self, tp: TopicPartition, start: int, seconds: int) -> InputNote:
        known, committed = self.notes.get(tp, InputNote()), self.offsets[tp]
        if tp in self.moved or (tp in self.unmarked and committed >= 0):
            return InputNote(max(known.incarnation + 1, seconds), open=True)
        if committed < 0:
            return InputNote(open=start > 0)
        return known if start == committed else known.skipped()

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
        if self.first is not None:
            return dict(self.first)
        ranges = self.ranges
        return {
            tp: ranges[tp].start(tp, offset) if tp in ranges else offset
            for tp, offset in self.offsets.items()
        }


#: What brokers will say of targets, by task.
TargetAnswer: TypeAlias = Future[dict[TaskId, Target]]


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

    def complete(self, task: TaskId, target: Target) -> TargetAnswer:
        """Read the topic ids that a mark does not tell; exceptions as for ``read``."""
        return self._thread.submit(lambda: self._with_ids({task: target}))

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
        committed = self._positions.fetch_committed(
            _all(inputs.values()), self._settings.rebalance_timeout_ms
        )
        ranges = input_ranges(
            {tp: self._part(task) for task in tasks for tp in inputs[task]},
            self.admin,
            self._settings,
            self._later,
        )
        logs = {task: self._changelogs(task) for task in tasks}
        starts = self.admin.start_offsets(_all(logs.values()))
        ends = self.admin.end_offsets(_all(logs.values()))
        _name_unreadable(committed)
        found = {}
        for task in tasks:
            found[task] = Target.of(
                self._named(task, Positions.of(inputs[task], committed)),
                {tp: ends[tp] for tp in logs[task]},
                starts={tp: starts[tp] for tp in logs[task]},
                ranges={tp: ranges[tp] for tp in inputs[task]},
            )
        return self._with_ids(found)

    def _search(self, task: TaskId, target: Target) -> CommitEntry | None:
        """Read the whole changelogs; None if their entries do not tell for certain.

        Raises:
            UnreachableError: nothing can be read in a session timeout.
            BrokerError: what the client reports as fatal.
        """
        starts, whole = target.starts, target.whole_from()
        found = {tp: ChangelogEntries(claimed=target.epoch) for tp in self._changelogs(task)}
        left = {tp: target.ends[tp] for tp in found if starts[tp] < target.ends[tp]}
        timeout_ms, source = self._settings.session_timeout_ms, self._open_source()
        try:
            source.assign({tp: starts[tp] for tp in left})
            deadline = self._clock.now_ms() + timeout_ms
            while left:
                if self._clock.now_ms() > deadline:
                    names = ", ".join(map(str, sorted(left)))
                    raise UnreachableError(f"{names} could not be read in {timeout_ms} ms")
                for batch in source.poll(POLL_RECORDS, POLL_MS):
                    deadline = self._clock.now_ms() + timeout_ms
                    _take_entries(found[TopicPartition(batch.topic, batch.partition)], batch)
                for tp, position in source.positions(list(left)).items():
                    if position >= left[tp]:
                        del left[tp]
        finally:
            source.close()
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
