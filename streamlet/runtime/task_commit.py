"""One task's share of a commit, and what its stores note of it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from streamlet.group.commit_metadata import Rebuilt, started
from streamlet.group.input_notes import InputNote
from streamlet.runtime.active import ActiveTask
from streamlet.state.drained import Drained
from streamlet.state.freshness import Freshness
from streamlet.types import StateNumber, TopicPartition


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
