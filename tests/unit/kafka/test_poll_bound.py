"""Polls are cut where their headers hold too much, and pieces of a poll are put together."""

from __future__ import annotations

from itertools import pairwise

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.kafka.poll_bound import HEADER_BYTES, HELD_BYTES, Polled, PollSize, joined
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.types import TopicPartition

#: Of a record that takes half of what one poll may hold.
HALF: Headers = [("h", b"x" * (HELD_BYTES // 2 - HEADER_BYTES - 1))]
#: Of one that takes more than all.
TOO_MUCH: Headers = [("a", b"x" * HELD_BYTES), ("b", None)]


def batch(first: int, headers: list[Headers | None] | None, partition: int = 0) -> PartitionBatch:
    count = 3 if headers is None else len(headers)
    values: list[bytes | None] = [b"%d" % number for number in range(count)]
    return PartitionBatch(
        "t", partition, range(first, first + count), [None] * count, values, [7] * count, headers
    )


@pytest.mark.parametrize(
    ("headers", "taken"),
    [
        (None, 3),
        ([None, HALF, HALF, None], 4),
        ([HALF, HALF, None, [("a", None)], None], 3),
        ([None, TOO_MUCH, None, HALF], 3),
        ([HALF, TOO_MUCH], 1),
    ],
)
def test_a_poll_takes_the_records_whose_headers_fit_and_one_at_least(
    headers: list[Headers | None] | None, taken: int
) -> None:
    polled, whole, behind = Polled(), batch(10, headers), batch(20, None, partition=1)
    polled.take(whole)
    polled.take(behind)
    if taken == len(whole):
        assert (polled.batches, polled.rest) == ([whole, behind], {})
    else:
        assert polled.batches == [whole.slice(0, taken)]
        rest = {TopicPartition("t", 0): 10 + taken, TopicPartition("t", 1): 20}
        assert polled.rest == rest
        polled.take(batch(13, None))
        assert polled.rest == rest, "the first that does not fit counts"


def test_polls_become_small_behind_a_rest_and_large_again_while_headers_leave_room() -> None:
    size, one = PollSize(), batch(0, None)
    assert size.of(10_000) == 10_000
    size.adapt(Polled([one, one], rest={TopicPartition("t", 0): 9}))
    assert size.of(10_000) == 3
    size.adapt(Polled([one], held=HELD_BYTES // 2))
    assert size.of(10_000) == 3, "twice as much would not fit"
    polls = 0
    while size.of(10_000) < 10_000:
        size.adapt(Polled([one], held=100))
        polls += 1
    assert 10 < polls < 200
    size.adapt(Polled([], rest={TopicPartition("t", 0): 9}))
    assert size.of(10_000) == 1


HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)))


@given(st.lists(HEADERS, min_size=1, max_size=12), st.sets(st.integers(1, 11)), st.integers(1, 2))
def test_the_pieces_of_a_poll_make_the_batch_of_the_whole(
    headers: list[Headers | None], cuts: set[int], step: int
) -> None:
    whole, other = batch(5, headers), batch(0, None, partition=1)
    if step == 2:
        offsets = list(range(5, 5 + 2 * len(headers), 2))
        whole = attrs.evolve(whole, offsets=offsets, unreadable={5: "bad"})
    ends = [0, *sorted(cut for cut in cuts if cut < len(headers)), len(headers)]
    pieces = [whole.slice(start, stop) for start, stop in pairwise(ends)]
    pieces.insert(1, other)
    (found, same) = joined(pieces)
    assert same == other
    assert found == whole
    if step == 1:
        assert isinstance(found.offsets, range)
