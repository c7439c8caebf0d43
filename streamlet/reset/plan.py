"""Plans a reset: positions, and topics of the application's own. Pure.

Which topics are the application's own, ``reset.ownership`` finds out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from streamlet.bounded import EPOCH_MAX
from streamlet.control.values import ResetEpoch
from streamlet.coordinator.commit_metadata import CommitMetadata, InputNote
from streamlet.coordinator.messages import Committed
from streamlet.kafka.ports import NewTopic
from streamlet.reset.start import StartPosition
from streamlet.topology.names import between_suffix
from streamlet.types import NO_STATE, TopicPartition

#: Who committed, where it says that.
BY = "streamlet reset"

#: Of incarnations, s since the epoch.
_LAST_INCARNATION = 3 << 30


@attrs.frozen
class PositionReset:
    """A position that is set; ``before`` -1: there was none."""

    partition: TopicPartition
    before: int
    after: int


@attrs.frozen
class ResetPlan:
    """All a reset changes.

    ``recreated`` are deleted and created again, ``removed`` only deleted: the topology has no such
    topics any more. ``left`` are topics that may be internal ones of the application, or that
    the control topic names as such, and that prove nothing: they stay as they are.
    ``incarnation`` is that of the inputs from now on, higher than any before.
    ``unfinished``: an earlier reset was broken off. ``members`` are taken out of the group first.
    """

    application: str
    start: StartPosition
    epoch: int
    highest_epoch: int
    incarnation: int
    moves: tuple[PositionReset, ...]
    recreated: tuple[NewTopic, ...]
    removed: tuple[str, ...]
    unfinished: bool = False
    left: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """The topics whose positions are set."""
        return tuple(dict.fromkeys(move.partition.topic for move in self.moves))

    @property
    def entry(self) -> ResetEpoch:
        """The entry in the control topic while it is carried out."""
        noted = self.moves if self.start.shift is not None else ()
        before = tuple((*one.partition, one.before) for one in noted)
        return ResetEpoch(self.epoch, 0, self.recreated, self.sources, positions=before)

    def positions(self) -> dict[TopicPartition, tuple[int, str]]:
        """All positions to commit, also of internal topics, each with its metadata text.

        The text knows no changelog and no state any more. It carries the epoch on: a process from
        before, that was only asleep, writes with an older one, and no reader believes it.
        """
        note = InputNote(self.incarnation)
        text = CommitMetadata(self.highest_epoch, BY, -1, {}, NO_STATE, note=note).to_text()
        between = [topic for topic in self.recreated if between_suffix(topic.name)]
        return {move.partition: (move.after, text) for move in self.moves} | {
            TopicPartition(topic.name, partition): (0, text)
            for topic in between
            for partition in range(topic.partitions)
        }

    def as_dict(self, *, done: bool) -> dict[str, Any]:
        """The document that the command prints."""
        remade = [(topic.name, topic.partitions, True) for topic in self.recreated]
        gone: list[tuple[str, int | None, bool]] = [(name, None, False) for name in self.removed]
        return {
            "application": self.application,
            "to": self.start.where,
            "epoch": self.epoch,
            "positions": [
                {
                    "topic": move.partition.topic,
                    "partition": move.partition.partition,
                    "from": None if move.before < 0 else move.before,
                    "to": move.after,
                }
                for move in self.moves
            ],
            "topics": [
                {"name": name, "partitions": partitions, "made_anew": again}
                for name, partitions, again in [*remade, *gone]
            ],
            "left": list(self.left),
            "members": list(self.members),
            "done": done,
        }


@attrs.frozen(repr=False)
class ResetResult:
    """The result of a reset; ``done``: everything in the plan has happened."""

    plan: ResetPlan
    done: bool

    def as_dict(self) -> dict[str, Any]:
        """The document that the command prints."""
        return self.plan.as_dict(done=self.done)

    def __repr__(self) -> str:
        """The same document, since a plan has parts that only a reset needs."""
        return f"ResetResult({self.as_dict()})"


def merged(wanted: NewTopic, found: NewTopic | None, given: Mapping[str, str]) -> NewTopic:
    """A topic of the topology as it is made again.

    It keeps the settings of the topic that there was, but for those that are ``given`` now.
    """
    if found is None:
        return wanted
    config = tuple(sorted({**dict(wanted.config), **dict(found.config), **given}.items()))
    return attrs.evolve(wanted, replication=found.replication, config=config)


def next_incarnation(committed: Mapping[TopicPartition, Committed]) -> int:
    """One above the incarnations of all inputs; later ones than the year 2072 are forged."""
    found = (CommitMetadata.read(one.metadata) for one in committed.values())
    known = (one.note.incarnation for one in found if one is not None)
    return 1 + max((one for one in known if one <= _LAST_INCARNATION), default=0)


def highest_epoch(committed: Mapping[TopicPartition, Committed]) -> int:
    """The highest epoch of all commits, 0 without any; one that leaves few behind it is forged."""
    found = (CommitMetadata.read(one.metadata) for one in committed.values())
    known = (one.epoch for one in found if one is not None)
    return max((epoch for epoch in known if epoch <= EPOCH_MAX // 2), default=0)
