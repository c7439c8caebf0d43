"""Ports that surround the real parts of a simulated worker: input, changelogs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.errors import UnreachableError
from streamlet.processing.record_failures import RecordCounters
from streamlet.state.drained import Drained
from streamlet.tasks.active import ActiveTask, TaskCommit
from streamlet.testing.simulation.cluster import changelog_of, input_of
from streamlet.testing.simulation.stores import STORE
from streamlet.types import StateNumber, TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember


class SimConsumer:
    """A consumer that brings nothing: tasks make up their records themselves."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these."""

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these no more."""

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Read these later."""

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Read these again."""


class SimDelivery:
    """The changelogs, in place of ``tasks.commit_delivery``."""

    def __init__(self, member: SimMember) -> None:
        self._member = member

    def flush(self, active: ActiveTask, *, look: bool, compact: bool) -> TaskCommit:
        """Write what was processed to the changelog."""
        counting: Any = active.processor
        contained = StateNumber(active.epoch, active.number + 1)
        counting.flushed = contained.number
        self._member.world.protocol.wrote(self._member, active)
        offsets = dict(counting.positions)
        part = TaskCommit(active, contained.number, offsets, contained, Drained({}, {}))
        part.look = look
        if active.subtopology.stateful:
            records = self._member.world.cluster.logs[active.task].records
            records.append((contained, offsets[input_of(active.task)]))
            part.ends = {changelog_of(active.task): len(records)}
        return part

    def deliver(self, parts: Sequence[TaskCommit]) -> bool:
        """Take all of it for delivered: True; not if a broker refuses.

        Raises:
            UnreachableError: it refuses.
        """
        if self._member.world.network.refuses():
            raise UnreachableError("the broker takes no records")
        return True

    def forget_queued(self) -> None:
        """Keep it: it is in the logs already."""


@attrs.define(eq=False)
class CountingTask:
    """A processor that counts the records of its one input. ``flushed``: its last number."""

    positions: dict[TopicPartition, int]
    flushed: int = 0
    epoch: int = 0
    counters: RecordCounters = attrs.field(factory=RecordCounters)
    under_way: bool = False
    retrying: bool = False
    calling: bool = False
    commit_requested: bool = False
    calls: None = None
    edges: None = None

    @property
    def received(self) -> dict[TopicPartition, int]:
        """Positions to read on from."""
        return self.positions

    def process(self) -> None:
        """Take a record."""
        self.positions = {tp: offset + 1 for tp, offset in self.positions.items()}

    def close(self) -> None:
        """Close nothing."""


@attrs.frozen
class SimSource:
    """The input of a subtopology: read from its first record where nothing is committed."""

    reset: str = "earliest"


@attrs.frozen
class SimStore:
    """The store of a subtopology, and its changelog."""

    name: str
    source_topic: None = None


@attrs.frozen
class SimSubtopology:
    """A part of the topology, with one store or none."""

    number: int
    stateful: bool
    repartitions: tuple[()] = ()

    @property
    def stores(self) -> tuple[SimStore, ...]:
        """Its stores."""
        return (SimStore(STORE),) if self.stateful else ()

    @property
    def changelog_topics(self) -> tuple[str, ...]:
        """The topics of its changelogs."""
        return tuple(self.changelog_topic(one.name) for one in self.stores)

    def changelog_topic(self, store: str) -> str:
        """The topic of a store's changelog."""
        return changelog_of(TaskId(self.number, 0)).topic

    def store(self, name: str) -> SimStore:
        """The store of that name."""
        return SimStore(name)

    def source_of(self, topic: str) -> SimSource:
        """The source that reads the topic."""
        return SimSource()


def counting(
    task: TaskId,
    subtopology: object,
    state: object,
    positions: dict[TopicPartition, int],
    **_: object,
) -> CountingTask:
    """A processor for the records of an open task, in place of ``processing.task.Task``."""
    return CountingTask(dict(positions))
