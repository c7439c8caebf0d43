"""Partitioners of ``to`` and ``repartition``: one partition, several, none, or the default."""

from __future__ import annotations

from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, TopologyError
from streamlet.kafka.murmur2 import partition_of
from streamlet.testing import TopologyTestDriver

N = 5


def written(partitioner: Any, *records: tuple[str | None, int]) -> list[tuple[Any, int]]:
    """Values and partitions of what a sink writes."""
    app = sl.App("a", on_error="skip")
    app.stream("in", key=str, value=int).to("out", partitioner=partitioner)
    with TopologyTestDriver(app, partitions={"out": N}) as driver:
        driver.pipe_inputs("in", records)
        found = [(one.value, one.partition) for one in driver.read_output("out")]
        nowhere = [value for _, value in records if partitioner(None, value, N) in ([], range(0))]
        assert driver.dropped() == len(nowhere)
    return found


def test_several_partitions_each_get_the_record_in_order() -> None:
    choices = {0: [3, 1], 1: 2, 2: {4, 0}, 3: range(0)}
    found = written(
        lambda _key, value, _count: choices[value],
        *((None, value) for value in (0, 1, 2, 3, 0)),
    )
    assert found == [(0, 3), (0, 1), (1, 2), (2, 0), (2, 4), (0, 3), (0, 1)]


def test_none_leaves_it_to_the_key() -> None:
    keys = [f"key-{number}" for number in range(9)]
    records = [(key, number) for number, key in enumerate(keys)]
    found = written(lambda _key, value, count: None if value % 2 else count - 1, *records)
    assert found == [
        (number, partition_of(key.encode(), N) if number % 2 else N - 1) for key, number in records
    ]


def test_records_that_all_go_nowhere_leave_nothing() -> None:
    assert written(lambda _key, _value, _count: [], ("a", 1), ("b", 2)) == []


@pytest.mark.parametrize("wrong", [N, -1, True, "1", 1.0, [0, N], [None]])
def test_what_is_no_partition_fails_its_record_alone(wrong: Any) -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=int).to(
        "out", partitioner=lambda _key, value, _count: wrong if value == 2 else 0
    )
    with (
        TopologyTestDriver(app, partitions={"out": N}) as driver,
        pytest.raises(ProcessingError, match="expected a partition, an int from 0 to 4"),
    ):
        driver.pipe_inputs("in", [("a", 1), ("a", 2)])


def test_a_repartition_goes_by_its_partitioner() -> None:
    app = sl.App("a")
    numbers = app.stream("in", key=str, value=int)
    spread = numbers.repartition(
        name="spread", partitioner=lambda _key, value, count: value % count
    )
    spread.group_by_key().count(store="n")
    with TopologyTestDriver(app, partitions={"in": 3}) as driver:
        driver.pipe_inputs("in", [("a", 0), ("a", 1), ("a", 4)])
        counts = [driver.store("n", partition=number).get("a") for number in range(3)]
    assert counts == [1, 2, None]


def test_a_repartition_takes_no_partitioner_that_varies() -> None:
    numbers = sl.App("a").stream("in", key=str, value=int)
    with pytest.raises(TopologyError, match="non_deterministic"):
        numbers.repartition(partitioner=sl.non_deterministic(lambda key, value, count: 0))
