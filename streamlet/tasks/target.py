"""The start of a task as a value: its commit, and what its inputs and changelogs hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from streamlet.coordinator.commit_metadata import CommitMetadata, InputNote, Positions, Rebuilt
from streamlet.logs import get_logger
from streamlet.state.task_state import TaskState
from streamlet.tasks.start import InputRange
from streamlet.types import NO_STATE, StateNumber, TopicPartition

log = get_logger(__name__)


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

    @property
    def transacted(self) -> bool:
        """True if a transaction made the commit."""
        return self.metadata is not None and self.metadata.transaction

    @property
    def fenced(self) -> bool:
        """True if the last owner that wrote to the changelogs did so by transactions.

        One that has only claimed wrote to none: an owner before it may still do so.
        """
        one = self.metadata
        return one is not None and one.transaction and one.state.epoch == one.epoch

    def next_epoch(self, state: TaskState, *, transactions: bool) -> int:
        """The epoch of a period that begins here with these stores, above every one that was met.

        Before an owner without ``transactions`` some that were aborted may have been of the next.
        """
        met = self.epoch, state.state.epoch, state.met, *state.epochs.values()
        limit = NO_STATE if self.limit is None else self.limit
        return 1 + max(limit.epoch, *met) + (self.transacted and not transactions)

    def placed(self) -> Target:
        """The target with the first offsets to read worked out once.

        Raises:
            BrokerError: as ``InputRange.start``.
        """
        return attrs.evolve(self, first=self.positions())

    def in_new_topics(self) -> Target:
        """The target at the first records of topics that were made again since the commit."""
        ids, notes = self.topic_ids or {}, self.notes
        found = {
            tp: at
            for tp, at in self.offsets.items()
            if at >= 0 and tp in notes and not notes[tp].is_of(ids, tp.topic)
        }
        if not found:
            return self
        for tp, at in sorted(found.items()):
            log.warning(
                "%s was deleted and made again since position %d was committed: it is read from "
                "its first record",
                *(tp, at),
            )
        return attrs.evolve(
            self,
            offsets={**self.offsets, **dict.fromkeys(found, -1)},
            ranges={
                tp: attrs.evolve(held, remade=held.remade or tp in found)
                for tp, held in self.ranges.items()
            },
            moved=self.moved.union(found),
        )

    def notes_at_start(
        self,
        starts: Mapping[TopicPartition, int],
        wall_ms: int,
        between: Collection[str] = (),
    ) -> dict[TopicPartition, InputNote]:
        """The note of each input of a task that begins with this.

        A position that is the commit's own goes on with the commit's note. One that was set from
        outside, or by ``state.mismatch.policy``, begins a new incarnation: the same offsets may now
        stand for records that count once more. Where records are skipped, edges go on behind the
        gap.

        Args:
            starts: first offset to read of each input.
            wall_ms: the time, ms since the epoch; the next incarnation is made of it.
            between: topics that streamlet makes itself.
        """
        ids = {name: one for name, one in (self.topic_ids or {}).items() if name not in between}
        notes = {tp: self._note(tp, at, wall_ms // 1000) for tp, at in starts.items()}
        return {
            tp: attrs.evolve(note, topic_id=ids[tp.topic]) if tp.topic in ids else note
            for tp, note in notes.items()
        }

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
