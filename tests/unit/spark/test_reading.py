"""A range of a partition is read to its end and no further."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streamlet.errors import BrokerError
from streamlet.kafka.ports import PartitionBatch
from streamlet.spark.kafka import ranges
from streamlet.types import TopicPartition

WHERE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class Log:
    """A source over one partition: records at these offsets, then holes up to the end."""

    def __init__(self, offsets: Sequence[int], end: int, begin: int) -> None:
        self.offsets, self.end, self.at = offsets, end, begin
        self.asked: list[int] = []

    def poll(self, most: int, timeout_ms: int) -> list[PartitionBatch]:
        self.asked.append(most)
        found = [offset for offset in self.offsets if offset >= self.at][:most]
        if not found:
            self.at = self.end
            return []
        self.at = found[-1] + 1
        size = len(found)
        return [PartitionBatch("t", 0, found, [None] * size, [b""] * size, [1] * size)]

    def positions(self, _: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {WHERE: self.at}

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        assert list(partitions) in ([], [WHERE])


def read(log: Log, begin: int, end: int) -> list[int]:
    found = ranges.in_ranges(log, [ranges.Range(WHERE, begin, end)])
    return [offset for batch in found for offset in batch.offsets]


def test_no_more_is_asked_for_than_there_may_be() -> None:
    log = Log(range(100), 100, begin=10)
    assert read(log, 10, 15) == [10, 11, 12, 13, 14]
    assert log.asked == [5]


def test_what_lies_behind_the_end_is_left_for_the_next_batch() -> None:
    log = Log([3, 4, 8, 9, 20], 30, begin=3)
    assert read(log, 3, 9) == [3, 4, 8]


def test_holes_at_the_end_are_passed() -> None:
    assert read(Log([3, 4], 30, begin=3), 3, 30) == [3, 4]
    assert read(Log([], 30, begin=3), 3, 30) == []


def test_a_partition_that_gives_nothing_is_given_up_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranges, "_EMPTY_POLLS", 3)
    log = Log([], 0, begin=3)
    with pytest.raises(BrokerError, match=r"t-0 .*gives no records.* before 9"):
        read(log, 3, 9)


class Two:
    """Two partitions of which a poll gives a record of the first that is assigned."""

    def __init__(self, begins: dict[TopicPartition, int]) -> None:
        self.at = begins
        self.asked: list[int] = []

    def poll(self, most: int, timeout_ms: int) -> list[PartitionBatch]:
        self.asked.append(most)
        where = min(self.at, key=lambda where: where.partition)
        offset = self.at[where]
        self.at[where] += 1
        return [PartitionBatch("t", where.partition, [offset], [None], [b""], [1])]

    def positions(self, of: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {where: self.at[where] for where in of}

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        for where in partitions:
            del self.at[where]


def test_each_of_several_partitions_is_read_to_its_own_end() -> None:
    log = Two({WHERE: 5, OTHER: 7})
    wanted = [ranges.Range(WHERE, 5, 7), ranges.Range(OTHER, 7, 8)]
    found = [(one.partition, one.offsets[0]) for one in ranges.in_ranges(log, wanted)]
    assert found == [(0, 5), (0, 6), (1, 7)]
    assert log.asked == [3, 2, 1]
    assert log.at == {}


def test_few_records_have_few_tasks_and_many_a_task_for_each_partition() -> None:
    few = [ranges.Range(TopicPartition("t", p), 0, 1_000) for p in range(4)]
    assert ranges.shared_out(few) == [tuple(few)]
    some = [ranges.Range(TopicPartition("t", p), 0, 2_000) for p in range(4)]
    assert ranges.shared_out(some) == [(some[0], some[2]), (some[1], some[3])]
    many = [ranges.Range(TopicPartition("t", p), 0, 10_000) for p in range(4)]
    assert ranges.shared_out(many) == [(one,) for one in many]
    assert ranges.shared_out([]) == []
