"""Tables whose rows expire, against a naive model with crashes and restores."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.errors import TopologyError
from streamlet.testing import TopologyTestDriver
from tests.shares import share_of
from tests.unit.dsl.fed_tasks import Fed, FedTask, played

TTL = 50
KEPT = sl.Materialized("s", ttl=TTL)
Stream = sl.KStream[str, str]


def counted(stream: Stream) -> sl.KStream[Any, Any]:
    return stream.group_by_key().count(store=KEPT).to_stream().map_values(str, value=str)


def reduced(stream: Stream) -> sl.KStream[Any, Any]:
    return stream.group_by_key().reduce(lambda old, new: old + new, store=KEPT).to_stream()


def aggregated(stream: Stream) -> sl.KStream[Any, Any]:
    """An aggregate with lists, which are copied, and which a value deletes."""
    table = stream.group_by_key().aggregate(
        list,
        lambda key, value, rows: None if value == "x" else [*rows, value],
        value=sl.json(list[str]),
        store=KEPT,
    )
    return table.to_stream().map_values(lambda rows: "".join(rows or "-"), value=str)


def cogrouped(stream: Stream) -> sl.KStream[Any, Any]:
    grouped = stream.group_by_key()
    table = grouped.cogroup(lambda key, value, rows: rows + value).aggregate(str, store=KEPT)
    return table.to_stream()


def kept(stream: Stream) -> sl.KStream[Any, Any]:
    return stream.to_table(store=KEPT).to_stream()


def joined(stream: Stream) -> sl.KStream[Any, Any]:
    """Each record with the row that it, or an earlier one of its key, has put."""
    table = stream.filter_not(lambda key, value: value == "x").to_table(store=KEPT)
    return stream.left_join(table, lambda value, row: f"{value}{row}", value=str)


def mapped(stream: Stream) -> sl.KStream[Any, Any]:
    table = stream.to_table(store="all").map_values(lambda value: value * 2, store=KEPT, value=str)
    return table.to_stream()


@attrs.define
class Model:
    """Rows with their times, and stream time; ``fold`` makes the new row of the old one."""

    fold: Callable[[Any, str], Any]
    highest: bool
    rows: dict[str, tuple[Any, int]] = attrs.field(factory=dict)
    observed: int = -1

    def record(self, key: str, value: str | None, time: int) -> tuple[Any, int] | None:
        """The row that the record makes, and its time; None: the record has no value."""
        self.observed = max(self.observed, time)
        if value is None:
            return None
        old, at = self.shown().get(key, (None, -1))
        new = self.fold(old, value)
        self.rows[key] = new, max(at, time) if self.highest else time
        if new is None:
            del self.rows[key]
            return None, max(at, time)
        return self.rows[key]

    def shown(self) -> dict[str, tuple[Any, int]]:
        """The rows that have not expired."""
        rows = self.rows.items()
        return {key: (row, at) for key, (row, at) in rows if at + TTL > self.observed}


FOLDS: dict[str, tuple[Any, Callable[[Any, str], Any], bool, Callable[[Any], str]]] = {
    "count": (counted, lambda old, value: (old or 0) + 1, True, str),
    "reduce": (reduced, lambda old, value: (old or "") + value, True, str),
    "aggregate": (
        aggregated,
        lambda old, value: None if value == "x" else [*(old or []), value],
        True,
        lambda rows: "".join(rows or "-"),
    ),
    "cogroup": (cogrouped, lambda old, value: (old or "") + value, True, str),
    "to_table": (kept, lambda old, value: value, False, str),
    "map_values": (mapped, lambda old, value: value * 2, False, str),
}

RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["p", "q", "x"]), st.integers(0, 300)),
    min_size=1,
    max_size=8,
)
STEPS = st.lists(st.one_of(RECORDS, st.sampled_from(["commit", "crash", "cold"])), max_size=12)


@pytest.mark.parametrize("kind", FOLDS)
@settings(max_examples=share_of(15), deadline=None)
@given(steps=STEPS)
@example(steps=[[("a", "p", 0), ("a", "q", 40), ("a", "p", 95), ("b", "p", 10), ("b", "q", 95)]])
@example(steps=[[("a", "p", 0), ("b", "p", 60)], "commit", "cold", [("a", "p", 1), ("a", "q", 2)]])
def test_a_row_that_has_expired_begins_again(kind: str, steps: list[Any]) -> None:
    build, fold, highest, text = FOLDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        task, begun = FedTask(build, Path(folder)), Model(fold, highest)
        for model, records in played(task, begun, steps):
            if records is not None:
                made = [(record[0], model.record(*record)) for record in records]
                wanted = [(key, text(row[0]), row[1]) for key, row in made if row is not None]
                assert task.send(records) == wanted
            store: Any = task.state.stores["s"]
            found = {key: (value, store.timestamp(key)) for key, value in store.range()}
            assert found == model.shown()
            assert {key: store.get(key) for key in "abc"} == {
                key: model.shown().get(key, (None, 0))[0] for key in "abc"
            }
        task.state.close()


@settings(max_examples=share_of(20), deadline=None)
@given(batches=st.lists(RECORDS, max_size=5))
@example(batches=[[("a", "p", 0)], [("b", "x", 60)], [("a", "x", 20)]])
def test_a_join_does_not_meet_rows_that_have_expired(batches: list[list[Fed]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        task, model = FedTask(joined, Path(folder)), Model(lambda old, value: value, False)
        for batch in batches:
            wanted = []
            for key, value, time in batch:
                assert key is not None
                model.record(key, None if value == "x" else value, time)
                row = model.shown().get(key, (None, 0))[0]
                wanted.append((key, f"{value}{row}", time))
            assert task.send(batch) == wanted
        task.state.close()


def two_topics(**more: Any) -> tuple[sl.App, sl.KStream[str, str], sl.KTable[str, str]]:
    app = sl.App("a", **more)
    rows = app.stream("rows", key=str, value=str).to_table(store=KEPT)
    return app, app.stream("in", key=str, value=str), rows


def values(driver: TopologyTestDriver, topic: str = "out") -> list[Any]:
    return [record.value for record in driver.read_output(topic)]


def test_the_records_that_look_up_rows_move_their_time_on_too() -> None:
    app, stream, rows = two_topics()
    stream.left_join(rows, lambda value, row: f"{value}{row}", value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("rows", "a", "p", 0)
        driver.pipe_inputs("in", [("a", "1")], 49)
        driver.pipe_inputs("in", [("a", "2")], 50)
        driver.pipe_inputs("in", [("a", "3")], 10)
        assert values(driver) == ["1p", "2None", "3None"]
        assert driver.store("s").get("a") is None


def test_a_processor_sees_no_row_that_has_expired_by_its_own_records() -> None:
    def look(record: sl.Record[str, str], context: Any) -> str:
        store = context.store("s")
        row = store.get(record.key)
        return f"{None if row is None else row.value} {[key for key, _ in store.all()]}"

    app, stream, _ = two_topics()
    stream.process_values(look, stores=["s"], value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("rows", [("a", "p")], 0)
        driver.pipe_inputs("rows", [("b", "p")], 30)
        for time in (49, 50, 80):
            driver.pipe_input("in", "a", "", time)
        assert values(driver) == ["p ['a', 'b']", "None ['b']", "None []"]


def test_a_join_of_tables_does_not_meet_a_row_that_has_expired() -> None:
    app, stream, rows = two_topics()
    other = stream.to_table(store="other")
    other.join(rows, lambda mine, row: f"{mine}{row}", value=str).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("rows", "a", "p", 0)
        driver.pipe_input("in", "a", "1", 10)
        driver.pipe_input("in", "a", "2", 60)
        assert values(driver)[0] == "1p"
        assert values(driver) == [], "the row is gone"


def test_deletions_go_to_the_changelog_and_nowhere_else() -> None:
    with tempfile.TemporaryDirectory() as folder:
        task = FedTask(counted, Path(folder))
        task.send([("a", "p", 0)])
        task.commit()
        assert task.send([("b", "p", 50)]) == [("b", "1", 50)]
        task.commit()
        columns = task.changelog[-2:]
        (rows,) = [dict(zip(c.keys, c.values, strict=True)) for c in columns if c.store == "s"]
        assert rows[b"a"] is None
        task.state.close()


def test_each_batch_deletes_some_of_the_rows_that_have_expired() -> None:
    with tempfile.TemporaryDirectory() as folder:
        task = FedTask(counted, Path(folder))
        task.send([(str(number), "p", 0) for number in range(200)])
        store: Any = task.state.stores["s"]
        left = []
        for number in range(6):
            task.send([("new", "p", 1_000 + number)])
            assert [key for key, _ in store.range()] == ["new"]
            left.append(sum(value is not None for value in store.cache.values()))
        assert left[0] > left[1] > left[-1], "not all at once"
        task.send([("new", "p", 2_000)] * 60)
        assert sum(value is not None for value in store.cache.values()) == 1
        assert len(list(task.state.stores["s-ttl"].range())) == 1
        task.state.close()


def test_a_function_that_fails_is_applied_once_to_the_records_before() -> None:
    def add(key: str, value: str, rows: str) -> str:
        if value == "bad":
            raise ValueError(value)
        return rows + value

    def build(stream: Stream) -> sl.KStream[Any, Any]:
        return stream.group_by_key().aggregate(str, add, store=KEPT).to_stream()

    with tempfile.TemporaryDirectory() as folder:
        task = FedTask(build, Path(folder))
        given = [("a", "p", 0), ("a", "q", 60), ("a", "bad", 61), ("b", "p", 62), ("a", "r", 111)]
        assert task.send(given) == [
            *(("a", "p", 0), ("a", "q", 60)),
            *(("b", "p", 62), ("a", "r", 111)),
        ]
        task.state.close()


def test_results_with_commits_are_the_rows_that_are_there_and_no_deletions() -> None:
    def build(stream: Stream) -> sl.KStream[Any, Any]:
        table = stream.group_by_key().count(store=KEPT, emit="on_commit")
        return table.to_stream().map_values(str, value=str)

    with tempfile.TemporaryDirectory() as folder:
        task = FedTask(build, Path(folder))
        assert task.send([("a", "p", 0), ("a", "p", 10), ("b", "p", 20), ("c", "p", 100)]) == []
        assert task._all(task.task.settle()) == [("c", "1", 100)]
        task.state.close()


def test_a_row_that_expired_and_came_again_has_no_old_value_at_a_commit() -> None:
    with tempfile.TemporaryDirectory() as folder:
        task = FedTask(counted, Path(folder))
        task.send([("a", "p", 0), ("b", "p", 0), ("c", "p", 30)])
        task.commit()
        task.send([("c", "p", 60), ("a", "p", 61)])
        changes = task.state.stores["s"].changes(olds=True)
        found = zip(changes.keys, changes.values, changes.olds or [], changes.times, strict=True)
        assert sorted(found) == [("a", 1, None, 61), ("c", 2, 1, 60)], "and nothing of b"
        task.state.close()


REFUSED: dict[str, tuple[Callable[[sl.App, Stream], Any], str]] = {
    "source": (lambda app, _: app.table("t", key=str, value=str, store=KEPT), "t is the changelog"),
    "global": (lambda app, _: app.global_table("t", key=str, value=str, store=KEPT), "changelog"),
    "windows": (
        lambda _, stream: stream.group_by_key().windowed_by(sl.tumbling("1s")).count(store=KEPT),
        "by their retention",
    ),
    "versions": (
        lambda _, stream: stream.to_table(store=sl.Materialized("s", history="1s", ttl=TTL)),
        "by their history",
    ),
    "streams": (
        lambda _, s: s.join(
            s, lambda a, b: a + b, within=sl.join_windows("1s"), value=str, store=KEPT
        ),
        "with its windows",
    ),
    "groups": (
        lambda _, s: (
            s.to_table(store="t")
            .group_by(lambda k, v: (v, k), key=str, value=str)
            .count(store=KEPT)
        ),
        "taken back",
    ),
    "foreign": (
        lambda _, s: s.to_table(store=KEPT).join(
            s.to_table(store="t"), lambda a, b: a + b, foreign_key=lambda v: v, value=str
        ),
        "rows of s expire",
    ),
    "duration": (lambda _, s: s.to_table(store=sl.Materialized("s", ttl="soon")), r"ttl=\)"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_stores_that_cannot_have_a_ttl_are_refused_with_the_reason(what: str) -> None:
    build, said = REFUSED[what]
    app = sl.App("a")
    with pytest.raises(TopologyError, match=said):
        build(app, app.stream("in", key=str, value=str))
