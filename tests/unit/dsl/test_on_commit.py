"""``emit="on_commit"``: with each commit the last result of each row that has changed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import streamlet as sl
from streamlet.dsl.folds import on_commit
from streamlet.dsl.windowing.windows import Windows
from streamlet.errors import TopologyError
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.task import Task
from streamlet.state.task_state import TaskState
from streamlet.testing import TopologyTestDriver
from streamlet.topology.edges import edges_of
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.shares import share_of
from tests.unit.dsl.test_windows_model import History, histories, timed
from tests.unit.dsl.window_tasks import Update, WindowTask
from tests.unit.processing.answers import Answers, calling, raw, values

KINDS: list[Windows] = [
    sl.tumbling(20),
    sl.tumbling(20, grace=30),
    sl.hopping(50, 20, grace=7),
    sl.sliding(15, grace=10),
    sl.session(10, grace=25),
    sl.unlimited(start=40),
]


@pytest.mark.parametrize("windows", KINDS, ids=str)
@settings(max_examples=share_of(30), deadline=None)
@given(history=histories)
def test_after_each_commit_readers_know_what_they_would_know_by_all_updates(
    windows: Windows, history: History
) -> None:
    """Whatever the batches are, whichever windows expire, and where it restarts."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        every = WindowTask(windows, Path(one))
        held = WindowTask(windows, Path(other), emit="on_commit")
        known: dict[Any, Any] = {}
        told: dict[Any, Any] = {}
        for records, then in timed(history):
            known |= {update[:3]: update[3] for update in every.send(records)}
            assert held.send(records) == []
            if then:
                every.commit()
                updates = held.commit()
                assert len({update[:3] for update in updates}) == len(updates)
                told |= {update[:3]: update[3] for update in updates}
                assert shown(told) == shown(known)
            if then == "restart":
                every.restart()
                held.restart()
        every.close()
        held.close()


def shown(rows: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in rows.items() if value is not None}


def test_a_session_that_a_crashed_process_told_of_ends_with_a_later_commit(tmp_path: Path) -> None:
    """Its last results went out, its commit did not: the same records are processed again."""
    one = WindowTask(sl.session(10), tmp_path, emit="on_commit")
    one.send([("a", 100)])
    one.commit()
    view = {("a", 100, 100): 1}
    offset = one.offset
    one.send([("a", 105)])
    view |= by_window(one._decoded(one.task.settle()))
    one.close()
    one.offset = offset
    one.open()
    one.send([("a", 105), ("a", 109)])
    view |= by_window(one.commit())
    one.close()
    assert shown(view) == {("a", 100, 109): 3}


def by_window(updates: Any) -> dict[Any, Any]:
    return {update[:3]: update[3] for update in list[Update](updates)}


