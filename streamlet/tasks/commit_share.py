"""The shares of tasks in a commit, and what became of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import attrs

from streamlet.coordinator.codes import TEXT_TOO_LONG, name_of
from streamlet.coordinator.commit_metadata import CommitMetadata, InputNote, Rebuilt, started
from streamlet.coordinator.commit_texts import LIMIT, TextRules
from streamlet.coordinator.events import CommitDone, CommitOutcome
from streamlet.errors import BrokerError, MissingRightError
from streamlet.rights import TOPIC_REFUSED, on_topics
from streamlet.state.drained import Drained
from streamlet.state.freshness import Freshness
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.opening import blamed
from streamlet.tasks.task_record import Unit, UnitStage
from streamlet.types import StateNumber, TaskId, TopicPartition


class LogEnds(NamedTuple):
    """The offsets where logs end, and where changelogs begin if that was asked, too."""

    ends: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]


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
    #: With ``asks_ends`` those of its inputs are read, for the forms of its records.
    asks_ends: bool = False
    input_ends: dict[TopicPartition, int] = attrs.field(factory=dict)
    #: Up to where each changelog is known to hold nothing but ours, and how many records we sent
    #: behind that.
    checked: dict[TopicPartition, int] = attrs.field(factory=dict)
    sent: dict[TopicPartition, int] = attrs.field(factory=dict)
    #: What brokers are asked of the logs of this and the other parts of its commit.
    asked: Future[LogEnds] | None = None
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
        self, member_id: str, generation: int, rules: TextRules, *, transaction: bool = False
    ) -> dict[TopicPartition, str]:
        """The metadata to write beside the offset of each input, by a ``transaction`` or not.

        Raises:
            CommitMetadataError: it is longer than the broker takes.
        """
        writer = self.active.edge_writer
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
            transaction=transaction,
            origins=frozenset() if writer is None else writer.forms.numbers,
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
            active.edge_writer.forms.accepted(self.input_ends)
        if active.held is not None:
            active.held.accepted(self.number)
            if not active.claimed:  # the first transaction of a period is its claim
                active.held.claimed()
        active.contained = self.contained
        active.claimed = True
        active.number = self.number
        active.by = by
        active.wrote = False
        if self.remade:  # a worker that stops opens it no more, and would commit without an end
            active.remade = False
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


@attrs.frozen(eq=False)
class Settled:
    """A commit and what became of it.

    ``unit`` is that which it belongs to, if any. ``gone`` are inputs that no position is kept of
    any more, since their topics were deleted.
    """

    outcome: CommitOutcome
    parts: tuple[TaskCommit, ...]
    unit: Unit | None = None
    gone: frozenset[TopicPartition] = frozenset()

    @property
    def accepted(self) -> tuple[TaskCommit, ...]:
        """The accepted shares, of tasks that still have an input."""
        if self.outcome is not CommitOutcome.ACCEPTED:
            return ()
        return tuple(part for part in self.parts if not self.gone.issuperset(part.offsets))

    @property
    def without_input(self) -> tuple[ActiveTask, ...]:
        """Tasks without any input left, of which nothing was committed."""
        gone = self.gone
        return tuple(part.active for part in self.parts if gone and gone.issuperset(part.offsets))

    @property
    def outdated(self) -> tuple[ActiveTask, ...]:
        """Tasks to open again: without input, or with topics that were made again."""
        return self.without_input + tuple(part.active for part in self.accepted if part.remade)

    def entries_of(self, tasks: Collection[TaskId]) -> int:
        """Changed entries that it covers of these tasks."""
        return sum(len(part.drained or ()) for part in self.parts if part.active.task in tasks)

    @property
    def of_unit(self) -> CommitDone | None:
        """The outcome of the unit that is over with it, if one is."""
        unit = self.unit
        ended = unit is not None and unit.stage is UnitStage.COMMITTING
        if unit is None or (self.outcome is CommitOutcome.ACCEPTED and not ended):
            return None
        return CommitDone(unit.token, self.outcome)


def refusal(code: int, parts: Sequence[TaskCommit]) -> BrokerError:
    """The error for a commit that the coordinator refused; it does not say for which topics."""
    names = {tp.topic for part in parts for tp in part.offsets}
    advice = ""
    if code == TEXT_TOO_LONG:
        stores = max(len(part.active.changelogs) for part in parts)
        advice = (
            f"; raise the brokers' {LIMIT}, or use fewer stores in one subtopology: a task here "
            f"has {stores}"
        )
    refused = (
        f"the group coordinator refused a commit of {', '.join(sorted(names))}: {name_of(code)}"
    )
    if code == TOPIC_REFUSED:
        return MissingRightError(f"{refused}; {on_topics('READ', names)}")
    return BrokerError(refused + advice)
