"""Partitions are read to their ends and no further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import pytest

from streamlet.clock import ManualClock
from streamlet.errors import OutOfRangeError, TimedOutError
from streamlet.kafka.ports import PartitionBatch
from streamlet.kafka.reading import read_until
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySource
from streamlet.types import TopicPartition

WHERE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


@attrs.define
class Log:
    """A source over one partition: records at these offsets, then holes up to the end."""

    offsets: Sequence[int]
    end: int
    clock: ManualClock = attrs.field(factory=ManualClock)
    at: int = 0
    takes_ms: int = 0
    asked: list[int] = attrs.field(factory=list)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self.at = positions.get(WHERE, self.at)

    def poll(self, most: int, timeout_ms: int) -> list[PartitionBatch]:
        self.asked.append(most)
        self.clock.advance(timeout_ms + self.takes_ms)
        found = [offset for offset in self.offsets if offset >= self.at][:most]
        if not found:
            self.at = max(self.at, self.end)
            return []
        self.at = found[-1] + 1
        return [batch(WHERE, found)]

    def positions(self, _: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {WHERE: self.at}

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        assert list(partitions) in ([], [WHERE])


def batch(where: TopicPartition, offsets: list[int]) -> PartitionBatch:
    size = len(offsets)
    return PartitionBatch(
        where.topic, where.partition, offsets, [None] * size, [b""] * size, [1] * size
    )


def read(log: Log, begin: int, end: int, **how: int) -> list[int]:
    found = read_until(log, {WHERE: end}, begins={WHERE: begin}, clock=log.clock, **how)
    return [offset for batch in found for offset in batch.offsets]


def test_no_more_is_asked_for_than_there_may_be() -> None:
    log = Log(range(100), 100)
    assert read(log, 10, 15) == [10, 11, 12, 13, 14]
    assert log.asked == [5]


def test_what_lies_behind_the_end_is_left_out() -> None:
    assert read(Log([3, 4, 8, 9, 20], 30), 3, 9) == [3, 4, 8]


def test_a_caller_that_reads_on_is_given_what_lies_behind_the_end() -> None:
    assert read(Log([3, 4, 8, 9, 20], 30), 3, 9, reads_on=True) == [3, 4, 8, 9, 20]


def test_holes_at_the_end_are_passed() -> None:
    assert read(Log([3, 4], 30), 3, 30) == [3, 4]
    assert read(Log([], 30), 3, 30) == []


def test_a_partition_that_gives_nothing_is_given_up_by_name() -> None:
    log = Log([], 0)
    with pytest.raises(
        TimedOutError, match=r"no record came for 30 s; left are t-0 up to offset 9"
    ):
        read(log, 3, 9)


def test_time_counts_from_the_last_record_on() -> None:
    log = Log(range(5), 0, takes_ms=20_000)
    assert read(log, 0, 5, most=1) == [0, 1, 2, 3, 4]


@attrs.define
class Two:
    """Two partitions of which a poll gives a record of the first that is assigned."""

    at: dict[TopicPartition, int] = attrs.field(factory=dict)
    asked: list[int] = attrs.field(factory=list)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self.at.update(positions)

    def poll(self, most: int, timeout_ms: int) -> list[PartitionBatch]:
        self.asked.append(most)
        where = min(self.at, key=lambda where: where.partition)
        offset = self.at[where]
        self.at[where] += 1
        return [batch(where, [offset])]

    def positions(self, of: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {where: self.at[where] for where in of}

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        for where in partitions:
            del self.at[where]


def test_each_of_several_partitions_is_read_to_its_own_end_and_given_back() -> None:
    log = Two()
    found = read_until(log, {WHERE: 7, OTHER: 8}, begins={WHERE: 5, OTHER: 7}, clock=ManualClock())
    assert [(one.partition, one.offsets[0]) for one in found] == [(0, 5), (0, 6), (1, 7)]
    assert log.asked == [3, 2, 1]
    assert log.at == {}


def test_a_reader_that_is_closed_half_way_gives_its_partitions_back() -> None:
    log = Two()
    found = read_until(log, {WHERE: 7}, begins={WHERE: 5}, clock=ManualClock())
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert log.at == {}


def test_records_that_were_deleted_meanwhile_are_passed_where_an_admin_knows_the_start() -> None:
    log = MemoryLog()
    log.create("t")
    log.append(WHERE, [b"k"] * 5, [b"v"] * 5)
    log.raise_start(WHERE, 3)
    how = {"begins": {WHERE: 0}, "clock": ManualClock()}
    with pytest.raises(OutOfRangeError):
        list(read_until(MemorySource(log), {WHERE: 5}, **how))
    (found,) = read_until(MemorySource(log), {WHERE: 5}, admin=MemoryAdmin(log), **how)
    assert list(found.offsets) == [3, 4]
