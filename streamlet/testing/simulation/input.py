"""The inputs of simulated tasks: endless, read a few records at a time, deleted once committed.

A step brings input for a while (``World``), since a long wait would cost much otherwise. Each input
is a topic between two subtopologies: a worker has records deleted that were committed, and so do
others (``World.committed``), though a member that is late may still be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from streamlet.errors import OutOfRangeError
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.processing.node_meters import NodeMeters
from streamlet.processing.outputs import Output
from streamlet.processing.record_failures import RecordCounters
from streamlet.testing.assigned import AssignedPartitions
from streamlet.types import TaskId, TopicPartition

if TYPE_CHECKING:
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
        starts = self._world.cluster.input_starts
        batches: list[PartitionBatch] = []
        for tp, at in self._positions.items():
            if tp in self._paused:
                continue
            if at < starts.get(tp, 0):
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


class SimSink:
    """The producer of a worker: tasks have no outputs, and changelogs are the delivery's."""

    waited_ms = 0

    def send(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None = None,
        partitions: Sequence[int] | int | None = None,
        headers: Sequence[Headers | None] | None = None,
    ) -> None:
        """Refuse: nothing is written here."""
        raise AssertionError(f"an output to {topic}")

    def has_room(self, *, hurried: bool) -> bool:
        """True: nothing is queued."""
        return True

    def push(self) -> None:
        """Send nothing."""

    def flush(self, timeout_ms: int) -> None:
        """Wait for nothing."""

    def fence(self) -> None:
        """Take nothing back."""

    def reset(self) -> None:
        """Forget nothing."""

    def close(self) -> None:
        """Free nothing."""


@attrs.define(eq=False)
class CountingTask:
    """A processor that counts the records of its one input. ``flushed``: its last number.

    Its state is that count, so it sees each record once, in order, or breaks.
    """

    positions: dict[TopicPartition, int]
    epoch: int
    flushed: int = 0
    counters: RecordCounters = attrs.field(factory=RecordCounters)
    under_way: bool = False
    retrying: bool = False
    calling: bool = False
    pausing: bool = False
    commit_requested: bool = False
    calls: None = None
    edges: None = None
    meters: NodeMeters = attrs.field(factory=NodeMeters)

    @property
    def received(self) -> dict[TopicPartition, int]:
        """Positions to read on from."""
        return self.positions

    def process(self, batch: PartitionBatch, *_: object) -> list[Output]:
        """Count records."""
        tp = TopicPartition(batch.topic, batch.partition)
        expected = self.positions[tp]
        assert batch.offsets[0] == expected, (
            f"{tp}: {batch.offsets[0]} comes in place of {expected}"
        )
        self.positions = {**self.positions, tp: expected + len(batch)}
        self.counters.records += len(batch)
        return []

    def skip_to(self, partition: TopicPartition, offset: int) -> None:
        """Go on at an offset: the one it has reached, or records are left out."""
        expected = self.positions[partition]
        assert offset == expected, f"{partition}: it goes on at {offset} in place of {expected}"

    def waits(self, now_ms: int) -> bool:
        """False: nothing is begun and not ended."""
        return False

    def buffered(self) -> dict[TopicPartition, int]:
        """The records that wait: none."""
        return {}

    def settle(self, *, release: bool = True) -> list[Output]:
        """End nothing."""
        return []

    def close(self) -> None:
        """Close nothing."""


def counting(
    task: TaskId,
    subtopology: object,
    state: object,
    positions: dict[TopicPartition, int],
    epoch: int,
    **_: object,
) -> CountingTask:
    """A processor for the records of an open task, in place of ``processing.task.Task``."""
    return CountingTask(dict(positions), epoch=epoch)
