"""One active task of a worker, from its first record to its last commit, and its share of one.

Its stages are those of ``tasks.task_record`` from OPENING, as one that is ready, to STOPPED.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import attrs

from streamlet.coordinator.commit_metadata import (
    CommitMetadata,
    InputNote,
    Positions,
    Rebuilt,
    started,
)
from streamlet.coordinator.commit_texts import TextRules
from streamlet.processing.edges.held_writer import HeldWriter
from streamlet.processing.edges.writer import EdgeWriter
from streamlet.processing.outputs import Output
from streamlet.processing.task import Task
from streamlet.state.drained import Drained
from streamlet.state.freshness import Freshness
from streamlet.state.task_state import TaskState
from streamlet.tasks.opening import OpenTask, blamed, changelogs_of
from streamlet.tasks.task_record import TaskStage, moved
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import NO_STATE, StateNumber, TaskId, TopicPartition


@attrs.define
class Unsent:
    """Outputs of a task that wait, and the number and time of the next try of their first record.

    ``shown`` are the whole outputs, which the observer sees once all is sent.
    """

    outputs: deque[Output]
    attempt: int
    due_ms: int
    shown: list[Output]


@attrs.define(eq=False)
class ActiveTask:
    """An active period of one task, in the sense of the commit numbers.

    Attributes:
        inputs: its input partitions, sorted.
        contained: commit number that the committed offsets contain; a claim carries the old one on.
        epoch: of this period; every changelog record and commit bears it.
        number: of the last accepted commit of this period, 0 after the claim.
        by: member id under which that was committed.
        claimed: whether the claim was accepted.
        committed: input offsets of the last accepted commit.
        notes: of each input, as of that commit.
        ends: end of each changelog partition as of our last flush.
        written: last number of this period written to each changelog topic.
        rebuilt: what commits tell of changelogs that lack records.
        looked_ms: when all its changelogs were last looked at, whether it had written or not.
        freshness: of the topics of its tables, which others write.
        misplaced: names an input whose keys lie in other partitions than they should; or empty.
        unsent: outputs that wait, because the producer is to be given a record again; or None.
        halted: why it processes nothing although it runs; empty: it processes.
        paused: whether an operator has it process nothing for now.
        remade: whether a topic that it reads was made again: it commits once more, and is then
            brought up again.
        wrote: whether it sent something since its last commit.
    """

    opened: OpenTask
    subtopology: Subtopology
    inputs: tuple[TopicPartition, ...]
    processor: Task
    stage: TaskStage = TaskStage.OPENING
    contained: StateNumber = NO_STATE
    epoch: int = 0
    number: int = 0
    by: str = ""
    claimed: bool = False
    committed: dict[TopicPartition, int] = attrs.field(factory=dict)
    notes: dict[TopicPartition, InputNote] = attrs.field(factory=dict)
    ends: dict[TopicPartition, int] = attrs.field(factory=dict)
    written: dict[str, int] = attrs.field(factory=dict)
    rebuilt: Rebuilt | None = None
    halted: str = ""
    paused: bool = False
    looked_ms: int = 0
    freshness: dict[TopicPartition, Freshness] = attrs.field(factory=dict)
    unsent: Unsent | None = None
    misplaced: str = ""
    remade: bool = False
    wrote: bool = False
    #: The writer of its records that wait for its commits; None: there are none.
    held: HeldWriter | None = attrs.field(init=False)

    @held.default
    def _its_held_writer(self) -> HeldWriter | None:
        edges = self.processor.edges
        return None if edges is None else edges.held

    def __attrs_post_init__(self) -> None:
        self.processor.epoch = self.epoch

    def begin_again(self) -> None:
        """Begin a new active period in place: the last commit of the task is still ours."""
        self.epoch += 1
        self.processor.epoch = self.epoch
        self.number = 0
        self.written = {}
        self.claimed = False
        if self.held is not None:
            self.held.begin_again(self.epoch)

    def may_begin_again(self, positions: Positions) -> bool:
        """True if these positions are its last commit, and nothing that it wrote waits for more."""
        waits = self.held is not None and self.held.undecided
        return positions.are(self.committed, self.by, self.epoch) and not waits

    def move_to(self, stage: TaskStage) -> None:
        """Enter another stage."""
        self.stage = moved(self.task, self.stage, stage)

    @property
    def task(self) -> TaskId:
        """The task's id."""
        return self.opened.task

    @property
    def state(self) -> TaskState:
        """Its stores."""
        return self.opened.state

    @property
    def changelogs(self) -> dict[str, TopicPartition]:
        """The changelog partition that it writes of each store that has one."""
        return changelogs_of(self.subtopology, self.task, tables=False)

    @property
    def tables(self) -> tuple[TopicPartition, ...]:
        """Its input partitions that are the changelog of a table."""
        topics = {spec.source_topic for spec in self.subtopology.stores}
        return tuple(tp for tp in self.inputs if tp.topic in topics)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offsets that a commit would write now: behind the last processed records."""
        edges, found = self.processor.edges, self.processor.positions
        return found if edges is None else edges.committable(found)

    @property
    def changed(self) -> bool:
        """True if there is something to commit."""
        calls = self.processor.calls
        if self.under_way or self.remade or (calls is not None and calls.shut):
            return True
        if self.held is not None and self.held.wants_commit:
            return True
        return self.positions != self.committed or self.state.has_dirty()

    @property
    def stands(self) -> bool:
        """True if it takes no record although it runs."""
        return self.paused or bool(self.halted)

    @property
    def under_way(self) -> bool:
        """True if it has begun a batch and not ended it, or not sent all of its outputs."""
        return self.processor.under_way or self.unsent is not None

    def compare(self, topic_ids: Mapping[str, str]) -> None:
        """Note whether a topic that it reads was made again, by the present ids of topics.

        Brokers delete the positions in a topic with it. Without one more commit they would be lost,
        and with them, where there are no others, what the state belongs to.
        """
        self.remade = not all(n.is_of(topic_ids, tp.topic) for tp, n in self.notes.items())

    def can_commit(self) -> bool:
        """True if a commit can cover it while it runs; else it lets its calls come to an end."""
        calls = self.processor.calls
        return not self.under_way and (calls is None or calls.can_commit())

    def delays_stop(self) -> bool:
        """True if it cannot be stopped yet: a record is tried again, or calls have yet to end."""
        calls = self.processor.calls
        return self.retrying or (calls is not None and calls.delays_stop())

    @property
    def retrying(self) -> bool:
        """True if it waits, amid a batch, to try a record again."""
        return self.processor.retrying or self.unsent is not None

    @property
    def edge_writer(self) -> EdgeWriter | None:
        """The writer of prefixes of its records; None if they bear none."""
        edges = self.processor.edges
        return None if edges is None else edges.writer

    @property
    def notes_now(self) -> dict[TopicPartition, InputNote]:
        """The notes that a commit would write now."""
        edges = self.processor.edges
        return self.notes if edges is None else edges.notes

    def check_invariants(self) -> None:
        """Raise AssertionError where the period contradicts itself."""
        assert self.epoch > 0, self.task
        assert self.claimed or self.number == 0, self.task
        assert self.state.state <= self.contained, (
            f"{self.task}: local store {self.state.state} is ahead of commit {self.contained}"
        )


@attrs.define(eq=False)
class TaskCommit:
    """One task's share of a commit. ``drained`` is None in a claim."""

    active: ActiveTask
    number: int
    offsets: dict[TopicPartition, int]
    contained: StateNumber
    drained: Drained | None = None
    #: Of each input.
    notes: dict[TopicPartition, InputNote] = attrs.field(factory=dict)
    #: Member id that the task is released to: the commit is a mark.
    release_to: str | None = None
    ends: dict[TopicPartition, int] = attrs.field(factory=dict)
    #: Wall-clock time of those ends; with ``look`` also those of its tables' topics are read.
    ends_ms: int = 0
    look: bool = False
    table_ends: dict[TopicPartition, int] = attrs.field(factory=dict)
    #: Up to where each changelog is known to hold nothing but ours, and how many records we sent
    #: behind that.
    checked: dict[TopicPartition, int] = attrs.field(factory=dict)
    sent: dict[TopicPartition, int] = attrs.field(factory=dict)
    #: Of its task, when it was begun: a commit before may be of a topic that is gone.
    remade: bool = attrs.field(init=False)

    @remade.default
    def _is_remade(self) -> bool:
        return self.active.remade

    @classmethod
    def again(cls, active: ActiveTask, number: int) -> TaskCommit:
        """The offsets of the last commit once more; number 0: the claim of an active period.

        A claim commits the offsets that the period found, under its own epoch. A task that stops
        before its calls have ended repeats its last commit.
        """
        return cls(
            active,
            number,
            dict(active.committed),
            active.contained,
            notes=dict(active.notes),
            ends=dict(active.ends),
        )

    @property
    def starts(self) -> Mapping[TopicPartition, int]:
        """The offsets before which this commit says that changelogs are not needed any more."""
        return {} if self.drained is None else self.drained.starts

    @property
    def rebuilt(self) -> Rebuilt | None:
        """The note of this commit about changelogs that lack records."""
        return started(self.active.rebuilt, self.starts)

    def metadata(
        self, member_id: str, generation: int, rules: TextRules
    ) -> dict[TopicPartition, str]:
        """The metadata to write beside the offset of each input.

        Raises:
            CommitMetadataError: it is longer than the broker takes.
        """
        plain = CommitMetadata(
            epoch=self.active.epoch,
            by=member_id,
            generation=generation,
            ends=self.ends,
            state=self.contained,
            release_to=self.release_to,
            rebuilt=self.rebuilt,
            born=0 if self.active.held is None else self.active.held.born,
            key=b"" if self.active.held is None else self.active.held.key,
        )
        return rules.texts(plain, dict.fromkeys(self.active.inputs, InputNote()) | self.notes)

    def accepted(self, by: str) -> None:
        """Make this the task's last commit; ``by``: the member id it was sent under."""
        active = self.active
        active.committed = self.offsets
        active.notes = self.notes
        active.rebuilt = self.rebuilt
        if active.edge_writer is not None:
            active.edge_writer.committed(self.offsets)
        if active.held is not None:
            active.held.accepted(self.number) if self.number else active.held.claimed()
        active.contained = self.contained
        active.claimed = True
        active.number = self.number
        active.by = by
        active.wrote = False
        if self.drained is not None:
            active.ends = self.ends

    def write(self) -> None:
        """Put this accepted share into the local store.

        Raises:
            StateError: the store refuses; it names the task.
        """
        assert self.drained is not None
        with blamed(self.active.task):
            positions = {**self.ends, **{tp: self.offsets[tp] for tp in self.active.tables}}
            times, inputs = self._times(), self.offsets
            self.active.state.write(self.drained, self.contained, positions, times, inputs)

    def _times(self) -> dict[TopicPartition, int]:
        """Wall-clock times at which the logs of the stores held nothing behind their positions."""
        times = dict.fromkeys(self.ends, self.ends_ms)
        for tp in self.active.tables:
            fresh = self.active.freshness.setdefault(tp, Freshness())
            at_ms = fresh.reached(self.offsets[tp], self.ends_ms, self.table_ends.get(tp))
            if at_ms is not None:
                times[tp] = at_ms
        return times
