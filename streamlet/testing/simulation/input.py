"""The clients of simulated workers.

Inputs are endless, read a few records at a time, deleted once committed. A step brings input for a
while (``World``), since a long wait would cost much otherwise. Each input is a topic between two
subtopologies: a worker has records deleted that were committed, and so do others
(``World.committed``), though a member that is late may still be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlet.errors import OutOfRangeError, UndeliveredError, UnreachableError
from streamlet.kafka.ports import PartitionBatch
from streamlet.testing.assigned import AssignedPartitions
from streamlet.testing.memory_ports import MemorySink
from streamlet.types import TopicPartition

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember
    from streamlet.testing.simulation.world import World


class SimSource(AssignedPartitions):
    """The consumer of a worker: a poll brings a few records of each input."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def known_end(self, partition: TopicPartition) -> int | None:
        """None: an input does not end."""
        return None

    def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
        """The next records of each input, at once.

        Raises:
            OutOfRangeError: the next record of one was deleted.
        """
        if self._world.now_ms > self._world.input_until_ms:
            return []
        start = self._world.cluster.log.start
        batches: list[PartitionBatch] = []
        for tp, at in self._positions.items():
            if tp in self._paused:
                continue
            if at < start(tp):
                if batches:
                    break  # raised by the next poll: what was read must not be lost to it
                raise OutOfRangeError(f"reading {tp}: {at} is out of range", tp)
            n = self._world.records_there()
            nulls: list[bytes | None] = [None] * n
            batches.append(
                PartitionBatch(tp.topic, tp.partition, range(at, at + n), nulls, nulls, [0] * n)
            )
        for batch in batches:  # in the order of their next turn
            tp = TopicPartition(batch.topic, batch.partition)
            self._positions[tp] = self._positions.pop(tp) + len(batch)
        return batches


class SimSink(MemorySink):
    """The producer of a worker: what a broker refuses comes later, or is given up."""

    def __init__(self, member: SimMember) -> None:
        super().__init__(member.world.cluster.log, hold=True)
        self._member = member

    def flush(self, timeout_ms: int) -> None:
        """Deliver everything, unless a broker refuses.

        Raises:
            UnreachableError: it does not answer, though it took them: copies may have read them.
            UndeliveredError: it did not take them for so long that they are given up.
        """
        network, protocol = self._member.world.network, self._member.world.protocol
        if not network.refuses():
            self.deliver()
        elif network.gives_up():
            self.reset()
            protocol.gave_up(self._member)
            raise UndeliveredError("records were not delivered in time")
        else:
            self.deliver()
            raise UnreachableError("the broker takes no records")
