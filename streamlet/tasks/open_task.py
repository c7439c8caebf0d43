"""A task's open stores, from the opening of its folder to its closing, and what is read into them.

One object goes from hand to hand: ``tasks.activation`` opens it and gives it to the state updater,
which brings it to a commit and gives it back; a copy is opened by the state updater, and handed
over when its task is ours. The active task has it then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, Self, TypeAlias

import attrs

from streamlet.kafka.ports import PartitionBatch
from streamlet.state.changelog import RecordReader
from streamlet.state.directory import FolderLock
from streamlet.state.freshness import Freshness
from streamlet.state.holding_reader import HoldingReader
from streamlet.state.load import Loader
from streamlet.state.plain_reader import PlainReader
from streamlet.state.task_state import TaskState
from streamlet.tasks.target import Target
from streamlet.tasks.task_record import ReadStage, moved
from streamlet.types import NO_STATE, StateNumber, TaskId, TopicPartition

#: Where a changelog that is followed ends: never.
OPEN_END = 1 << 62


Phase: TypeAlias = Literal["start", "batch", "end", "suspended"]


@attrs.frozen
class RestoreProgress:
    """The progress of one store. ``rate`` is in records per second, ``eta_s`` in seconds."""

    task: TaskId
    store: str
    partition: TopicPartition
    phase: Phase
    position: int  # the next offset to read
    end: int
    restored: int  # records read, those skipped included
    batch: int  # of those, since the last report
    rate: float
    eta_s: float | None  # None before there is a rate

    @property
    def remaining(self) -> int:
        """Offsets still to read."""
        return max(0, self.end - self.position)


@attrs.define(eq=False)
class ChangelogPart:
    """One changelog partition being read; ``position`` is the next offset to read."""

    task: TaskId
    tp: TopicPartition
    store: str
    reader: RecordReader
    loader: Loader
    position: int
    end: int
    started_ms: int
    reported_ms: int
    restored: int = 0
    reported: int = 0  # of ``restored``
    #: Why deletions below ``outdated_end`` may be missing; empty: none are. ``gap``: records are.
    outdated: str = ""
    outdated_end: int = 0
    gap: bool = False
    #: Wall-clock time and end of the log, as far as both are known just now.
    look: Callable[[], tuple[int, int | None]] | None = None
    freshness: Freshness = attrs.field(factory=Freshness)
    #: The newest known time at which the log held nothing behind what was read and counts by now.
    at_ms: int | None = None

    def take(self, batch: PartitionBatch) -> None:
        """Hand a batch to the store's loader, up to the end; what is behind it is not ours."""
        offsets = batch.offsets
        if self.outdated:
            self._look_for_gap(offsets[0], offsets[-1] + 1 - len(offsets))
        stop = bisect_left(offsets, self.end)
        if stop < len(offsets):
            batch = batch.slice(0, stop)
        self.loader.add(*self.reader.read(batch))
        self.loader.note(batch.keys, batch.headers)
        self.restored += stop
        self.position = min(offsets[-1] + 1, self.end)

    @property
    def held_bytes(self) -> int:
        """The bytes of records that wait for the proof of their commit."""
        return self.reader.held_bytes if isinstance(self.reader, HoldingReader) else 0

    def go_back(self) -> bool:
        """Set the position back to what the reader has forgotten and needs; False: to nothing."""
        back = self.reader.back() if isinstance(self.reader, HoldingReader) else None
        if back is not None:
            self.position = back
        return back is not None

    def reach(self, position: int) -> None:
        """Go on at this offset: there is no record before it."""
        if self.outdated:
            self._look_for_gap(position, position)
        self.position = min(position, self.end)

    def _look_for_gap(self, *starts: int) -> None:
        """Note a gap where records that follow without one do not begin at the position."""
        below = self.position < self.outdated_end
        self.gap = self.gap or (below and any(start > self.position for start in starts))

    def note_end(self) -> None:
        """Look whether what was read is all that the log had at some time."""
        if self.look is not None:
            position = self.reader.position(self.position)
            at_ms = self.freshness.reached(position, *self.look())
            self.at_ms = self.at_ms if at_ms is None else at_ms

    def flush(self) -> None:
        """Write the chunk to the medium, with the position that it reaches."""
        position = self.reader.position(self.position)
        self.note_end()
        epoch = self.reader.epoch_before(position)
        self.loader.flush(position, epoch, self.at_ms, self.reader.newest)

    @property
    def contained(self) -> Mapping[TopicPartition, int] | None:
        """The input positions of what was read and counts by now; None: not known."""
        if isinstance(self.reader, PlainReader):
            return {self.tp: self.position}
        return self.reader.inputs if isinstance(self.reader, HoldingReader) else None

    def progress(self, phase: Phase, now_ms: int) -> RestoreProgress:
        """Progress that was not reported yet."""
        batch, self.reported = self.restored - self.reported, self.restored
        self.reported_ms = now_ms
        seconds = (now_ms - self.started_ms) / 1000
        rate = self.restored / seconds if seconds > 0 else 0.0
        end = self.end
        if end == OPEN_END:  # as far as that is known
            known = None if self.look is None else self.look()[1]
            end = max(self.position, known or 0)
        left = end - self.position
        eta = 0.0 if left <= 0 else left / rate if rate > 0 else None
        return RestoreProgress(
            self.task,
            self.store,
            self.tp,
            phase,
            self.position,
            end,
            self.restored,
            batch,
            rate,
            eta,
        )


