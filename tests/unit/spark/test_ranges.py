"""How far a micro-batch reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamlet.spark.kafka.ranges import Range, capped, shared_out
from streamlet.types import TopicPartition

OFFSETS = st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 1_000)), min_size=1, max_size=6)


@given(OFFSETS, st.integers(1, 500))
def test_a_batch_reads_about_what_it_may_and_gets_on_everywhere(
    partitions: list[tuple[int, int]], most: int
) -> None:
    start = {"t": {str(p): at for p, (at, _) in enumerate(partitions)}}
    end = {"t": {str(p): at + left for p, (at, left) in enumerate(partitions)}}
    found = capped(start, end, most)
    reads = [found["t"][p] - start["t"][p] for p in start["t"]]
    lefts = [left for _, left in partitions]
    assert all(0 <= read <= left for read, left in zip(reads, lefts, strict=True))
    assert all(read > 0 for read, left in zip(reads, lefts, strict=True) if left)
    assert sum(reads) <= most + len(partitions)
    assert sum(reads) >= min(most, sum(lefts))


def test_a_topic_that_was_made_anew_is_not_read_backwards() -> None:
    assert capped({"t": {"0": 10}}, {"t": {"0": 3}}, None) == {"t": {"0": 10}}


def test_without_a_limit_everything_is_read() -> None:
    assert capped({"t": {"0": 1}}, {"t": {"0": 9}}, None) == {"t": {"0": 9}}


def test_few_records_have_few_tasks_and_many_a_task_for_each_partition() -> None:
    few = [Range(TopicPartition("t", p), 0, 1_000) for p in range(4)]
    assert shared_out(few) == [tuple(few)]
    some = [Range(TopicPartition("t", p), 0, 2_000) for p in range(4)]
    assert shared_out(some) == [(some[0], some[2]), (some[1], some[3])]
    many = [Range(TopicPartition("t", p), 0, 10_000) for p in range(4)]
    assert shared_out(many) == [(one,) for one in many]
    assert shared_out([]) == []
