"""One task's restore: what is to be read, how far that is, and whether local state goes with it.

Local state is believed only as far as the broker's log goes with it: another topic id, a position
before the log's start or behind its end mean that the changelog is not the one that the state was
built from, or that deletions were missed. Then the task starts over from the log's start; but if
its state is exactly that of the commit, a log that lost records is written again from it instead.

The start of a window store's changelog is raised by its owner, which says so in its commits. What
local state has not read of that was about windows that have expired: reading goes on at the start.

A compacted topic keeps a tombstone for ``delete.retention.ms``. State that is older, and whose log
went on, may still have keys that were deleted behind its position, and nothing in the log says so.
State carries the time at which its position was last known to be the log's end. Of an outdated
changelog only what was compacted matters: while the offsets behind the position are without a gap,
nothing was removed there, and the state is continued whatever its age. So state that does not say
how old it is, as earlier versions wrote it, is restored again only where it has to be. A table's
own topic is processed on behind the commit, so a table that is outdated is built again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

import attrs

from streamlet.kafka.ports import Admin, PartitionBatch
from streamlet.logs import get_logger
from streamlet.state.changelog import ChangelogReader, RecordReader
from streamlet.state.freshness import Freshness
from streamlet.state.holding_reader import HoldingReader
from streamlet.state.load import Loader
from streamlet.state.plain_reader import PlainReader
from streamlet.state.task_state import TaskState
from streamlet.tasks.target import Target
from streamlet.types import NO_STATE, StateNumber, TaskId, TopicPartition

log = get_logger(__name__)

#: Where a changelog that is followed ends: never.
OPEN_END = 1 << 62
#: Kafka's ``delete.retention.ms``, for changelogs whose settings the broker does not tell.
RETENTION_MS = 86_400_000


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

    def take(self, batch: PartitionBatch) -> None:
        """Hand a batch to the store's loader, up to the end; what is behind it is not ours."""
        offsets, keys, values, headers = batch.offsets, batch.keys, batch.values, batch.headers
        times = batch.timestamps
        if self.outdated:
            self._look_for_gap(offsets[0], offsets[-1] + 1 - len(offsets))
        stop = bisect_left(offsets, self.end)
        if stop < len(offsets):
            offsets, keys, values = offsets[:stop], keys[:stop], values[:stop]
            headers, times = None if headers is None else headers[:stop], times[:stop]
        self.loader.add(*self.reader.read(offsets, keys, values, headers, times))
        self.restored += stop
        self.position = min(batch.offsets[-1] + 1, self.end)

    def reach(self, position: int) -> None:
        """Go on at this offset: there is no record before it."""
        if self.outdated:
            self._look_for_gap(position, position)
        self.position = min(position, self.end)

    def _look_for_gap(self, *starts: int) -> None:
        """Note a gap where records that follow without one do not begin at the position."""
        below = self.position < self.outdated_end
        self.gap = self.gap or (below and any(start > self.position for start in starts))

    def flush(self) -> None:
        """Put the chunk on the medium with what may be said of the position."""
        position = self.reader.position(self.position)
        at_ms = None if self.look is None else self.freshness.reached(position, *self.look())
        epoch = self.reader.epoch_before(position)
        self.loader.flush(position, epoch, at_ms, self.reader.newest)

    def progress(self, phase: Phase, now_ms: int) -> RestoreProgress:
        """Progress that was not reported yet."""
        batch, self.reported = self.restored - self.reported, self.restored
        self.reported_ms = now_ms
        seconds = (now_ms - self.started_ms) / 1000
        rate = self.restored / seconds if seconds > 0 else 0.0
        end = self.position if self.end == OPEN_END else self.end
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
class RestoreJob:
    """One task to restore to what its target tells, or a copy to follow.

    A copy is read on for good, until ``promote`` says where to stop and what counts.

    Attributes:
        target: the commit, of whose changelogs those to rewrite lost records: they are written
            again from local state that is exactly that of the commit.
        follow: whether it is a copy.
        whole_from: looks up the offsets from which on changelogs hold the whole state, of those
            that may lack older ones; None: the target tells.
        ends: where each changelog partition ended, read after the commit was fetched; for a store
            over a source topic, the committed input offset.
        parts: its changelogs, once it is begun.
        begun: whether it is.
        wiped: whether its store turned out to be damaged, and was read again.
        parked: whether a changelog lost records that were read: it is not read on.
        beyond: a number met that the commit should contain: positions were set back.
    """

    task: TaskId
    state: TaskState
    target: Target
    follow: bool = False
    whole_from: Callable[[], Mapping[TopicPartition, int]] | None = None
    ends: Mapping[TopicPartition, int] = attrs.field(init=False)
    parts: list[ChangelogPart] = attrs.field(factory=list, init=False)
    begun: bool = attrs.field(default=False, init=False)
    wiped: bool = attrs.field(default=False, init=False)
    parked: bool = attrs.field(default=False, init=False)
    beyond: StateNumber | None = attrs.field(default=None, init=False)

    @ends.default
    def _target_ends(self) -> Mapping[TopicPartition, int]:
        return self._ends_of(self.target)

    def _ends_of(self, target: Target) -> dict[TopicPartition, int]:
        ends, logs = target.ends, self.state.changelogs.values()
        return {tp: ends[tp] if tp in ends else max(0, target.positions()[tp]) for tp in logs}

    @property
    def read(self) -> bool:
        """True if everything was read, and nothing is to be followed."""
        return not self.follow and all(part.position >= part.end for part in self.parts)

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
        self.target = attrs.evolve(target, topic_ids=self.target.topic_ids)
        self.ends, self.follow = ends, False
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


