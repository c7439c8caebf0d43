"""Brokers and topology, as a simulated worker's activation knows them.

An answer of a broker takes as long as the network is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.coordinator.commit_texts import TextRules
from streamlet.coordinator.messages import Committed, OffsetFetch
from streamlet.errors import StreamletError, TimedOutError
from streamlet.kafka.limits import NO_LIMITS
from streamlet.processing.edges.agreement import Agreement
from streamlet.processing.edges.undecided import Undecided
from streamlet.processing.edges.writer_keys import WriterKeys
from streamlet.testing.simulation.cluster import GROUP, input_of, task_of
from streamlet.testing.simulation.ports import SimSubtopology
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember
    from streamlet.testing.simulation.world import World

#: An input that never ends.
ENDLESS = 1 << 40


class SimTopology:
    """The topology: each task counts its one input, those with state in one store."""

    application = "simulated"
    patterns = subtopologies = ()

    def __init__(self, world: World) -> None:
        self._world = world
        self._parts: dict[int, SimSubtopology] = {}

    @property
    def repartition_topics(self) -> set[str]:
        """All inputs: workers have records deleted that were committed."""
        return {input_of(task).topic for task in self._world.cluster.specs}

    def subtopology(self, number: int) -> SimSubtopology:
        """The part of this number."""
        if number not in self._parts:
            specs = self._world.cluster.specs.values()
            stateful = any(one.stateful for one in specs if one.task.subtopology == number)
            self._parts[number] = SimSubtopology(number, stateful)
        return self._parts[number]


class SimBroker:
    """Committed positions and the ends of logs, as a client of its own reads them."""

    def __init__(self, member: SimMember) -> None:
        self._member = member

    def fetch_committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, Committed]:
        """Committed positions as they are now."""
        request = OffsetFetch(GROUP, tuple(partitions))
        return self._member.world.coordinator.offsets.fetch(request).committed

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offsets: of inputs behind what was deleted."""
        starts = self._member.world.cluster.input_starts
        return {tp: starts.get(tp, 0) for tp in partitions}

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete records of inputs."""
        self._member.world.cluster.delete_input(before)

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends: of inputs there is none."""
        logs, now = self._member.world.cluster.logs, self._member.world.now_ms
        return {
            tp: logs[task_of(tp)].end_at(now) if tp.topic.startswith("log-") else ENDLESS
            for tp in partitions
        }

    def readable_ends(
        self, partitions: Sequence[TopicPartition], *, read_committed: bool | None = None
    ) -> dict[TopicPartition, int]:
        """The ends: the simulated members write no transactions."""
        return self.end_offsets(partitions)

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """No ids: the simulated brokers know none."""
        return {}


class SimCatalog:
    """The topics and tasks there are; a scenario says when there are more."""

    doubted = False
    limits = NO_LIMITS
    reported_inputs = None

    def __init__(self, world: World) -> None:
        self.topology = SimTopology(world)
        self.texts = TextRules()
        self.counts: dict[str, int] = {}
        self.topic_ids: dict[str, str] = {}

    def inputs_of(self, task: TaskId) -> tuple[TopicPartition, ...]:
        """The one input of a task."""
        return (input_of(task),)

    def came_later(self, partition: TopicPartition) -> bool:
        """False: an input begins at its first record anyway."""
        return False

    def was_remade(self, partition: TopicPartition) -> bool:
        """False: none is made again."""
        return False

    def check_named(self, topics: Collection[str]) -> None:
        """Miss none of them."""

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


@attrs.frozen
class SimEdges:
    """The edges between tasks in a simulation, where no topic carries prefixes."""

    agreement: Agreement = attrs.field(factory=Agreement)
    keys: WriterKeys = attrs.field(factory=WriterKeys)
    undecided: Undecided = attrs.field(factory=Undecided)

    def pruned(self, *_: object) -> dict[TopicPartition, Any]:
        """The notes that a task begins with."""
        return {}

    def of_task(self, *_: object) -> None:
        """The edges of a task."""