def test_a_commit_is_asked_for_when_many_updates_of_sessions_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each record that extends a session makes another key, also where there is one row only."""
    monkeypatch.setattr(on_commit, "MOST_HELD", 4)
    held = WindowTask(sl.session(10), None, emit="on_commit")
    asked = []
    for time in (1, 2, 3, 4, 5):
        held.send([("a", time)])
        asked.append(held.task.commit_requested)
    assert asked == [False, False, False, False, True]
    assert len(held.commit()) == 5
    assert not held.task.commit_requested
    held.close()


class CountTask:
    """A task that counts the topic ``in`` by key, and is committed by hand."""

    def __init__(
        self, then: Callable[[sl.KTable[Any, int]], Any], key: Any = str, **app: Any
    ) -> None:
        self.app = sl.App("a", **app)
        grouped = self.app.stream("in", key=key, value=str).group_by_key()
        then(grouped.count(store="n", emit="on_commit"))
        (self.part,) = self.app.topology().subtopologies
        self.state = TaskState(None, self.part.stores, 1 << 20)
        self.task = Task(
            TaskId(0, 0),
            self.part,
            self.state,
            {TopicPartition("in", 0): 0},
            policy=self.app.policy,
        )
        self.offset = self.commits = 0

    def send(self, *keys: bytes, headers: list[Any] | None = None) -> list[Any]:
        offsets = range(self.offset, self.offset + len(keys))
        self.offset += len(keys)
        values: list[bytes | None] = [b"x"] * len(keys)
        times = [1_000 + offset for offset in offsets]
        batch = PartitionBatch("in", 0, offsets, list(keys), values, times, headers)
        return self._rows(self.task.process(batch))

    def commit(self) -> list[Any]:
        """Key, value, timestamp and headers of what goes out with a commit."""
        outputs = self.task.settle()
        self.commits += 1
        self.state.write(self.state.drain(), StateNumber(1, self.commits), {})
        return self._rows(outputs)

    def _rows(self, outputs: list[Any]) -> list[Any]:
        return [
            row
            for out in outputs
            for row in zip(
                out.keys,
                out.values,
                out.timestamps,
                out.headers or [None] * len(out.keys),
                strict=True,
            )
        ]


def to_out(table: sl.KTable[Any, int]) -> None:
    table.to_stream().map_values(str, value=str).to("out")


def test_a_commit_sends_each_count_once_with_time_and_headers_of_its_last_record() -> None:
    counts = CountTask(to_out)
    assert counts.send(b"a", b"b", b"a") == []
    assert counts.send(b"a", b"c", headers=[None, [("h", b"1")]]) == []
    assert counts.commit() == [
        (b"a", b"3", 1_003, None),
        (b"b", b"1", 1_001, None),
        (b"c", b"1", 1_004, [("h", b"1")]),
    ]
    assert counts.commit() == []
    counts.send(b"b")
    assert counts.commit() == [(b"b", b"2", 1_005, None)]


def test_keys_that_are_one_key_of_a_dict_stay_apart() -> None:
    counts = CountTask(to_out, key=sl.serde(float))
    keys = [sl.serde(float).encode(key) for key in (0.0, -0.0)]
    counts.send(*keys, headers=[[("h", b"1")], [("h", b"2")]])  # type: ignore[arg-type]
    assert [(row[1], row[3]) for row in counts.commit()] == [
        (b"1", [("h", b"1")]),
        (b"1", [("h", b"2")]),
    ]


def test_a_table_behind_it_sees_the_value_of_the_last_commit_as_the_old_one() -> None:
    """A filter sends a tombstone only for rows that passed it before."""
    even = CountTask(lambda table: table.filter(lambda key, n: n % 2 == 0).to_stream().to("out"))
    two, four = sl.serde(int).encode(2), sl.serde(int).encode(4)
    even.send(b"a", b"a", b"b")
    assert [row[:2] for row in even.commit()] == [(b"a", two)]
    even.send(b"a", b"b", b"b", b"b")
    assert [row[:2] for row in even.commit()] == [(b"a", None), (b"b", four)]
    even.send(b"a", b"a")
    assert [row[:2] for row in even.commit()] == []


def test_a_result_that_fails_is_a_dead_letter_of_the_last_record() -> None:
    def refuse(table: sl.KTable[Any, int]) -> None:
        table.to_stream().map_values(lambda n: str(1 // (2 - n)), value=str).to("out")

    counts = CountTask(refuse, on_error=("dead_letter", "dlq"))
    counts.send(b"a", b"a", b"b")
    letter, result = counts.commit()
    assert (letter[:2], result[:2]) == ((b"b", b"x"), (b"b", b"1"))
    assert dict(letter[3])["streamlet.offset"] == b"2"


def test_the_test_driver_commits_after_each_call() -> None:
    app = sl.App("a")
    counts = app.stream("in", key=str, value=str).group_by_key().count(emit="on_commit")
    counts.to_stream().map_values(str, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "x"), ("a", "x"), ("b", "x")])
        driver.pipe_input("in", "a", "x")
        assert [(r.key, r.value) for r in driver.read_output("out", key=str, value=str)] == [
            ("a", "2"),
            ("b", "1"),
            ("a", "3"),
        ]


def test_a_topic_behind_it_is_not_exact_and_says_why() -> None:
    app = sl.App("a")
    counts = app.stream("in", key=str, value=str).group_by_key().count(store="n", emit="on_commit")
    counts.to_stream().group_by(lambda key, n: n, key=int).count(store="m")
    (edge,) = edges_of(app.topology())
    assert "whose results come at commits" in (edge.reason or "")


def test_origins_are_refused_for_results_that_come_at_commits() -> None:
    app = sl.App("a")
    counts = app.stream("in", key=str, value=str).group_by_key().count(store="n", emit="on_commit")
    counts.to_stream().to("out", origin=True)
    with pytest.raises(TopologyError, match="'out' is written with origins, and results of KSTREA"):
        app.topology()


@pytest.mark.parametrize("call", ["count", "reduce", "aggregate"])
def test_an_unknown_word_is_refused(call: str) -> None:
    grouped = sl.App("a").stream("in", key=str, value=str).group_by_key()
    functions: dict[str, list[Any]] = {
        "count": [],
        "reduce": [lambda a, b: a],
        "aggregate": [int, lambda key, value, n: n],
    }
    with pytest.raises(TopologyError, match=rf"{call}\(\): emit='final': expected 'updates' or"):
        getattr(grouped, call)(*functions[call], emit="final")


def test_a_stop_ends_calls_while_the_commit_before_is_under_way() -> None:
    """What is held back until a commit comes with the next one, which is behind that."""
    answers = Answers()

    def build(stream: sl.KStream[str, str]) -> None:
        called = stream.map_values_async(answers, value=str).group_by_key()
        rows = called.reduce(lambda one, two: one + two, emit="on_commit")
        rows.filter(lambda key, value: value != "A1A2").to_stream().to("out")

    task = calling(build)
    try:
        task.process(raw([("a", "a1")]))
        answers.give("a1")
        assert values(task.settle()) == ["A1"]
        drained = task.state.drain()
        task.process(raw([("a", "a2")], first=1))
        answers.give("a2")
        assert task.settle(release=False) == []
        assert not task.calling
        task.state.write(drained, StateNumber(1, 1), {})
        (row,) = task.settle()
        assert row.values == [None]  # readers knew the row of the commit before
    finally:
        task.close()
