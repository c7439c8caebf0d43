"""One task's restore: what is to be read, how far that is, and whether local state goes with it.

Local state is believed only as far as the broker's log goes with it: another topic id, a position
before the log's start or behind its end mean that the changelog is not the one that the state was
built from, or that deletions were missed. Then the task starts over from the log's start; but if
its state is exactly that of the commit, a topic that was made anew is filled from it instead.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import attrs

from streamlet.kafka.ports import PartitionBatch
from streamlet.state.changelog import ChangelogReader, HoldingReader, PlainReader, Reader
from streamlet.state.freshness import Freshness
from streamlet.state.load import Loader
from streamlet.state.task_state import TaskState
from streamlet.types import NO_STATE, StateNumber, TaskId, TopicPartition

log = logging.getLogger(__name__)

#: Where a changelog that is followed ends: never.
OPEN_END = 1 << 62


@attrs.frozen(eq=False)
class RestoreJob:
    """One task to restore.

    ``ends`` is where each changelog partition ended, read after the commit was fetched; for a store
    over a source topic, the committed input offset. ``limit`` is the state number of that commit;
    None if nobody committed: everything counts. ``topic_ids`` are those that the topics have now;
    an unknown one is not compared. With ``follow`` the task is read on for good, until ``promote``
    says where to stop and what counts; its changelogs ended at ``ends`` just now.
    """

    task: TaskId
    state: TaskState
    ends: Mapping[TopicPartition, int]
    limit: StateNumber | None
    topic_ids: Mapping[str, str] = attrs.field(factory=dict)
    follow: bool = False


Phase: TypeAlias = Literal["start", "batch", "end", "suspended"]


@attrs.frozen
class RestoreProgress:
    """How far one store is. ``rate`` is in records per second, ``eta_s`` in seconds."""

    task: TaskId
    store: str
    partition: TopicPartition
    phase: Phase
    position: int  # the next offset to read
    end: int
    restored: int  # records read, those skipped included
    batch: int  # of those, since this was told last
    rate: float
    eta_s: float | None  # None before there is a rate

    @property
    def remaining(self) -> int:
        """Offsets still to read."""
        return max(0, self.end - self.position)


@attrs.define(eq=False)
class Part:
    """One changelog partition being read; ``position`` is the next offset to read."""

    task: TaskId
    tp: TopicPartition
    store: str
    reader: Reader
    loader: Loader
    position: int
    end: int
    started_ms: int
    told_ms: int
    restored: int = 0
    told_of: int = 0  # of ``restored``
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
        if self.outdated:
            self._look_for_gap(offsets[0], offsets[-1] + 1 - len(offsets))
        stop = bisect_left(offsets, self.end)
        if stop < len(offsets):
            offsets, keys, values = offsets[:stop], keys[:stop], values[:stop]
            headers = None if headers is None else headers[:stop]
        self.loader.add(*self.reader.read(offsets, keys, values, headers))
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
        self.loader.flush(position, self.reader.epoch_before(position), at_ms)

    def progress(self, phase: Phase, now_ms: int) -> RestoreProgress:
        """What there is to tell now; what is told is told once."""
        batch, self.told_of = self.restored - self.told_of, self.restored
        self.told_ms = now_ms
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
class Run:
    """A job with its partitions."""

    job: RestoreJob
    parts: list[Part]
    wiped: bool = False

    @property
    def read(self) -> bool:
        """Whether everything was read, and nothing is to be followed."""
        return not self.job.follow and all(part.position >= part.end for part in self.parts)

    def finish(self) -> None:
        """Write what is left, and say what the stores contain now."""
        for part in self.parts:
            if isinstance(part.reader, HoldingReader):
                part.loader.add(*part.reader.settle(self.job.limit))
            part.flush()
        state = self.job.limit
        if state is None:
            state = max([self.job.state.state, *(part.reader.newest for part in self.parts)])
        self.job.state.met = max([0, *(part.reader.highest for part in self.parts)])
        self.job.state.restored(state, {part.store: part.reader.skipped for part in self.parts})


def healed(job: RestoreJob) -> RestoreJob:
    """The job without the changelogs that were made anew, if the local state can do without them.

    Where the stores contain exactly the commit nothing is to be restored, and they may be all that
    is left of the state: the next owner is to find it in the changelogs again.
    """
    state = job.state
    if job.limit in (None, NO_STATE) or state.state != job.limit or not state.on_disk:
        return job
    ids = dict(job.topic_ids)
    for store, tp in sorted(state.changelogs.items()):
        known, now = state.topic_ids.get(tp.topic), ids.get(tp.topic)
        if known and now and known != now and store not in state.plain:
            log.warning(
                "task %s: topic %s was made anew and is filled from the local state, which is that "
                "of the commit",
                job.task,
                tp.topic,
            )
            state.write_anew(store, job.ends[tp], now)
            del ids[tp.topic]
    return attrs.evolve(job, topic_ids=ids)


def mistrust(job: RestoreJob, starts: Mapping[TopicPartition, int]) -> str | None:
    """Why the local state does not go with the log; None if it does."""
    state = job.state
    if job.limit is not None and state.state > job.limit:
        return f"its state {tuple(state.state)} is ahead of the commit {tuple(job.limit)}"
    for tp in sorted(state.changelogs.values()):
        known, now = state.topic_ids.get(tp.topic), job.topic_ids.get(tp.topic)
        if known and now and known != now:
            return f"topic {tp.topic} was made anew"
        position = state.positions.get(tp)
        if position is not None and position > job.ends[tp]:
            return f"{tp} ends at {job.ends[tp]}, the state was built up to {position}"
        if position is not None and position < starts[tp]:
            return f"{tp} begins at {starts[tp]}, the state was built up to {position}"
    return None


def reader_of(job: RestoreJob, store: str, tp: TopicPartition) -> Reader:
    """Which records of this changelog count, as the job has it."""
    if store in job.state.plain:
        return PlainReader(job.state.stores[store].taken)
    if job.follow:
        return HoldingReader(str(tp), job.state.epochs.get(tp, 0))
    return ChangelogReader(str(tp), job.limit, job.state.epochs.get(tp, 0))
