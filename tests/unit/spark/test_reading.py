"""A range of a partition is read to its end and no further."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streamlet.errors import BrokerError
from streamlet.kafka.ports import PartitionBatch
from streamlet.spark import ranges
from streamlet.types import TopicPartition

WHERE = TopicPartition("t", 0)


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


def read(log: Log, begin: int, end: int) -> list[int]:
    found = ranges.in_range(log, WHERE, begin, end)
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
