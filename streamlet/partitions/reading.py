"""Positions and reading of a plain consumer; one source, used by one thread.

A partition is *owned* from the assignment on, and *read* from when its position is known. Records
that were read ahead count for nothing until they are handed out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from streamlet.absent import explains_misuse
from streamlet.errors import PartitionsLostError
from streamlet.kafka.ports import Headers, PartitionBatch, RecordSource
from streamlet.types import TopicPartition


@explains_misuse
class ConsumerRecord(NamedTuple):
    """One record; ``timestamp`` is ms since the epoch, ``headers`` are pairs in order."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


class Reading:
    """Positions and the records between the client and the caller."""

    def __init__(self, source: RecordSource) -> None:
        self._source = source
        self.owned: set[TopicPartition] = set()
        #: Owned partitions whose position is not known yet.
        self.unplaced: set[TopicPartition] = set()
        #: Of each partition being read, the offset behind the last record that was handed out.
        self.positions: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        #: Positions before the last hand-out; the records since may still be in work.
        self._before: dict[TopicPartition, int] = {}
        self._ahead: deque[ConsumerRecord] = deque()

    # -- records -------------------------------------------------------------------------------

    def take(self, max_records: int, wait_ms: int) -> list[ConsumerRecord]:
        """Records that were read ahead, else newly polled ones."""
        if self._ahead:
            return [self._ahead.popleft() for _ in range(min(max_records, len(self._ahead)))]
        batches = self._source.poll(max_records, max(wait_ms, 0))
        return [record for batch in batches for record in _records(batch)]

    def read_ahead(self, max_records: int, wait_ms: int) -> None:
        """Read for ``next_ahead``, unless there is something left."""
        if not self._ahead:
            self._ahead.extend(self.take(max_records, wait_ms))

    def next_ahead(self) -> ConsumerRecord | None:
        """The first of the records read ahead."""
        return self._ahead.popleft() if self._ahead else None

    def hand_out(self, records: Sequence[ConsumerRecord]) -> None:
        """Give records to the user; those handed out before are done with."""
        ends = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in records}
        self._before = {tp: self.positions[tp] for tp in ends}
        self.positions.update(ends)

    def take_back(self) -> None:
        """Return to the positions before the last records, whose processing may have failed."""
        self.positions.update(self._before)

    # -- partitions ----------------------------------------------------------------------------

    def own(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin to read partitions that were assigned."""
        new = set(partitions) - self.owned
        self.owned |= new
        self.unplaced |= new

    def begin(
        self, starts: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]
    ) -> None:
        """Read these from their offsets; those in ``committed`` need not be committed again."""
        self._source.assign(starts)
        self.unplaced -= starts.keys()
        self.positions.update(starts)
        self.committed.update(committed)

    def stop(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Stop handing out records of these partitions; returns those that were read."""
        gone = frozenset(partitions)
        self._source.unassign(sorted(gone))
        self._drop_ahead(gone)
        return sorted(tp for tp in gone if tp in self.positions)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that were given up and are stopped already."""
        gone = set(partitions)
        self.owned -= gone
        self.unplaced -= gone
        self.paused -= gone
        for partition in gone:
            self.positions.pop(partition, None)
            self.committed.pop(partition, None)
            self._before.pop(partition, None)

    def mine(self, partition: tuple[str, int]) -> TopicPartition:
        """The partition, if it is being read.

        Raises:
            PartitionsLostError: it is not.
        """
        found = TopicPartition(*partition)
        if found not in self.positions:
            raise PartitionsLostError(f"{found} is not assigned to this consumer")
        return found

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at an offset."""
        self._drop_ahead(frozenset({partition}))
        self._before.pop(partition, None)
        self.positions[partition] = offset
        if partition not in self.paused:
            self._source.assign({partition: offset})

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these.

        They are unassigned in the client, so that nothing it has fetched already gets through.
        """
        self.paused.update(self.stop(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume reading these partitions where they were paused."""
        back = [tp for tp in partitions if tp in self.paused]
        self._source.assign({tp: self.positions[tp] for tp in back})
        self.paused.difference_update(back)

    def uncommitted(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Positions of these that no accepted commit has."""
        return {
            tp: self.positions[tp]
            for tp in partitions
            if self.positions[tp] != self.committed.get(tp)
        }

    def note_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """A commit was accepted."""
        self.committed.update((tp, o) for tp, o in offsets.items() if tp in self.positions)

    def _drop_ahead(self, gone: frozenset[TopicPartition]) -> None:
        self._ahead = deque(r for r in self._ahead if (r.topic, r.partition) not in gone)


def _records(batch: PartitionBatch) -> Iterable[ConsumerRecord]:
    headers = repeat(None) if batch.headers is None else batch.headers
    return map(
        ConsumerRecord,
        repeat(batch.topic),
        repeat(batch.partition),
        batch.offsets,
        batch.keys,
        batch.values,
        batch.timestamps,
        (found or () for found in headers),
    )
