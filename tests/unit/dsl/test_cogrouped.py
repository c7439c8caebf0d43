"""Several streams folded into one table: order, repartition topics, types of keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import streamlet as sl
from streamlet.dsl.windowing.windows import TimeWindows
from streamlet.errors import TopologyError
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.task import Task
from streamlet.state.task_state import TaskState
from streamlet.testing.driver import TopologyTestDriver
from streamlet.types import StateNumber, TaskId, TopicPartition


def added(key: str, value: Any, so_far: str) -> str | None:
    return None if value == 0 else f"{so_far}{value}"


def read(driver: TopologyTestDriver) -> list[tuple[Any, Any, int]]:
    return [(r.key, r.value, r.timestamp) for r in driver.read_output("out")]


def test_streams_of_different_types_share_the_rows_and_their_highest_time() -> None:
    app = sl.App("a")
    words = app.stream("words", key=str, value=str).group_by_key()
    numbers = app.stream("numbers", key=str, value=int).group_by_key()
    table = words.cogroup(added).cogroup(numbers, added).aggregate(str, store="rows")
    table.to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("words", "k", "a", 20)
        driver.pipe_input("numbers", "k", 1, 10)
        driver.pipe_inputs("numbers", [(None, 1), ("k", None), ("k", 0)], 5)
        driver.pipe_input("words", "k", "b", 7)
        assert read(driver) == [("k", "a", 20), ("k", "a1", 20), ("k", None, 20), ("k", "b", 7)]
        assert driver.dropped() == 2
        assert list(driver.store("rows").range()) == [("k", "b")]


def test_streams_of_one_topic_are_folded_record_by_record() -> None:
    app = sl.App("a")
    stream = app.stream("in", key=str, value=str)
    other = stream.map_values(str.upper, value=str).group_by_key()
    stream.group_by_key().cogroup(added).cogroup(other, added).aggregate(str).to_stream().to("out")
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_inputs("in", [("k", "a"), ("k", "b")])
        assert [r.value for r in driver.read_output("out")] == ["A", "Aa", "AaB", "AaBb"]


def test_each_stream_with_changed_keys_has_a_repartition_topic_of_its_own() -> None:
    app = sl.App("a")
    one, two = (app.stream(topic, key=str, value=str) for topic in ("one", "two"))
    grouped = [stream.group_by(lambda k, v: v, key=str) for stream in (one, two, one)]
    both = grouped[0].cogroup(added).cogroup(grouped[1], added).cogroup(grouped[2], added)
    both.aggregate(str, store="rows").to_stream().to("out")
    assert app.topology().repartition_topics == (
        "a-rows-1-repartition",
        "a-rows-2-repartition",
        "a-rows-repartition",
    )
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_input("two", "k", "x")
        driver.pipe_input("one", "k", "x")
        assert [r.value for r in driver.read_output("out")] == ["x", "xx", "xxx"]


def test_an_aggregator_that_fails_fails_its_record() -> None:
    app = sl.App("a", on_error="skip")
    numbers = app.stream("in", key=str, value=int).group_by_key()
    divided: sl.CogroupedKStream[str, int] = numbers.cogroup(lambda k, v, x: x + 6 // v)
    divided.aggregate(int).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", 3), ("k", 0), ("k", 2)])
        assert [r.value for r in driver.read_output("out")] == [2, 5]
        assert driver.skipped() == 1


def test_mistakes_are_refused_when_the_topology_is_built() -> None:
    app = sl.App("a")
    words = app.stream("words", key=str, value=str).group_by_key()
    numbers: Any = app.stream("numbers", key=int, value=str).group_by_key()
    foreign = sl.App("b").stream("in", key=str, value=str).group_by_key()
    with pytest.raises(TopologyError, match="keys of one stream are str, those of another int"):
        words.cogroup(added).cogroup(numbers, added)
    with pytest.raises(TopologyError, match="different applications"):
        words.cogroup(added).cogroup(foreign, added)
    with pytest.raises(TopologyError, match="takes"):
        words.cogroup(lambda k, v: v)  # type: ignore[arg-type, misc]


def clicks_and_orders(app: sl.App) -> sl.CogroupedKStream[str, str]:
    first, second = (app.stream(t, key=str, value=str).group_by_key() for t in ("one", "two"))
    return first.cogroup(added).cogroup(second, added)


def test_a_record_is_late_by_the_times_of_its_own_stream_also_after_a_restart(
    tmp_path: Path,
) -> None:
    app = sl.App("a")
    windowed = clicks_and_orders(app).windowed_by(sl.hopping(20, 10))
    windowed.aggregate(str, store="rows").to_stream().to("out")
    (part,) = app.topology().subtopologies
    positions = {TopicPartition(topic, 0): 0 for topic in ("one", "two")}

    def sent(topic: str, offset: int, value: str, time: int) -> tuple[int, int]:
        """Number of results and of windows that the record was late for."""
        state = TaskState(tmp_path, part.stores, 1 << 20)
        task = Task(TaskId(0, 0), part, state, positions)
        raw = PartitionBatch(topic, 0, [offset], [b"k"], [value.encode()], [time], None)
        results = sum(len(output.keys) for output in task.process(raw))
        state.write(state.drain(), StateNumber(1, offset + 1), {})
        state.close()
        return results, task.counters.late

    assert sent("one", 0, "a", 25) == (2, 0)
    assert sent("two", 0, "b", 12) == (2, 0)
    assert sent("two", 1, "c", 31) == (2, 0)
    assert sent("one", 1, "d", 12) == (1, 1)
    assert sent("two", 2, "e", 12) == (0, 2)


@pytest.mark.parametrize("windows", [sl.tumbling(20), sl.hopping(20, 8, grace=5)], ids=str)
def test_a_stream_that_is_behind_the_retention_begins_its_windows_anew_with_each_record(
    windows: TimeWindows,
) -> None:
    """As in Kafka Streams, and however its records are cut into batches: they are not kept."""
    app = sl.App("a")
    words = app.stream("words", key=str, value=str).group_by_key()
    numbers = app.stream("numbers", key=str, value=int).group_by_key()
    table = words.cogroup(added).cogroup(numbers, added).windowed_by(windows).aggregate(str)
    table.to_stream().to("out")
    found = []
    for size in (1, 3):
        with TopologyTestDriver(app) as driver:
            driver.pipe_input("words", "k", "a", 24)
            driver.pipe_input("words", "l", "b", 1_000)
            read(driver)
            for start in range(1, 4, size):
                values = [("k", value) for value in range(start, start + size)]
                driver.pipe_inputs("numbers", values, 24)
            found.append([(window.start, value, time) for window, value, time in read(driver)])
    starts, _ = windows.starts([24])
    assert found[0] == [(start, str(n), 24) for n in (1, 2, 3) for start in starts]
    assert found[1] == found[0]


def test_sliding_windows_of_two_streams_and_a_table_that_waits_for_them() -> None:
    app = sl.App("a")
    table = clicks_and_orders(app).windowed_by(sl.sliding(10, grace=5)).aggregate(str)
    table.suppress(sl.until_window_closes()).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        for topic, value, time in (("one", "a", 10), ("two", "b", 15), ("one", "c", 60)):
            driver.pipe_input(topic, "k", value, time)
        found = [(r.key.start, r.key.end, r.value) for r in driver.read_output("out")]
    assert found == [(0, 10, "a"), (5, 15, "ab"), (11, 21, "b")]


def test_only_sessions_of_cogrouped_streams_take_a_merger() -> None:
    both = clicks_and_orders(sl.App("a"))
    with pytest.raises(TopologyError, match="sessions merge, so it needs a merger"):
        both.windowed_by(sl.session(10)).aggregate(str)
    with pytest.raises(TopologyError, match="only sessions merge, so it takes no merger"):
        both.windowed_by(sl.tumbling(10)).aggregate(str, lambda key, one, two: one)
