"""``close_idle_after``: windows that close by the clock where records pause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import TopologyError
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.task import TICK_MS, Task
from streamlet.state.task_state import TaskState
from streamlet.testing import TopologyTestDriver
from streamlet.topology.edges import edges_of
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.unit.processing.answers import Answers, calling, raw, values
from tests.unit.runtime.members import wait_for

IN = TopicPartition("in", 0)
KINDS = [sl.tumbling(20, grace=5), sl.hopping(40, 20), sl.sliding(15), sl.session(10, grace=3)]


def closing(windows: Any = KINDS[0], after: Any = "30s", **app: Any) -> sl.App:
    made = sl.App("a", **app)
    grouped = made.stream("in", key=str, value=str).group_by_key()
    windowed = grouped.windowed_by(windows, emit="final", close_idle_after=after)
    windowed.count(store=sl.Materialized("n", retention="1d")).to_stream().to("out")
    return made


def told(driver: TopologyTestDriver) -> list[tuple[Any, Any]]:
    return [(record.key, record.value) for record in driver.read_output("out")]


@pytest.mark.parametrize("windows", KINDS, ids=str)
def test_all_windows_close_once_there_was_no_record_for_so_long(windows: Any) -> None:
    """As if a record had come that is later than all of them."""
    with TopologyTestDriver(closing(windows)) as idle, TopologyTestDriver(closing(windows)) as led:
        for driver in (idle, led):
            for key, time in (("a", 1), ("b", 25), ("a", 22), ("a", 30)):
                driver.pipe_input("in", key, "x", timestamp_ms=time)
        led.pipe_input("in", "later", "x", timestamp_ms=1_000)
        idle.advance_wall_clock(29_999)
        before = told(idle)
        idle.advance_wall_clock(1)
        after = told(idle)
        assert after
        assert before + after == told(led)
        idle.advance_wall_clock(100_000)
        assert told(idle) == []


def test_a_record_that_comes_afterwards_is_late_for_what_has_closed() -> None:
    with TopologyTestDriver(closing()) as driver:
        driver.pipe_input("in", "a", "x", timestamp_ms=30)
        driver.advance_wall_clock(30_000)
        assert told(driver) == [(sl.Windowed("a", 20, 40), 1)]
        driver.pipe_input("in", "a", "x", timestamp_ms=39)
        assert driver.late() == 1
        driver.pipe_input("in", "a", "x", timestamp_ms=40)
        driver.advance_wall_clock(30_000)
        assert told(driver) == [(sl.Windowed("a", 40, 60), 1)]


def test_a_record_begins_the_wait_again() -> None:
    with TopologyTestDriver(closing()) as driver:
        driver.pipe_input("in", "a", "x", timestamp_ms=1)
        driver.advance_wall_clock(20_000)
        driver.pipe_input("in", "b", "x", timestamp_ms=2)
        driver.advance_wall_clock(20_000)
        assert told(driver) == []
        driver.advance_wall_clock(10_000)
        assert len(told(driver)) == 2


class IdleTask:
    """A task over state on disk, with a clock and an end of its input that a test sets."""

    def __init__(self, folder: Path, app: sl.App) -> None:
        (self.part,) = app.topology().subtopologies
        self.folder, self.policy = folder, app.policy
        self.position = self.commits = self.end = 0
        self.open()

    def open(self) -> None:
        self.state = TaskState(self.folder, self.part.stores, 1 << 20)
        self.task = Task(
            TaskId(0, 0), self.part, self.state, {IN: self.position}, policy=self.policy
        )

    def send(self, now_ms: int, *times: int) -> list[Any]:
        count = len(times)
        offsets = range(self.position, self.position + count)
        self.position = self.end = self.position + count
        batch = PartitionBatch("in", 0, offsets, [b"a"] * count, [b"x"] * count, list(times), None)
        return self.task.process(batch, now_ms, lambda _: self.end)

    def look(self, now_ms: int) -> int:
        """The number of results at this time."""
        assert self.task.waits(now_ms)
        outputs = self.task.resume(now_ms, lambda _: self.end)
        return sum(len(out.keys) for out in outputs)

    def commit(self) -> None:
        self.commits += 1
        self.task.settle()
        self.state.write(self.state.drain(), StateNumber(1, self.commits), {})


def test_what_is_still_to_be_read_keeps_windows_open(tmp_path: Path) -> None:
    one = IdleTask(tmp_path, closing(after=1_000))
    one.send(0, 1)
    one.end += 1
    assert one.look(5_000) == 0
    one.end -= 1
    assert not one.task.waits(5_000 + TICK_MS - 1)
    assert one.look(5_000 + TICK_MS) == 1
    one.state.close()


def test_results_that_wait_for_a_commit_keep_windows_behind_them_open(tmp_path: Path) -> None:
    app = sl.App("a")
    counts = app.stream("in", key=str, value=str).group_by_key().count(emit="on_commit")
    grouped = counts.to_stream().group_by_key()
    windowed = grouped.windowed_by(sl.tumbling(20), emit="final", close_idle_after=1_000)
    windowed.count(store="n").to_stream().to("out")
    one = IdleTask(tmp_path, app)
    one.send(0, 1)
    one.commit()
    one.send(900, 2)
    assert one.look(5_000) == 0
    one.commit()
    assert one.look(5_999) == 0
    assert one.look(6_100) == 1
    assert one.task.counters.late == 0
    one.state.close()


def test_calls_keep_windows_behind_them_open() -> None:
    """What an async function has not returned yet is not too late for its window."""
    answers = Answers()

    def build(stream: sl.KStream[str, str]) -> None:
        grouped = stream.map_values_async(answers, value=str).group_by_key()
        windowed = grouped.windowed_by(sl.tumbling(20), emit="final", close_idle_after=1_000)
        windowed.count().to_stream().map_values(str, value=str).to("out")

    task, now_ms = calling(build), 0
    try:
        for offset, value in enumerate(("a1", "a2")):
            task.process(raw([("a", value)], offset), now_ms, lambda _: 2)
            answers.await_calls(value)
            now_ms += 5_000
            assert values(task.resume(now_ms, lambda _: 2)) == []
            answers.give(value)
            wait_for(lambda: (task.resume(now_ms, lambda _: 2), not task.calling)[1], "the call")  # noqa: B023
        assert values(task.resume(now_ms + 1_000, lambda _: 2)) == ["2"]
        assert task.counters.late == 0
    finally:
        task.close()


def test_calls_beside_windows_let_them_close() -> None:
    answers = Answers()

    def build(stream: sl.KStream[str, str]) -> None:
        stream.map_values_async(answers, value=str).to("called")
        windowed = stream.group_by_key().windowed_by(
            sl.tumbling(20), emit="final", close_idle_after=1_000
        )
        windowed.count().to_stream().map_values(str, value=str).to("out")

    task = calling(build)
    try:
        task.process(raw([("a", "a1")]), 0, lambda _: 1)
        answers.await_calls("a1")
        assert values(task.resume(1_000, lambda _: 1)) == ["1"]
    finally:
        task.close()


def test_the_wait_begins_again_with_a_restart_and_what_has_closed_stays_closed(
    tmp_path: Path,
) -> None:
    one = IdleTask(tmp_path, closing(after=1_000))
    one.send(0, 1)
    one.commit()
    one.state.close()
    one.open()
    assert one.look(100_000) == 0
    assert one.look(100_999) == 0
    assert one.look(101_100) == 1
    one.commit()
    one.state.close()
    one.open()
    assert one.look(200_000) + one.look(300_000) == 0
    one.send(300_001, 3)
    assert one.task.counters.late == 1
    one.state.close()


def test_a_result_that_fails_after_a_restart_has_a_letter_without_its_record(
    tmp_path: Path,
) -> None:
    app = sl.App("a", on_error=("dead_letter", "dlq"))
    grouped = app.stream("in", key=str, value=str).group_by_key()
    windowed = grouped.windowed_by(sl.tumbling(20), emit="final", close_idle_after=1_000)
    windowed.count(store="n").to_stream().map_values(lambda n: 1 // (n - 1), value=int).to("out")
    one = IdleTask(tmp_path, app)
    one.send(0, 1)
    one.commit()
    one.state.close()
    one.open()
    one.look(1_000)
    (letter,) = one.task.resume(3_000, lambda _: one.end)
    assert (letter.topic, letter.keys, letter.values) == ("dlq", [None], [None])
    one.state.close()


def test_a_topic_behind_them_is_not_exact() -> None:
    app = sl.App("a")
    grouped = app.stream("in", key=str, value=str).group_by_key()
    windowed = grouped.windowed_by(sl.tumbling(20), emit="final", close_idle_after="1m")
    counts = windowed.count(store="n").to_stream()
    counts.group_by(lambda window, n: n, key=int).count(store="m")
    (edge,) = edges_of(app.topology())
    assert "whose results come by the clock" in (edge.reason or "")


@pytest.mark.parametrize(
    ("emit", "after", "said"),
    [
        ("updates", "30s", "is for emit='final'"),
        ("final", 0, "close_idle_after 0: expected"),
        ("final", "soon", "close_idle_after 'soon'"),
    ],
)
def test_wrong_times_are_refused(emit: Any, after: Any, said: str) -> None:
    grouped = sl.App("a").stream("in", key=str, value=str).group_by_key()
    with pytest.raises(TopologyError, match=said):
        grouped.windowed_by(sl.tumbling(20), emit=emit, close_idle_after=after)


def test_closed_windows_are_looked_for_once_an_interval() -> None:
    """With a record, and also what a batch closes behind its first record waits."""
    app = sl.App("a")
    grouped = app.stream("in", key=str, value=str).group_by_key()
    windowed = grouped.windowed_by(sl.tumbling(20), emit="final", emit_interval="1s")
    windowed.count(store=sl.Materialized("n", retention="1d")).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "x", timestamp_ms=1)
        driver.pipe_input("in", "a", "x", timestamp_ms=100)
        driver.advance_wall_clock(999)
        driver.pipe_input("in", "a", "x", timestamp_ms=101)
        assert told(driver) == []
        driver.advance_wall_clock(1)
        assert told(driver) == []
        driver.pipe_inputs("in", [("a", "x"), ("a", "x")], timestamp_ms=102)
        assert told(driver) == [(sl.Windowed("a", 0, 20), 1)]
        driver.pipe_input("in", "a", "x", timestamp_ms=200)
        driver.advance_wall_clock(5_000)
        driver.pipe_input("in", "a", "x", timestamp_ms=300)
        assert told(driver) == [(sl.Windowed("a", 100, 120), 4), (sl.Windowed("a", 200, 220), 1)]


def test_an_interval_is_for_final_results() -> None:
    grouped = sl.App("a").stream("in", key=str, value=str).group_by_key()
    with pytest.raises(TopologyError, match="is for emit='final'"):
        grouped.windowed_by(sl.tumbling(20), emit_interval="1s")
