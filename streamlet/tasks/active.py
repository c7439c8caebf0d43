"""One active task of a worker, from the order to run it to its last commit.

Its stages are those of ``tasks.task_record`` from OPENING to STOPPED. ``tasks.activation`` has it
until it is ready, ``tasks.task_registry`` from then on; fields that it has from a stage on are not
there before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from streamlet.coordinator.commit_metadata import (
    InputNote,
    Positions,
    Rebuilt,
)
from streamlet.processing.edges.held_writer import HeldWriter
from streamlet.processing.edges.writer import EdgeWriter
from streamlet.processing.outputs import Output
from streamlet.processing.task import Task
from streamlet.state.freshness import Freshness
from streamlet.state.task_state import TaskState
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.task_record import OpeningStage, TaskStage, moved
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import StateNumber, TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.tasks.target import Target
    from streamlet.tasks.targets import TargetAnswer


@attrs.define
class Unsent:
    """Outputs of a task that wait, and the number and time of the next try of their first record.

    ``sent`` are those before them, and of those that wait what was taken so far: the observer sees
    them once all is sent.
    """

    outputs: deque[Output]
    attempt: int
    due_ms: int
    sent: list[Output]


@attrs.define(eq=False)
class ActiveTask:
    """One task that is ours: on its way up, and then an active period of it.

    Attributes:
        mark: the committed positions that the owner before left with its mark, where there is one.
        opening: how far it is on its way up, from CREATED, or SETTLING, to READY, or CANCELLED.
        target: what it begins with, as far as it is known.
        answer: while ASKING and DECIDING: what brokers will say of the target, by task.
        offer: while DECIDING: when it is given back to the group instead, ms, and the reason.
        restoring: while RESTORING: its stores, which are the state updater's.
        opened: its stores, once it is READY, as is all that follows.
        processor: processes its records; it has its epoch, and the positions that it has reached.
        inputs: its input partitions, sorted.
        contained: commit number that the committed offsets contain; a claim carries the old one on.
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
        kept: outputs that follow once the commit under way is delivered.
        halted: why it processes nothing although it runs; empty: it processes.
        paused: whether an operator has it process nothing for now.
        remade: whether a topic that it reads was made again: it commits once more, and is then
            brought up again.
        wrote: whether it sent something since its last commit.
        fenced: whether no owner before it writes to its changelogs any more, as of the commit that
            its period began at.
    """

    task: TaskId
    mark: Positions | None = None
    opening: OpeningStage = OpeningStage.CREATED
    stage: TaskStage = attrs.field(default=TaskStage.OPENING, init=False)
    target: Target | None = attrs.field(default=None, init=False)
    answer: TargetAnswer | None = attrs.field(default=None, init=False)
    offer: tuple[int, str] | None = attrs.field(default=None, init=False)
    restoring: OpenTask | None = attrs.field(default=None, init=False)
    opened: OpenTask = attrs.field(init=False)
    subtopology: Subtopology = attrs.field(init=False)
    processor: Task = attrs.field(init=False)
    inputs: tuple[TopicPartition, ...] = attrs.field(init=False)
    committed: dict[TopicPartition, int] = attrs.field(init=False)
    contained: StateNumber = attrs.field(init=False)
    #: The writer of its records that wait for its commits; None: there are none.
    held: HeldWriter | None = attrs.field(init=False)
    number: int = 0
    by: str = ""
    claimed: bool = False
    notes: dict[TopicPartition, InputNote] = attrs.field(factory=dict)
    ends: dict[TopicPartition, int] = attrs.field(factory=dict)
    written: dict[str, int] = attrs.field(factory=dict)
    rebuilt: Rebuilt | None = None
    halted: str = ""
    paused: bool = False
    looked_ms: int = 0
    freshness: dict[TopicPartition, Freshness] = attrs.field(factory=dict)
    unsent: Unsent | None = None
    kept: list[Output] = attrs.field(factory=list)
    misplaced: str = ""
    remade: bool = False
    wrote: bool = False
    fenced: bool = False

    # On its way up.

    def come_to(self, stage: OpeningStage) -> None:
        """Enter another stage on its way up."""
        self.opening = moved(self.task, self.opening, stage)

    def start_over(self) -> None:
        """Have everything read once more, the mark's positions too."""
        self.mark = self.target = None
        self.come_to(OpeningStage.CREATED)

    def wait_for(self, answer: TargetAnswer, stage: OpeningStage) -> None:
        """Wait for brokers to say what it begins with, or what is missing of that."""
        self.answer = answer
        self.come_to(stage)

    def answered(self) -> Target:
        """Take the brokers' answer: the target.

        Raises:
            StreamletError: they could not; it is CREATED again, as before the question, and reads
                everything once more if that was to decide about it.
        """
        answer, self.answer = self.answer, None
        assert answer is not None, self.task
        try:
            return answer.result()[self.task]
        except BaseException:
            if self.opening is OpeningStage.DECIDING:
                self.mark = self.target = None
            self.come_to(OpeningStage.CREATED)
            raise

    def known(self) -> Target:
        """The target of a task that is further than the question for it."""
        assert self.target is not None, self.task
        return self.target

    def waits_for(self, opened: OpenTask) -> bool:
        """True if these stores are what the state updater is to hand over, as of its target."""
        is_its = opened is self.restoring or self.opening is OpeningStage.PROMOTING
        return is_its and self.known().limit == opened.target.limit

    def begin(
        self, opened: OpenTask, subtopology: Subtopology, processor: Task, contained: StateNumber
    ) -> None:
        """Begin an active period at the processor's positions, with stores as of these."""
        self.opened, self.subtopology, self.processor = opened, subtopology, processor
        self.committed, self.contained = dict(processor.positions), contained
        self.inputs = tuple(sorted(self.committed))
        self.held = None if processor.edges is None else processor.edges.held
        self.fenced = self.target is not None and self.target.fenced
        self.mark = self.target = None
        self.come_to(OpeningStage.READY)

    # In its active period.

    @property
    def epoch(self) -> int:
        """The number of this period; every changelog record and commit bears it."""
        return self.processor.epoch

    def begin_again(self) -> None:
        """Begin a new active period in place: the last commit of the task is still ours."""
        self.processor.epoch += 1
        self.number = 0
        self.written = {}
        self.claimed = False
        if self.held is not None:
            self.held.begin_again(self.epoch)
        if self.edge_writer is not None:
            self.edge_writer.forms.begin_again()

    def may_begin_again(self, positions: Positions) -> bool:
        """True if these positions are its last commit, and nothing that it wrote waits for more."""
        waits = self.kept or (self.held is not None and self.held.undecided)
        return positions.are(self.committed, self.by, self.epoch) and not waits

    def move_to(self, stage: TaskStage) -> None:
        """Enter another stage."""
        self.stage = moved(self.task, self.stage, stage)

    @property
    def state(self) -> TaskState:
        """Its stores."""
        return self.opened.state

    @property
    def changelogs(self) -> dict[str, TopicPartition]:
        """The changelog partition that it writes of each store that has one."""
        logs, others = self.state.changelogs, self.state.plain
        return {store: tp for store, tp in logs.items() if store not in others}

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
        if self.under_way or self.kept or self.remade or (calls is not None and calls.shut):
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
        # Calls are asked first: they are under way themselves, and come to an end because of it.
        return (calls is None or calls.can_commit()) and not self.under_way

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
        """Raise AssertionError where its stage and what is known contradict each other."""
        if self.opening is not OpeningStage.READY:
            self._check_on_way()
            return
        assert self.epoch > 0, self.task
        assert self.claimed or self.number == 0, self.task
        assert self.state.state <= self.contained, (
            f"{self.task}: local store {self.state.state} is ahead of commit {self.contained}"
        )

    def _check_on_way(self) -> None:
        asks = self.answer is not None or self.offer is not None
        assert (self.opening in (OpeningStage.ASKING, OpeningStage.DECIDING)) == asks, self
        assert (self.opening is OpeningStage.RESTORING) == (self.restoring is not None), self
        assert self.offer is None or self.opening is OpeningStage.DECIDING, self
        unknown = OpeningStage.SETTLING, OpeningStage.CREATED, OpeningStage.ASKING
        assert self.opening in unknown or self.target is not None, self
        assert self.opening is not OpeningStage.CANCELLED, self
