"""Merging a task's input partitions by timestamp."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.batch import Batch
from streamlet.config import Settings
from streamlet.errors import ConfigError
from streamlet.processing.partition_group import NO_WAIT, PartitionGroup
from streamlet.types import TopicPartition

LEFT, RIGHT = TopicPartition("left", 0), TopicPartition("right", 0)


def records(partition: TopicPartition, times: list[int], first: int = 0) -> Batch:
    offsets = range(first, first + len(times))
    return Batch(partition.topic, partition.partition, offsets, list(times), list(times), times)


def inputs(idle_ms: int = 0) -> PartitionGroup:
    return PartitionGroup({LEFT: 0, RIGHT: 0}, idle_ms)


def taken(
    buffers: PartitionGroup, now_ms: int = 0, ends: dict[TopicPartition, int] | None = None
) -> str:
    """The timestamps that came out, with the partition's initial, e.g. ``l1 r2``."""
    known = (ends or {}).get
    return " ".join(
        f"{run.topic[0]}{time}" for run in buffers.ready(now_ms, known) for time in run.timestamps
    )


def test_records_come_out_in_the_order_of_their_timestamps() -> None:
    buffers = inputs()
    buffers.add(records(LEFT, [1, 4, 5, 9]), 4)
    buffers.add(records(RIGHT, [2, 3, 7]), 3)
    assert taken(buffers, ends={LEFT: 4, RIGHT: 3}) == "l1 r2 r3 l4 l5 r7 l9"


def test_an_empty_partition_with_more_to_come_is_waited_for() -> None:
    buffers = inputs()
    buffers.add(records(LEFT, [1, 4]), 2)
    assert taken(buffers, ends={LEFT: 2, RIGHT: 1}) == ""
    buffers.add(records(RIGHT, [2]), 1)
    assert taken(buffers, ends={LEFT: 2, RIGHT: 1}) == "l1 r2 l4"


def test_a_partition_whose_end_is_not_known_yet_is_waited_for() -> None:
    buffers = inputs()
    buffers.add(records(LEFT, [1]), 1)
    assert taken(buffers, ends={LEFT: 1}) == ""
    assert taken(buffers, ends={LEFT: 1, RIGHT: 0}) == "l1"


def test_a_partition_read_to_its_end_is_waited_for_as_long_as_the_setting_says() -> None:
    buffers, ends = inputs(idle_ms=100), {LEFT: 1, RIGHT: 0}
    buffers.add(records(LEFT, [1]), 1)
    assert taken(buffers, now_ms=1000, ends=ends) == ""
    assert taken(buffers, now_ms=1099, ends=ends) == ""
    assert taken(buffers, now_ms=1100, ends=ends) == "l1"


def test_what_comes_in_the_idle_time_is_taken_in_order() -> None:
    buffers, ends = inputs(idle_ms=100), {LEFT: 1, RIGHT: 0}
    buffers.add(records(LEFT, [5]), 1)
    assert taken(buffers, now_ms=1000, ends=ends) == ""
    buffers.add(records(RIGHT, [3]), 1)
    assert taken(buffers, now_ms=1050, ends={LEFT: 1, RIGHT: 1}) == "r3"
    # Found empty once more, at 1050, it is waited for from then on.
    assert taken(buffers, now_ms=1149, ends={LEFT: 1, RIGHT: 1}) == ""
    assert taken(buffers, now_ms=1150, ends={LEFT: 1, RIGHT: 1}) == "l5"


def test_the_idle_time_begins_when_the_partition_is_found_empty_not_when_others_have_records() -> (
    None
):
    buffers = inputs(idle_ms=100)
    assert taken(buffers, now_ms=1000, ends={LEFT: 0, RIGHT: 0}) == ""
    buffers.add(records(LEFT, [1]), 1)
    assert taken(buffers, now_ms=1100, ends={LEFT: 1, RIGHT: 0}) == "l1"
    # Time that is over stays over until the partition has records.
    buffers.add(records(LEFT, [2], 1), 2)
    assert taken(buffers, now_ms=1101, ends={LEFT: 2, RIGHT: 0}) == "l2"


def test_records_known_to_be_there_are_waited_for_beyond_the_idle_time() -> None:
    buffers = inputs(idle_ms=100)
    buffers.add(records(LEFT, [1]), 1)
    assert taken(buffers, now_ms=1000, ends={LEFT: 1, RIGHT: 0}) == ""
    for now_ms in (1050, 1100, 9000):
        assert taken(buffers, now_ms, ends={LEFT: 1, RIGHT: 5}) == ""
    buffers.skip_to(RIGHT, 5)
    assert taken(buffers, now_ms=9001, ends={LEFT: 1, RIGHT: 5}) == "", "a wait of its own"
    assert taken(buffers, now_ms=9101, ends={LEFT: 1, RIGHT: 5}) == "l1"


