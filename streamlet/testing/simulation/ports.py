"""Ports that surround the real parts of a simulated worker: group, input, changelogs.

The state of a task is the count of its inputs, so a wrong restore shows at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

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
from streamlet.runtime.opening import OpenTask
from streamlet.runtime.record_failures import TaskCounters
from streamlet.state.drained import Drained
from streamlet.testing.simulation.cluster import changelog_of, input_of
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
        self._member.feed(RejoinWanted(reason, descriptions))

    def fetch(self, token: int, partitions: Sequence[TopicPartition]) -> None:
        """Read committed positions once."""
        self._member.feed(FetchWanted(token, tuple(partitions)))

    def hold(self, token: int, generation: int) -> None:
        """Ask that no join begins."""
        self._member.feed(BlockJoinWanted(token, generation))

    def end_hold(self, token: int) -> None:
        """Let joins begin again."""
        self._member.feed(UnblockJoinWanted(token))

    def commit(
        self,
        token: int,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        hold: int | None = None,
    ) -> None:
        """Send; what stems from tasks that were lost is turned away before."""
        if self._member.loss_unseen:
            self._member.tell(CommitDone(token, CommitOutcome.LOST))
        else:
            self._member.feed(CommitWanted(token, dict(offsets), hold))


class SimSource:
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
        offsets = dict(counting.positions)
        part = TaskCommit(active, contained.number, offsets, contained, Drained({}, {}))
        part.look = look
        if active.subtopology.stateful:
            records = self._member.world.cluster.logs[active.task].records
            records.append((contained, offsets[input_of(active.task)]))
            part.ends = {changelog_of(active.task): len(records)}
        return part

    def deliver(self, parts: Sequence[TaskCommit]) -> None:
        """Take all of it for delivered."""

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
class SimSubtopology:
    """Part of a subtopology that commits ask for."""

    stateful: bool
    stores: tuple[()] = ()


@attrs.define(eq=False)
class SimStores:
    """The stores of a task on an instance's disk, and the lock on their folder."""

    member: SimMember
    task: TaskId
    state: StateNumber
    cache_bytes: int = 0

    def has_dirty(self) -> bool:
        """True if something was put that no commit covers."""
        return False  # it comes with the positions

    def dirty_bytes(self) -> int:
        """Bytes that only a commit frees: none here."""
        return 0

    def write(self, drained: Drained, contained: StateNumber, *_: object) -> None:
        """Take over what was accepted."""
        self.state = contained
        self.read_to_end()

    def read_to_end(self) -> None:
        """The disk has all of the changelog."""
        world = self.member.world
        if world.cluster.is_stateful(self.task):
            self.member.instance.disk[self.task] = world.cluster.logs[self.task].end

    def close(self) -> None:
        """Close nothing: files stay as they are."""

    def wipe(self) -> None:
        """Delete what is on disk."""
        self.member.instance.disk[self.task] = 0

    def release(self) -> None:
        """Let other members of the instance have the folder."""
        locks = self.member.instance.locks
        if locks.get(self.task) == self.member.name:
            del locks[self.task]


def locked(member: SimMember, task: TaskId) -> bool:
    """Lock the folder of a task; False if it is locked already."""
    if member.world.cluster.is_stateful(task):
        if task in member.instance.locks:
            return False
        member.instance.locks[task] = member.name
    return True


def opened(member: SimMember, task: TaskId, state: StateNumber) -> OpenTask:
    """The stores of a task whose folder is locked."""
    stores: Any = SimStores(member, task, state)
    return OpenTask(task, stores, stores)


def active_task(opened: OpenTask, committed: int, contained: StateNumber) -> ActiveTask:
    """A task that is ready to process from this offset."""
    stores: Any = opened.state
    stateful = stores.member.world.cluster.is_stateful(opened.task)
    part: Any = SimSubtopology(stateful)
    active = ActiveTask(opened, part, (input_of(opened.task),), contained=contained)
    active.committed = {input_of(opened.task): committed}
    counting: Any = CountingTask(dict(active.committed))
    active.process_with(counting)
    active.looked_ms = stores.member.world.now_ms
    return active
