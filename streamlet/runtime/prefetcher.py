"""Input of tasks that are about to be ours, fetched before it is known where they begin.

A task that is handed over begins at the offsets of its mark. Fetching only from then on would cost
a round trip to the broker, and the fetch under way before it, while no member runs the task. So
from the first look at its committed positions, when the mark is still to come, its input is read
from there; the mark then says which of these records count. A purge may delete what was just begun
to be read: then the task begins the usual way (``give_up``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

import attrs

from streamlet.kafka.ports import PartitionBatch, RecordSource
from streamlet.types import TaskId, TopicPartition

#: Records of one partition that may wait; what is behind them is fetched when the task runs.
MOST_RECORDS = 10_000


@attrs.define
class _Fetched:
    """One partition: what was read, without a hole, from ``start`` to before ``end``."""

    task: TaskId
    start: int
    end: int
    batches: list[PartitionBatch] = attrs.field(factory=list)
    paused: bool = False

    @property
    def records(self) -> int:
        return sum(map(len, self.batches))

    def forget_below(self, offset: int) -> None:
        """Keep what is at or behind an offset that was read."""
        self.batches = [cut for batch in self.batches if len(cut := from_offset(batch, offset))]
        self.start = offset


class Prefetcher:
    """Reads the input of tasks before they are ours, and keeps it by task.

    Args:
        source: the worker's consumer.
    """

    def __init__(self, source: RecordSource) -> None:
        self._source = source
        self._fetched: dict[TopicPartition, _Fetched] = {}

    def read(self, task: TaskId, committed: Mapping[TopicPartition, int]) -> None:
        """Read this task's input from these offsets, or drop what is below them; -1 is unknown.

        Raises:
            BrokerError: the client refused.
        """
        if any(offset < 0 for offset in committed.values()):
            return
        new = {tp: offset for tp, offset in committed.items() if tp not in self._fetched}
        if new:
            self._fetched |= {tp: _Fetched(task, at, at) for tp, at in new.items()}
            self._source.assign(new)
        for tp in committed.keys() - new.keys():
            one = self._fetched[tp]
            if one.start < committed[tp] <= one.end:
                one.forget_below(committed[tp])
        self._bound(committed)

    def take(self, batch: PartitionBatch) -> bool:
        """Keep a batch; False if it is not of a partition that is read ahead."""
        tp = TopicPartition(batch.topic, batch.partition)
        one = self._fetched.get(tp)
        if one is None:
            return False
        one.batches.append(batch)
        one.end = batch.offsets[-1] + 1
        self._bound((tp,))
        return True

    def give(
        self, task: TaskId, positions: Mapping[TopicPartition, int]
    ) -> list[PartitionBatch] | None:
        """The records from these offsets on; the consumer goes on behind them.

        None if that is not what was read: the partitions are not assigned any more.
        """
        mine = {tp: one for tp, one in self._fetched.items() if one.task == task}
        good = mine.keys() == positions.keys() and all(
            one.start <= positions[tp] <= one.end for tp, one in mine.items()
        )
        if not good:
            self._forget(mine)
            return None
        for tp, one in mine.items():
            one.forget_below(positions[tp])
            del self._fetched[tp]
        paused = [tp for tp, one in mine.items() if one.paused]
        if paused:
            self._source.resume(paused)
        return [batch for tp in sorted(mine) for batch in mine[tp].batches]

    def only(self, tasks: Iterable[TaskId]) -> None:
        """Let go of all but these tasks."""
        if self._fetched:
            kept = frozenset(tasks)
            self._forget([tp for tp, one in self._fetched.items() if one.task not in kept])

    def give_up(self, partition: TopicPartition) -> bool:
        """Let go of this partition's task; False if it is not one that is read ahead."""
        one = self._fetched.get(partition)
        if one is None:
            return False
        self._forget([tp for tp, other in self._fetched.items() if other.task == one.task])
        return True

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        gone = list(partitions)
        if gone:
            self._source.unassign(gone)
        for tp in gone:
            del self._fetched[tp]

    def _bound(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause what has enough waiting, resume it when that was dropped."""
        for tp in partitions:
            one = self._fetched[tp]
            full = one.records >= MOST_RECORDS
            if full != one.paused:
                one.paused = full
                (self._source.pause if full else self._source.resume)([tp])


def from_offset(batch: PartitionBatch, offset: int) -> PartitionBatch:
    """The records of a batch at or behind an offset."""
    first = bisect_left(batch.offsets, offset)
    if first == 0:
        return batch
    return attrs.evolve(
        batch,
        offsets=batch.offsets[first:],
        keys=batch.keys[first:],
        values=batch.values[first:],
        timestamps=batch.timestamps[first:],
        headers=None if batch.headers is None else batch.headers[first:],
    )
