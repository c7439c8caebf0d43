"""A driver whose topics have several partitions: tasks, places of records, stores."""

from __future__ import annotations

from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import NotFoundError, TopologyError
from streamlet.kafka.murmur2 import partition_of
from streamlet.testing.driver import TopologyTestDriver

KEYS = list("abcdefghij")


def counting() -> sl.App:
    app = sl.App("a")
    app.stream("in", key=str, value=str).group_by_key().count(store="n").to_stream().to("out")
    return app


def test_a_task_for_each_partition_keeps_the_rows_of_its_keys() -> None:
    with TopologyTestDriver(counting(), partitions={"in": 3}) as driver:
        assert list(map(str, driver.tasks)) == ["0_0", "0_1", "0_2"]
        driver.pipe_inputs("in", [(key, "v") for key in KEYS * 2])
        rows = [dict(driver.store("n", partition=number).range()) for number in range(3)]
    places = [{key: 2 for key in KEYS if partition_of(key.encode(), 3) == n} for n in range(3)]
    assert rows == places
    assert all(places)


def test_a_record_may_be_put_into_another_partition() -> None:
    with TopologyTestDriver(counting(), partitions={"in": 3}) as driver:
        for number in range(3):
            driver.pipe_input("in", "a", "v", partition=number)
            driver.pipe_bytes("in", b"a", b"v", partition=number)
        assert [driver.store("n", partition=number).get("a") for number in range(3)] == [2] * 3
        with pytest.raises(NotFoundError, match="'in' has no partition 3; it has 3"):
            driver.pipe_inputs("in", [("a", "v")], partition=3)


def test_a_store_of_several_tasks_is_named_with_its_partition() -> None:
    with (
        TopologyTestDriver(counting(), partitions={"in": 2}) as driver,
        pytest.raises(NotFoundError, match=r"in the tasks of partitions 0, 1: partition= says"),
    ):
        driver.store("n")


def test_records_without_a_key_go_to_the_first_partition_and_offsets_are_each_ones_own() -> None:
    app = sl.App("a")
    place = sl.with_context(lambda v, context: (context.partition, context.offset))
    app.stream("in", key=str, value=str).map_values(place, value=tuple[int, int]).to("out")
    with TopologyTestDriver(app, partitions={"in": 2, "out": 4}) as driver:
        driver.pipe_input("in", None, "v")
        driver.pipe_inputs("in", [("a", "v"), (None, "v")], partition=1)
        driver.pipe_input("in", None, "v")
        assert [r.value for r in driver.read_output("out")] == [(0, 0), (1, 0), (1, 1), (0, 1)]


def test_repartition_topics_have_the_partitions_that_they_would_get() -> None:
    app = sl.App("a")
    stream = app.stream("in", key=str, value=str).select_key(lambda k, v: v, key=str)
    stream.group_by_key().count(store="n")
    stream.repartition(name="five", partitions=5).to("out")
    with TopologyTestDriver(app, partitions={"in": 2}) as driver:
        tasks = list(map(str, driver.tasks))
        driver.pipe_inputs("in", [("x", key) for key in KEYS], partition=1)
        rows = [dict(driver.store("n", partition=number).range()) for number in range(2)]
        assert len(driver.read_output("out")) == len(KEYS)
    assert tasks == ["0_0", "0_1", "1_0", "1_1", *(f"2_{number}" for number in range(5))]
    assert rows == [
        {key: 1 for key in KEYS if partition_of(key.encode(), 2) == number} for number in range(2)
    ]


def test_without_partitions_of_a_topic_that_is_read_each_subtopology_has_one_task() -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=str).repartition(name="five", partitions=5).to("out")
    with TopologyTestDriver(app, partitions={"out": 3}) as driver:
        assert list(map(str, driver.tasks)) == ["0_0", "1_0"]


@pytest.mark.parametrize("wrong", [3, "in", ["in"], {"in": "3"}, {"in": True}, {"in": 1.0}])
def test_partitions_are_numbers_by_topic(wrong: Any) -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=str).to("out")
    with pytest.raises(TypeError, match="partitions= expects numbers by topic"):
        TopologyTestDriver(app, partitions=wrong)


def test_topics_that_are_joined_need_equal_counts() -> None:
    app = sl.App("a")
    rows = app.table("rows", key=str, value=str)
    app.stream("in", key=str, value=str).join(rows, lambda v, row: v + row, value=str).to("out")
    with pytest.raises(TopologyError, match="rows"):
        TopologyTestDriver(app, partitions={"in": 2})
    with TopologyTestDriver(app, partitions={"in": 2, "rows": 2}) as driver:
        driver.pipe_inputs("rows", [(key, "r") for key in KEYS])
        driver.pipe_inputs("in", [(key, key) for key in KEYS])
        assert sorted(r.value for r in driver.read_output("out")) == [f"{key}r" for key in KEYS]


def test_what_is_written_to_a_topic_that_is_read_goes_to_the_tasks_of_its_partitions() -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=int).to("middle", partitioner=lambda k, v, n: v % n)
    app.stream("middle", key=str, value=int).group_by_key().count(store="n")
    with TopologyTestDriver(app, partitions={"middle": 3}) as driver:
        driver.pipe_inputs("in", [("a", 0), ("a", 1), ("a", 4)])
        counts = [driver.store("n", partition=number).get("a") for number in range(3)]
    assert counts == [1, 2, None]


def test_times_of_all_tasks_move_together_when_they_are_told_to() -> None:
    with TopologyTestDriver(counting(), partitions={"in": 2}) as driver:
        driver.pipe_input("in", "a", "v", 500, partition=0)
        driver.pipe_input("in", "a", "v", 300, partition=1)
        assert driver.stream_time == 500
        driver.advance_stream_time(100)
        assert driver.stream_time == 600


def test_merged_topics_may_have_unequal_counts() -> None:
    app = sl.App("merged")
    both = app.stream(["small", "large"], key=str, value=str)
    both.group_by_key().count(store="counts").to_stream().to("out")
    with TopologyTestDriver(app, partitions={"small": 1, "large": 3}) as driver:
        driver.pipe_input("large", "a", "x", partition=2)
        driver.pipe_input("small", "a", "x")
        assert [driver.store("counts", partition=n).get("a") for n in range(3)] == [1, None, 1]
        with pytest.raises(NotFoundError, match="'small' has no partition 1; it has 1"):
            driver.pipe_input("small", "a", "x", partition=1)