@attrs.define(eq=False)
class OpenTask:
    """A task's stores and the lock on their folder, and what is read into them; on its way.

    Who has it closes it: a task on its way up (``tasks.activation``), the state updater while it
    reads, and the active task (``tasks.active``). Fields that it has from a stage on are not there
    before.

    Attributes:
        lock: on the folder; None: there is none.
        damaged: the files cannot be read or written any more, and ``close`` deletes them.
        stage: whether it is read, and as what.
        target: once it is read: the commit that it is to be brought to, of whose changelogs those
            to rewrite lost records: they are written again from local state that is exactly that of
            the commit. Of a copy that is followed, what is known to count.
        whole_from: looks up the offsets from which on changelogs hold the whole state, of those
            that may lack older ones; None: the target tells.
        ends: where each changelog partition ended, read after the commit was fetched; for a store
            over a source topic, the committed input offset.
        parts: its changelogs, once its reader has begun.
        begun: whether it has.
        wiped: whether its store turned out to be damaged, and was read again.
        parked: whether a changelog lost records that were read: it is not read on.
        beyond: a number met that the commit should contain: positions were set back.
        lag: of a copy that is followed: the one reported last.
    """

    task: TaskId
    state: TaskState
    lock: FolderLock | None = None
    damaged: bool = False
    stage: ReadStage = attrs.field(default=ReadStage.OPEN, init=False)
    target: Target = attrs.field(init=False)
    whole_from: Callable[[], Mapping[TopicPartition, int]] | None = attrs.field(
        default=None, init=False
    )
    ends: Mapping[TopicPartition, int] = attrs.field(init=False)
    parts: list[ChangelogPart] = attrs.field(factory=list, init=False)
    begun: bool = attrs.field(default=False, init=False)
    wiped: bool = attrs.field(default=False, init=False)
    parked: bool = attrs.field(default=False, init=False)
    beyond: StateNumber | None = attrs.field(default=None, init=False)
    lag: int | None = attrs.field(default=None, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    def close(self) -> None:
        """Close the stores, writing nothing, and let others have the folder; once."""
        if self._closed:
            return
        self._closed = True
        try:
            self.state.close()
            if self.damaged and self.lock is not None:
                self.lock.wipe()
        finally:  # a folder that stays locked would be waited for until this process ends
            if self.lock is not None:
                self.lock.release()

    # Its changelogs.

    def restore(self, target: Target) -> Self:
        """Read it to what the target tells; itself."""
        return self._read(target, ReadStage.RESTORING)

    def follow(
        self,
        target: Target,
        whole_from: Callable[[], Mapping[TopicPartition, int]] | None = None,
    ) -> Self:
        """Read it on for good, as a copy, until ``promote`` says where to stop; itself."""
        self.whole_from = whole_from
        return self._read(target, ReadStage.FOLLOWED)

    def _read(self, target: Target, stage: ReadStage) -> Self:
        self.stage = moved(self.task, self.stage, stage)
        self.target, self.ends = target, self._ends_of(target)
        return self

    @property
    def followed(self) -> bool:
        """True if it is a copy that is read on for good."""
        return self.stage is ReadStage.FOLLOWED

    def _ends_of(self, target: Target) -> dict[TopicPartition, int]:
        ends, logs = target.ends, self.state.changelogs.values()
        return {tp: ends[tp] if tp in ends else max(0, target.positions()[tp]) for tp in logs}

    @property
    def read(self) -> bool:
        """True if everything was read, and nothing is to be followed."""
        return not self.followed and all(part.position >= part.end for part in self.parts)

    def promote(self, target: Target) -> bool:
        """Read a copy up to the target's ends only, counting what that commit contains.

        Not, which is False, if a changelog lost records that were read, or if it bears epochs that
        do not go with the commit's claim. One that is to be rewritten must have been read to the
        end that it had at the commit.
        """
        ends = self._ends_of(target)
        if target.rewrite:
            known = {} if target.metadata is None else target.metadata.ends
            ends |= {tp: max(ends[tp], known.get(tp, 0)) for tp in target.rewrite}
            if not self.begun or any(part.position < ends[part.tp] for part in self.parts):
                return False
        elif self.parked:
            return False  # its log was written again since
        if not all(_agrees(part.reader, target) for part in self.parts):
            return False
        holding = [p.reader for p in self.parts if isinstance(p.reader, HoldingReader)]
        if target.rewrite and any(reader.forgetful for reader in holding):
            return False  # its log may have lost what is to be read again
        for reader in holding:
            reader.go_back()
        self.target = attrs.evolve(target, topic_ids=self.target.topic_ids)
        self.ends, self.stage = ends, moved(self.task, self.stage, ReadStage.PROMOTING)
        for part in self.parts:
            part.end = ends[part.tp]
        return True

    def cut_by_owner(self, tp: TopicPartition, start: int) -> bool:
        """Tell if all that a changelog lacks before its start is of windows that have expired.

        Raises:
            BrokerError: the broker does not answer.
        """
        if tp not in self.state.time_indexes:
            return False
        return start <= (self.whole_from or self.target.whole_from)().get(tp, 0)

    def note_ends(self) -> None:
        """Look whether what was read is all that the logs had at some time."""
        for part in self.parts:
            part.note_end()

    def release_held(self, part: ChangelogPart) -> None:
        """Free the memory of records that wait for the proof of their commit.

        A copy that follows reads them again later. Where the commit is known that it is promoted
        to, that decides.
        """
        if isinstance(part.reader, HoldingReader):
            if self.followed:
                part.reader.forget()
            else:
                part.loader.add(*part.reader.settle(self.target.limit))

    def finish(self) -> None:
        """Write what is left, and say what the stores contain now."""
        limit = self.target.limit
        for part in self.parts:
            if isinstance(part.reader, HoldingReader):
                part.loader.add(*part.reader.settle(limit))
            part.flush()
        state = limit
        reached = max([self.state.state, *(part.reader.newest for part in self.parts)])
        if state is None or reached > state:
            state = reached  # a copy that is ahead of the commit says so
        self.state.met = max([0, *(part.reader.highest for part in self.parts)])
        skipped = {part.store: part.reader.skipped for part in self.parts}
        self.state.restored(state, skipped, self.target.inputs if state == limit else None)
        if limit is None:
            return
        beyond = max([NO_STATE, *(part.reader.beyond for part in self.parts)])
        if state > limit or outruns(beyond, limit, self.target.claimed):
            self.beyond = max(state, beyond)


def _agrees(reader: RecordReader, target: Target) -> bool:
    claimed = target.claimed
    return claimed is None or not isinstance(reader, HoldingReader) or reader.agrees_with(claimed)


def outruns(met: StateNumber, limit: StateNumber, claimed: int | None) -> bool:
    """True if a record proves that a commit after ``limit`` was accepted.

    A claim precedes the first record of its epoch, and commit n precedes the first record for
    commit n + 1. ``claimed`` is the epoch of the commit's own claim; None: nothing is known of it.
    """
    if claimed is None or met.epoch != claimed:
        return claimed is not None and met.epoch > claimed
    return met.number > 1 + (limit.number if limit.epoch == claimed else 0)


@contextmanager
def closed_if_refused(opened: OpenTask) -> Iterator[None]:
    """Close stores that a block could not take over: an error leaves it."""
    try:
        yield
    except BaseException:
        opened.close()
        raise
