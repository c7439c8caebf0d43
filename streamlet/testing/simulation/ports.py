"""Ports that surround the real parts of a simulated worker: group, input, changelogs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.errors import UnreachableError
from streamlet.group.commands import CommitDone, CommitOutcome
from streamlet.group.events import (
    BlockJoinWanted,
    CommitWanted,
    FetchWanted,
    RejoinWanted,
    UnblockJoinWanted,
)
from streamlet.group.states import BETWEEN, MembershipState
from streamlet.runtime.active import ActiveTask
from streamlet.runtime.commit_port import TaskCommit
from streamlet.runtime.record_failures import TaskCounters
from streamlet.state.drained import Drained
from streamlet.testing.simulation.cluster import changelog_of, input_of, task_of
from streamlet.testing.simulation.stores import STORE
from streamlet.types import StateNumber, TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember


class SimGroup:
    """The membership as the worker sees it, in place of ``group.session``."""

    def __init__(self, member: SimMember) -> None:
        self._member = member

    @property
    def member_id(self) -> str:
        """Our id in the group."""
        return self._member.machine.member_id

    @property
    def generation(self) -> int:
        """The last synced generation."""
        return self._member.machine.generation

    @property
    def gated(self) -> bool:
        """True if a commit would be turned away."""
        member = self._member
        if member.loss_unseen:
            return True
        state, after_ms = member.machine.state, member.config.parked_commit_after_ms
        if member.join_sent is not None and after_ms is not None:
            return member.world.now_ms - member.join_sent[1] < after_ms
        return state in BETWEEN or state in (MembershipState.PREPARING, MembershipState.FLIPPING)

    def alive(self) -> bool:
        """True if the group has heard of us; a worker that has to wait for that waits before."""
        member = self._member
        return not member.loss_unseen and member.alive() and self.generation >= 0

    def rejoin(self, reason: str, descriptions: int | None = None) -> None:
        """Have the group rebalance."""
        if "does not proceed" in reason:
            self._member.world.protocol.late(self._member, reason)
        self._want(RejoinWanted(reason, descriptions))

    def fetch(self, token: int, partitions: Sequence[TopicPartition]) -> None:
        """Read committed positions once."""
        self._want(FetchWanted(token, tuple(partitions)))

    def hold(self, token: int, generation: int) -> None:
        """Ask that no join begins."""
        self._want(BlockJoinWanted(token, generation))

    def end_hold(self, token: int) -> None:
        """Let joins begin again."""
        self._want(UnblockJoinWanted(token))

    def commit(
        self,
        token: int,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        hold: int | None = None,
    ) -> None:
        """Send; a commit from before a loss is turned away where losses happen."""
        member = self._member
        wanted, seen = CommitWanted(token, dict(offsets), hold), member.losses_seen
        member.commits[token] = frozenset(map(task_of, offsets))

        def arrive() -> None:
            if seen != member.losses:
                member.tell(CommitDone(token, CommitOutcome.LOST))
            else:
                member.feed(wanted)

        member.hand_over(arrive)

    def _want(
        self, wanted: RejoinWanted | FetchWanted | BlockJoinWanted | UnblockJoinWanted
    ) -> None:
        self._member.hand_over(lambda: self._member.feed(wanted))


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
    """The changelogs, in place of ``runtime.commit_delivery``."""

    def __init__(self, member: SimMember) -> None:
        self._member = member

    def flush(self, active: ActiveTask, *, look: bool) -> TaskCommit:
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

    def deliver(self, parts: Sequence[TaskCommit]) -> None:
        """Take all of it for delivered; not if a broker refuses.

        Raises:
            UnreachableError: it refuses.
        """
        if self._member.world.network.refuses():
            raise UnreachableError("the broker takes no records")

    def forget_queued(self) -> None:
        """Keep it: it is in the logs already."""


@attrs.define(eq=False)
class CountingTask:
    """A processor that counts the records of its one input. ``flushed``: its last number."""

    positions: dict[TopicPartition, int]
    flushed: int = 0
    epoch: int = 0
    counters: TaskCounters = attrs.field(factory=TaskCounters)
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
    """A processor for the records of an open task, in place of ``runtime.task.Task``."""
    return CountingTask(dict(positions))
