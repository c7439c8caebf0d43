"""The commit port of a worker: what commits are to the rest of it, whichever way they are made.

And what they consist of: the share of each task, with what its stores note of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import attrs

from streamlet.group.commit_metadata import InputNote, Rebuilt, started
from streamlet.group.events import CommitOutcome
from streamlet.runtime.active import ActiveTask
from streamlet.state.drained import Drained
from streamlet.state.freshness import Freshness
from streamlet.types import StateNumber, TaskId, TopicPartition


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

    @property
    def starts(self) -> Mapping[TopicPartition, int]:
        """The offsets before which this commit says that changelogs are not needed any more."""
        return {} if self.drained is None else self.drained.starts

    @property
    def rebuilt(self) -> Rebuilt | None:
        """The note of this commit about changelogs that lack records."""
        return started(self.active.rebuilt, self.starts)

    def accepted(self, by: str) -> None:
        """Make this the task's last commit; ``by``: the member id it was sent under."""
        active = self.active
        active.committed = self.offsets
        active.notes = self.notes
        active.rebuilt = self.rebuilt
        if active.edge_writer is not None:
            active.edge_writer.committed(self.offsets)
        active.contained = self.contained
        active.claimed = True
        active.number = self.number
        active.by = by
        if self.drained is not None:
            active.ends = self.ends


def claim_of(active: ActiveTask) -> TaskCommit:
    """The first commit of an active period: the offsets it found, under its own epoch."""
    return TaskCommit(
        *(active, 0, dict(active.committed), active.contained),
        notes=dict(active.notes),
        ends=dict(active.ends),
    )


def same_of(active: ActiveTask) -> TaskCommit:
    """The last commit once more: of a task that stops before its calls have ended."""
    return attrs.evolve(claim_of(active), number=active.number)


def times_of(part: TaskCommit) -> dict[TopicPartition, int]:
    """Wall-clock times at which the logs of the stores held nothing behind their positions."""
    times = dict.fromkeys(part.ends, part.ends_ms)
    for tp in part.active.tables:
        fresh = part.active.freshness.setdefault(tp, Freshness())
        at_ms = fresh.reached(part.offsets[tp], part.ends_ms, part.table_ends.get(tp))
        if at_ms is not None:
            times[tp] = at_ms
    return times


def local_positions(part: TaskCommit) -> dict[TopicPartition, int]:
    """The position of each changelog in the store: ours at their ends, source topics at commits."""
    positions = dict(part.ends)
    for spec in part.active.subtopology.stores:
        if spec.source_topic is not None:
            tp = TopicPartition(spec.source_topic, part.active.task.partition)
            positions[tp] = part.offsets[tp]
    return positions


@attrs.frozen(eq=False)
class Settled:
    """A commit and what became of it.

    ``hold`` is the token of the unit that it belongs to, if any; ``last``: it ends that unit.
    """

    outcome: CommitOutcome
    parts: tuple[TaskCommit, ...]
    hold: int | None = None
    last: bool = False


class CommitPort(Protocol):
    """Commits of a worker's tasks, one under way at most; ``commit.AtLeastOnceCommit`` is one.

    Attributes:
        accepted: commits accepted so far.
        flush_ns: nanoseconds that the delivery of what they cover took.
        settle: called with a task before its share is taken: ends the batch that it has under way.
    """

    accepted: int
    flush_ns: int
    settle: Callable[[ActiveTask], None]

    @property
    def under_way(self) -> bool:
        """True if a commit is not yet accepted, or not yet written to the local stores."""
        ...

    @property
    def sent(self) -> bool:
        """True if the coordinator has not answered a commit yet."""
        ...

    def begin(
        self, tasks: Iterable[ActiveTask], hold: int | None = None, *, at_once: bool = False
    ) -> None:
        """Prepare and send a commit of every task that has something to say, claims included.

        With one under way, go on with that, and send it again if it was turned away: call this
        until it is sent, or with ``at_once`` just once. ``hold`` is the token of a unit that waits
        for it: a join that is due waits for that unit, so it goes out all the same, and at once.

        Raises:
            TaskMigratedError: our last heartbeat is too old and the group does not know us any
                more.
            DeliveryError: something was not delivered; nothing was committed.
            BrokerError: the broker does not answer just now; call again.
            StateError: a task's stores fail, which the error names; ``forget`` it and call again.
        """
        ...

    def begin_claims(self, hold: int, tasks: Sequence[ActiveTask]) -> bool:
        """Claim those stopped tasks of a unit that were not claimed yet; False: there is none.

        What they did can only be committed after that. Raises as ``begin``.
        """
        ...

    def begin_last(
        self, hold: int, tasks: Sequence[ActiveTask], marks: Mapping[TaskId, str]
    ) -> None:
        """Commit stopped tasks, as the unit of a granted hold; none may be under way.

        Every one of them is committed, also with nothing new to say: ``marks`` tells whom it is
        released to. Raises as ``begin``.
        """
        ...

    def done(self, token: int, outcome: CommitOutcome, code: int) -> Settled | None:
        """Take the coordinator's answer; None if no commit waits for it any more.

        A commit that was turned away, or whose outcome is unknown, stays under way and is sent
        again by ``begin``, without its marks: the order they answered is not held any more.

        Raises:
            BrokerError: the coordinator will never accept it.
        """
        ...

    def forget(self, active: ActiveTask) -> None:
        """Leave a task that is about to be closed out of the commit under way.

        What was accepted of it is written: its copy on disk is then as of its last commit.
        """
        ...

    def abort(self) -> None:
        """Drop the commit under way; what was accepted of it is still written."""
        ...

    def forget_queued(self) -> None:
        """Deliver nothing any more of what was written so far: all tasks it stems from are lost."""
        ...

    def finish(self) -> None:
        """Write all that was accepted to the local stores.

        Raises:
            StateError: a store refuses.
        """
        ...
