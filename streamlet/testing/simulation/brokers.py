"""Brokers and topics, as a simulated worker's activation knows them.

An answer of a broker takes as long as the network is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.coordinator.messages import Committed, OffsetFetch
from streamlet.errors import StreamletError, TimedOutError
from streamlet.runtime.catalog import Catalog
from streamlet.testing.coordinator import FakeCoordinator
from streamlet.testing.simulation.counting import GROUP, input_of
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember


@attrs.frozen
class SimPositions:
    """Committed positions, as a client of its own reads them."""

    coordinator: FakeCoordinator

    def fetch_committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, Committed]:
        """Committed positions as they are now."""
        return self.coordinator.offsets.fetch(OffsetFetch(GROUP, tuple(partitions))).committed


class SimCatalog(Catalog):
    """The topics and tasks there are; a scenario says when there are more."""

    def inputs_of(self, task: TaskId) -> tuple[TopicPartition, ...]:
        """The one input of a task."""
        return (input_of(task),)

    def look(self, now_ms: int, *, at_once: bool = False) -> bool:
        """False: nothing has changed by itself."""
        return False


class SimThread:
    """The thread that asks brokers, in place of an executor: answers take time, or are lost."""

    def __init__(self, member: SimMember) -> None:
        self._member = member

    def submit(self, job: Callable[..., Any], *args: object) -> Future[Any]:
        """Do it once a broker has answered."""
        future: Future[Any] = Future()
        member, network = self._member, self._member.world.network
        lost = network.loses(member, OffsetFetch(GROUP, ()))

        def answer() -> None:
            if lost:
                future.set_exception(TimedOutError("no answer"))
                return
            try:
                future.set_result(job(*args))
            except StreamletError as error:
                future.set_exception(error)

        member.later(network.round_trip(), answer)
        return future

    def shutdown(self, **_: object) -> None:
        """End nothing."""
