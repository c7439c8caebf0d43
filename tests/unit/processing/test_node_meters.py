"""The records and the time of a task's nodes, as a worker counts them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from streamlet.batch import Batch, OperatorFailed
from streamlet.processing.node_meters import EVERY, SMALL, NodeMeter
from tests.unit.processing.test_task import each, graph, raw, sink, task, upper


def records(size: int) -> Batch:
    return Batch("in", 0, range(size), [None] * size, [None] * size, [0] * size)


def test_each_node_counts_its_records_and_its_time_once_a_worker_says_so() -> None:
    one = task(graph(each("upper", ("source",), upper), sink("upper")))
    meter = one.meters.nodes["upper"]
    one.process(raw("a", "b"))
    assert (meter.records, meter.ns) == (0, 0), "drivers and Spark count nothing"
    one.meters.begin(count(0, 5).__next__)
    one.process(raw(*"abcdefghij", first=2))
    assert (meter.records, meter.ns) == (10, 5)


def test_of_small_batches_every_sixteenth_is_timed_for_all() -> None:
    one = task(graph(each("upper", ("source",), upper), sink("upper")))
    one.meters.begin(count(0, 5).__next__)
    for first in range(3 * EVERY):
        one.process(raw("a", first=first))
    meter = one.meters.nodes["upper"]
    assert (meter.records, meter.ns) == (3 * EVERY, 3 * EVERY * 5)


def test_the_time_of_an_operator_that_fails_counts() -> None:
    meter = NodeMeter(count(0, 7).__next__)

    def fails(batch: Batch) -> Batch:
        raise OperatorFailed(0, batch.slice(0, 0))

    with pytest.raises(OperatorFailed):
        meter.whole(fails)(records(SMALL))
    assert (meter.records, meter.ns) == (SMALL, 7)


def test_what_goes_on_between_two_parts_is_not_the_operators_time() -> None:
    ticks = count(0, 3)
    meter = NodeMeter(ticks.__next__)

    def parts(batch: Batch) -> Iterator[Batch | None]:
        yield batch
        yield None

    for _ in meter.in_parts(parts)(records(2)):
        for _ in range(100):
            next(ticks)
    assert (meter.records, meter.ns) == (2, 9)
