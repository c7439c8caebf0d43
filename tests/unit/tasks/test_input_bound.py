"""What waits of an input partition is bounded by its number and by its memory."""

from __future__ import annotations

import pytest

from streamlet.tasks.input_bound import InputBound


@pytest.mark.parametrize(
    ("record_bytes", "partitions", "most"),
    [
        (100, 4, 1_000),  # the number decides
        (10_000, 4, 25),  # the share of a partition
        (10_000, 1, 100),
        (2_000_000, 4, 1),  # one record is more than all there is for it
    ],
)
def test_large_records_wait_in_smaller_numbers(
    record_bytes: int, partitions: int, most: int
) -> None:
    bound = InputBound(1_000, 1_000_000)
    bound.read("words", record_bytes)
    assert bound.most("words", partitions) == most
    assert bound.bytes_of("words", 3) == 3 * record_bytes


def test_a_topic_that_was_not_read_yet_is_bounded_by_number() -> None:
    bound = InputBound(1_000, 1)
    assert bound.most("words", 4) == 1_000
    assert bound.bytes_of("words", 3) == 0
