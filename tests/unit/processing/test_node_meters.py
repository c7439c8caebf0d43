"""The records and the time of a task's nodes, as a worker counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

import streamlet as sl
from streamlet.batch import Batch, OperatorFailed
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.node_meters import EVERY, SMALL, NodeMeter
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.state.task_state import TaskState
from streamlet.types import TaskId, TopicPartition
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


def joined(app: sl.App) -> None:
    """Its operators get the records of merged batches twice."""
    left, right = (app.stream(topic, key=str, value=str) for topic in ("a", "b"))
    window = sl.join_windows("1 m", grace="1 m")
    left.left_join(right, lambda one, other: f"{one}{other}", within=window, value=str).to("out")


def gathered(app: sl.App) -> None:
    """Its operator gets records of two partitions together."""
    both = app.stream(["a", "b"], key=str, value=str)
    both.map_batches(lambda batch: batch.values, max_records=8, max_wait="1 h", value=str).to("out")


def called(app: sl.App) -> None:
    """Its operator makes calls, whose results come later."""

    async def same(value: str) -> str:
        return value

    app.stream(["a", "b"], key=str, value=str).map_values_async(same, value=str).to("out")


@pytest.mark.parametrize(
    ("build", "expected"),
    [(joined, {"WINDOWED": 8, "OUTEROTHER": 4, "JOINTHIS": 4}), (gathered, {}), (called, {})],
)
def test_each_record_counts_once_however_it_is_taken(
    build: Callable[[sl.App], None], expected: dict[str, int]
) -> None:
    app = sl.App("app")
    build(app)
    part = app.topology().subtopology(0)
    state = TaskState(None, part.stores, 1 << 20)
    inputs = {TopicPartition(topic, 0): 0 for topic in ("a", "b")}
    policy = ErrorPolicy.of("fail")
    one = Task(TaskId(0, 0), part, state, inputs, policy=policy, in_parts=True)
    one.meters.begin(count().__next__)
    keys: list[bytes | None] = [b"1", b"2", b"3", b"4"]
    for topic in ("a", "b"):
        batch = PartitionBatch(topic, 0, range(4), list(keys), list(keys), [0, 10, 20, 30])
        one.process(batch, known_end=lambda _: 4)
    found: dict[str, int] = {}
    for name, meter in one.meters.nodes.items():
        kind = name.split("-")[1]
        found[kind] = found.get(kind, 0) + meter.records
    one.close()
    if not expected:
        assert list(found.values()) == [8]
    assert {kind: found[kind] for kind in expected} == expected