def test_nothing_is_waited_for_if_that_is_switched_off() -> None:
    buffers = inputs(idle_ms=NO_WAIT)
    buffers.add(records(LEFT, [1, 4]), 2)
    assert taken(buffers, ends={LEFT: 2, RIGHT: 1}) == "l1 l4"
    buffers.add(records(LEFT, [7], 2), 3)
    buffers.add(records(RIGHT, [2]), 1)
    assert taken(buffers) == "r2 l7", "an end that is not known yet is not waited for, either"
    assert taken(buffers) == ""


def test_records_dropped_while_decoding_count_as_received() -> None:
    """An undecodable last record must not make the other partition wait for ever."""
    buffers = inputs()
    buffers.add(records(LEFT, [1]), 1)
    buffers.add(records(RIGHT, []), 3)
    assert taken(buffers, ends={LEFT: 1, RIGHT: 3}) == "l1"
    assert buffers.received() == {LEFT: 1, RIGHT: 3}


def test_what_waits_is_counted_per_partition() -> None:
    buffers = inputs()
    buffers.add(records(LEFT, [1, 2, 3]), 3)
    assert buffers.buffered() == {LEFT: 3, RIGHT: 0}
    assert buffers.drained() == {RIGHT: 0}


def test_what_the_log_does_not_hold_is_not_waited_for() -> None:
    buffers = inputs()
    buffers.add(records(LEFT, [1, 5]), 2)
    assert taken(buffers, ends={LEFT: 2, RIGHT: 9}) == ""
    buffers.skip_to(RIGHT, 9)
    assert buffers.received() == {LEFT: 2, RIGHT: 9}
    buffers.skip_to(LEFT, 7)
    assert buffers.drained() == {RIGHT: 9}, "what waits comes first"
    assert taken(buffers, ends={LEFT: 7, RIGHT: 9}) == "l1 l5"
    assert buffers.drained() == {LEFT: 7, RIGHT: 9}


@given(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), max_size=5),
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), max_size=5),
)
def test_merging_keeps_each_partition_in_order_and_loses_nothing(
    left: list[list[int]], right: list[list[int]]
) -> None:
    """Heads are compared one by one, as if records were taken singly from two queues."""
    buffers = inputs()
    flat = {LEFT: [t for run in left for t in run], RIGHT: [t for run in right for t in run]}
    for partition, runs in ((LEFT, left), (RIGHT, right)):
        received = 0
        for run in runs:
            received += len(run)
            buffers.add(records(partition, run), received)
    ends = {tp: len(times) for tp, times in flat.items()}
    queues = {"l": list(flat[LEFT]), "r": list(flat[RIGHT])}
    expected = []
    while queues["l"] or queues["r"]:
        side = min((queues[s][0], s) for s in queues if queues[s])[1]
        expected.append(f"{side}{queues[side].pop(0)}")
    assert taken(buffers, ends=ends) == " ".join(expected)


def test_the_setting_takes_minus_one_and_no_other_negative_number() -> None:
    assert Settings.load({"max.task.idle.ms": "-1"}).max_task_idle_ms == NO_WAIT
    with pytest.raises(ConfigError, match="expected at least 0 ms"):
        Settings.load({"max.task.idle.ms": -2})


def test_batches_that_alternate_are_copied_once_and_not_for_each_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[int] = []
    whole = Batch.slice

    def counting(batch: Batch, start: int, stop: int) -> Batch:
        copied.append(stop - start)
        return whole(batch, start, stop)

    monkeypatch.setattr(Batch, "slice", counting)
    buffers = inputs()
    buffers.add(records(LEFT, list(range(0, 2_000, 2))), 1_000)
    buffers.add(records(RIGHT, list(range(1, 2_000, 2))), 1_000)
    assert buffers.buffered() == {LEFT: 1_000, RIGHT: 1_000}
    found = taken(buffers, ends={LEFT: 1_000, RIGHT: 1_000}).split()
    assert [int(one[1:]) for one in found] == list(range(2_000))
    assert sum(copied) == 2_000
    assert buffers.drained() == {LEFT: 1_000, RIGHT: 1_000}
    assert buffers.buffered() == {LEFT: 0, RIGHT: 0}