def prepare_rewrite(job: RestoreJob, starts: Mapping[TopicPartition, int]) -> None:
    """Read changelogs from their starts that will be written again: for their keys only."""
    positions = {tp: starts[tp] for tp in job.target.rewrite}
    job.state.time_indexes.forget(job.target.rewrite)
    job.state.positions = {**job.state.positions, **positions}


def mistrust(job: RestoreJob, starts: Mapping[TopicPartition, int]) -> str | None:
    """The reason why the local state does not go with the log; None if it does."""
    state, ids = job.state, job.target.topic_ids or {}
    reach = max(state.state, state.reach)
    if job.target.limit is not None and reach > job.target.limit:
        return f"its state {tuple(reach)} is ahead of the commit {tuple(job.target.limit)}"
    if job.target.decided and state.positions and state.state != job.target.limit:
        return f"its state {tuple(state.state)} may stem from other records than the log holds"
    if _from_before_rewrite(job):
        return f"its state {tuple(state.state)} is from before its changelogs lost records"
    for tp in sorted(set(state.changelogs.values()) - job.target.rewrite):
        known, now = state.topic_ids.get(tp.topic), ids.get(tp.topic)
        if known and now and known != now:
            return f"topic {tp.topic} was created again"
        position = state.positions.get(tp)
        if position is not None and position > job.ends[tp]:
            return f"{tp} ends at {job.ends[tp]}, the state was built up to {position}"
        before = position is not None and position < starts[tp]
        if before and not job.cut_by_owner(tp, starts[tp]):
            return f"{tp} begins at {starts[tp]}, the state was built up to {position}"
    return None


def _from_before_rewrite(job: RestoreJob) -> bool:
    """True if the local state was built from a changelog before that was written again."""
    state, rebuilt = job.state, job.target.rebuilt_epoch
    if rebuilt is None or state.state.epoch >= rebuilt:
        return False
    written = [tp for store, tp in state.changelogs.items() if store not in state.plain]
    return any(state.positions.get(tp, 0) and state.epochs.get(tp, 0) < rebuilt for tp in written)


def reader_of(job: RestoreJob, store: str, tp: TopicPartition) -> RecordReader:
    """The reader that knows which records of this changelog count."""
    if store in job.state.plain:
        return PlainReader(job.state.stores[store].commits.taken)
    if job.follow:
        return HoldingReader(str(tp), job.state.epochs.get(tp, 0), job.target.epoch)
    if tp in job.target.rewrite:
        return ChangelogReader(str(tp), NO_STATE, claimed=job.target.epoch)
    epoch, target = job.state.epochs.get(tp, 0), job.target
    return ChangelogReader(str(tp), target.limit, epoch, target.epoch)


# -- state that is too old -------------------------------------------------------------------------


def _behind(job: RestoreJob) -> dict[TopicPartition, int]:
    """Positions of the local state behind which its changelogs have something that counts for it.

    State that is exactly that of the commit lacks nothing, whatever is behind it.
    """
    state = job.state
    if job.target.limit not in (None, NO_STATE) and state.state == job.target.limit:
        return {}
    own = {tp for store, tp in state.changelogs.items() if store not in state.plain}
    return {tp: at for tp, at in state.positions.items() if tp in own and at < job.ends[tp]}


def outdated(jobs: Iterable[RestoreJob], admin: Admin, now_ms: int) -> dict[TopicPartition, str]:
    """Changelogs that may have forgotten deletions which the local state lacks, each with why.

    Raises:
        BrokerError: the broker does not answer.
    """
    positions: dict[TopicPartition, int] = {}
    times: dict[TopicPartition, int] = {}
    for job in jobs:
        positions |= _behind(job)
        times |= job.state.times
    if not positions:
        return {}
    retentions = admin.delete_retentions(sorted({tp.topic for tp in positions}))
    return _too_old(positions, times, retentions, now_ms)


def _too_old(
    positions: Iterable[TopicPartition],
    times: Mapping[TopicPartition, int],
    retentions: Mapping[str, int],
    now_ms: int,
) -> dict[TopicPartition, str]:
    found = {}
    for tp in positions:
        most_ms, at_ms = retentions.get(tp.topic, RETENTION_MS), times.get(tp)
        if at_ms is None:
            found[tp] = "its state does not say how old it is"
        elif now_ms - at_ms > most_ms:
            found[tp] = f"its state is {(now_ms - at_ms) / 1000:,.0f} s old"
        if tp in found:
            found[tp] += f", {tp.topic} keeps deletions for {most_ms / 1000:,.0f} s"
    return found


def outdated_table(job: RestoreJob, admin: Admin, now_ms: int) -> str | None:
    """The reason to build a table over a compacted topic again; None if there is none.

    Raises:
        BrokerError: the broker does not answer.
    """
    state = job.state
    tables = [tp for store, tp in state.changelogs.items() if store in state.plain]
    old = [tp for tp in tables if tp in state.positions and tp in state.times]
    if not old:
        return None
    retentions = admin.delete_retentions(sorted({tp.topic for tp in old}))
    compacted = [tp for tp in old if tp.topic in retentions]
    found = _too_old(compacted, state.times, retentions, now_ms)
    ends = admin.end_offsets(sorted(found)) if found else {}
    gone_on = [why for tp, why in sorted(found.items()) if ends[tp] > state.positions[tp]]
    return gone_on[0] if gone_on else None
