"""Ports around the real parts of a simulated worker: its topology, and its changelogs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.errors import UndeliveredError, UnreachableError
from streamlet.state.drained import Drained
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit_delivery import DeliveryStage
from streamlet.tasks.commit_port import TaskCommit
from streamlet.testing.simulation.cluster import changelog_of, input_of
from streamlet.testing.simulation.stores import STORE
from streamlet.types import StateNumber, TaskId

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember


class SimDelivery:
    """The changelogs, in place of ``tasks.commit_delivery``."""

    def __init__(self, member: SimMember) -> None:
        self._member = member
        self._there: tuple[TaskCommit, ...] = ()  # in the logs, though a broker refused

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

    def deliver(self, parts: Sequence[TaskCommit], wait_ms: int) -> DeliveryStage:
        """Take all of it for delivered, unless a broker refuses.

        What was not delivered in time is not in the logs, unless it was there before: copies may
        have read it.

        Raises:
            UnreachableError: it refuses, and may take them soon.
            UndeliveredError: it did not take them for so long that they are given up.
        """
        network, logs = self._member.world.network, self._member.world.cluster.logs
        if not network.refuses():
            self._there = ()
            return DeliveryStage.DONE
        if network.gives_up():
            for part in parts:
                if part not in self._there and part.active.subtopology.stateful:
                    number, _ = logs[part.active.task].records.pop()
                    assert number == part.contained, f"{number} follows {part.contained}"
            raise UndeliveredError("records were not delivered in time")
        self._there = tuple(parts)
        raise UnreachableError("the broker takes no records")

    def forget_queued(self) -> None:
        """Do nothing: queued records are in the logs already."""

    def close(self) -> None:
        """Do nothing: no broker is asked."""


@attrs.frozen
class SimInput:
    """The input of a subtopology: read from its first record where nothing is committed."""

    name: str
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

    @property
    def repartitions(self) -> tuple[SimInput, ...]:
        """Its input lies between two subtopologies: what is committed is deleted."""
        return (SimInput(input_of(TaskId(self.number, 0)).topic),)

    @property
    def stores(self) -> tuple[SimStore, ...]:
        """The stores of the subtopology."""
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

    def source_of(self, topic: str) -> SimInput:
        """The source that reads the topic."""
        return SimInput(topic)
