"""Ranges that the tasks of a stage read themselves, and outputs that they write themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from streamlet.errors import StateError
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.spark.kafka.ranges import Range
from streamlet.spark.rows.packing import Sender, handed_on
from streamlet.spark.state.run import Runner
from streamlet.types import TaskId, TopicPartition
from tests.unit.spark.test_stages import (
    SMALL,
    KeptInMemory,
    counting,
    joining,
    planned,
    raw_rows,
    taken,
    text,
)

pytest.importorskip("numpy")


def test_ranges_are_read_by_the_task_that_processes_them() -> None:
    """Beside packed rows, with the result that packed rows alone have."""
    laid_out = planned(joining, orders=1, customers=1)
    logs = {
        "customers": text("customers", 0, ("a", "Ann", 1), ("b", "Bob", 5), ("a", "Eve", 7)),
        "orders": text("orders", 3, ("a", "1", 2), ("b", "2", 3), ("a", "3", 8), ("b", "4", 9)),
    }

    def read(ranges: Sequence[Range]) -> Iterator[PartitionBatch]:
        found = [logs[one.where.topic] for one in ranges]
        for _ in range(2):  # by turns, as a client reads several partitions
            yield from (log.slice(0, 1) for log in found)
            found = [log.slice(1, len(log)) for log in found]
        yield from found

    packed = [raw_rows(laid_out, log) for log in logs.values()]
    named = [
        [handed_on(laid_out, Range(TopicPartition(topic, 0), log.offsets[0], log.offsets[-1] + 1))]
        for topic, log in logs.items()
    ]
    wanted = taken(
        Runner(laid_out, SMALL).run(TaskId(0, 0), packed[0] + packed[1], KeptInMemory(), 0)
    )
    assert [value for _, value in wanted] == [b"1/Ann", b"3/Eve", b"4/Bob"]
    for rows in (named[0] + named[1], packed[0] + named[1], named[0] + packed[1]):
        kept, runner = KeptInMemory(), Runner(laid_out, SMALL, read=read)
        assert taken(runner.run(TaskId(0, 0), rows, kept, 0)) == wanted
        with pytest.raises(StateError, match="again"):
            taken(Runner(laid_out, SMALL, read=read).run(TaskId(0, 0), rows, kept, 1))


def test_a_range_of_a_partition_that_came_later_ends_the_query() -> None:
    with pytest.raises(StateError, match=r"orders had 1 partition .* now has a partition 1"):
        handed_on(planned(joining, orders=1, customers=1), Range(TopicPartition("orders", 1), 0, 9))


def test_what_leaves_the_query_is_sent_where_stages_write() -> None:
    laid_out, sent = planned(counting, lines=1), list[Output]()
    inside = next(iter(laid_out.inside))
    sender = Sender(laid_out, 0, "0_0", sent.append)
    out = Output("word-counts", [b"a"], [b"1"], [1])
    on = Output(inside, [b"a", b"b"], [b"a", b"b"], [1, 2])
    assert {row.topic for row in sender.rows([out, on], 0)} == {inside}
    assert (sent, sender.records) == ([out], 3)
