"""``KTable.suppress`` against a naive model, and what becomes of a buffer that is full."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.dsl.suppressing import buffer
from streamlet.errors import BufferFullError, TopologyError
from streamlet.state import ordered_rows
from streamlet.testing import TopologyTestDriver
from streamlet.topology.describe import as_json
from streamlet.types import TopicPartition
from tests.shares import share_of
from tests.unit.dsl.fed_tasks import FedTask

INPUT = TopicPartition("in", 0)
#: Key, value (None deletes), timestamp.
Record = tuple[str, str | None, int]
#: Key, value and timestamp as they were written.
Result = tuple[Any, Any, int]

steps = st.one_of(st.integers(0, 8), st.integers(-40, 40), st.just(150))
values = st.sampled_from(["a", "b", "long", None])
#: Batches of (key, value, step from the time before), and whether a commit and a restart follow.
histories = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("abcdef"), values, steps), min_size=1, max_size=9),
        st.sampled_from(["", "commit", "restart"]),
    ),
    max_size=8,
)
History = list[tuple[list[tuple[str, str | None, int]], str]]


def timed(history: History) -> Iterator[tuple[list[Record], str]]:
    """The batches with timestamps in place of steps."""
    time = 50
    for batch, then in history:
        records = []
        for key, value, step in batch:
            time = max(0, time + step)
            records.append((key, value, time))
        yield records, then


def task_of(app: sl.App, folder: str | Path) -> FedTask:
    return FedTask(app, Path(folder), "fail")


def run(task: FedTask, history: History) -> list[Result]:
    found: list[Result] = []
    try:
        for records, then in timed(history):
            found += task.send(records)
            if then:
                task.commit()
            if then == "restart":
                task.crash()
    finally:
        task.state.close()
    return found


@attrs.define
class Model:
    """A buffer as it is defined: ``rows`` are buffer time, value, time and prior value by key."""

    wait: int
    final: bool = False
    max_records: int | None = None
    max_bytes: int | None = None
    passes: Callable[[Any], bool] | None = None
    key_bytes: Callable[[Any], bytes] = lambda key: str(key).encode()
    rows: dict[Any, tuple[int, Any, int, Any]] = attrs.field(factory=dict)
    stream_time: int = -1

    def add(self, key: Any, value: Any, old: Any, time: int, buffer_time: int) -> list[Result]:
        self.stream_time = max(self.stream_time, time)
        there = self.rows.get(key, (buffer_time, None, 0, old))
        self.rows[key] = there[0], value, time, there[3]
        found: list[Result] = []
        while self.rows and (self.due() or self.full()):
            first = min(self.rows, key=lambda one: (self.rows[one][0], self.key_bytes(one)))
            found += self.sent(first, *self.rows.pop(first)[1:])
        return found

    def due(self) -> bool:
        return min(row[0] for row in self.rows.values()) <= self.stream_time - self.wait

    def full(self) -> bool:
        size = sum(len(self.key_bytes(key)) + len(row[1] or "") for key, row in self.rows.items())
        too_many = self.max_records is not None and len(self.rows) > self.max_records
        return too_many or (self.max_bytes is not None and size > self.max_bytes)

    def sent(self, key: Any, value: Any, time: int, prior: Any) -> list[Result]:
        if value is None and self.final:
            return []
        if self.passes is not None:
            before = prior is not None and self.passes(prior)
            value = value if value is not None and self.passes(value) else None
            if value is None and not before:
                return []
        return [(key, value, time)]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is read three rows at a time, and results are sent two at a time."""
    monkeypatch.setattr(ordered_rows, "FRONT", 3)
    monkeypatch.setattr(buffer, "PART", 2)


LIMITS: list[dict[str, int]] = [{}, {"max_records": 2}, {"max_bytes": 7}, {"max_records": 0}]


@pytest.mark.parametrize("limit", LIMITS, ids=str)
@pytest.mark.parametrize("filtered", [False, True])
@settings(max_examples=share_of(30), deadline=None)
@given(history=histories)
def test_updates_of_a_table_wait_as_in_the_model(
    limit: dict[str, int], filtered: bool, history: History
) -> None:
    """A filter behind it shows whether the previous values are those that were sent before."""
    app = sl.App("a")
    table = app.table("in", key=str, value=str).suppress(sl.until_time_limit("30ms", **limit))
    if filtered:
        table = table.filter(lambda key, value: value != "b")
    table.to_stream().to("out")
    model = Model(30, passes=(lambda value: value != "b") if filtered else None, **limit)
    rows: dict[str, str | None] = {}
    wanted = []
    for records, _ in timed(history):
        for key, value, time in records:
            wanted += model.add(key, value, rows.get(key), time, time)
            rows[key] = value
    with tempfile.TemporaryDirectory() as folder:
        assert run(task_of(app, folder), history) == wanted


@pytest.mark.parametrize("limit", [{}, {"max_records": 20}, {"max_bytes": 90}], ids=str)
def test_long_runs_of_a_full_buffer_send_what_the_model_does(
    limit: dict[str, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module, name, rows in ((buffer, "PART", 50), (ordered_rows, "FRONT", 60)):
        monkeypatch.setattr(module, name, rows)
    dice, model = Random(7), Model(300, **limit)
    task = task_of(suppressed(sl.until_time_limit(300, **limit)), tmp_path)
    for start in range(0, 3_000, 500):
        times = [max(0, now - dice.choice((0, 0, 3, 40))) for now in range(start, start + 500)]
        records = [(f"k{dice.randrange(150)}", "v" * dice.randrange(1, 6), at) for at in times]
        wanted = [one for key, value, at in records for one in model.add(key, value, None, at, at)]
        assert task.send(records) == wanted
        task.commit()
    task.state.close()


@settings(max_examples=share_of(40), deadline=None)
@given(history=histories)
def test_windows_are_sent_once_when_they_close(history: History) -> None:
    """A row that an aggregator deleted before its window closed is not sent."""
    app = sl.App("a")
    windowed = (
        app.stream("in", key=str, value=str)
        .group_by_key()
        .windowed_by(sl.hopping(40, 20, grace=10))
    )
    longest = windowed.aggregate(
        str, lambda key, value, kept: kept + value if value else None, value=str
    )
    longest.suppress(sl.until_window_closes()).to_stream().to("out")
    windows = sl.time_windowed(str, 40)
    model = Model(10, final=True, key_bytes=windows.encode)
    rows: dict[sl.Windowed[str], tuple[str | None, int]] = {}
    wanted, stream_time = [], -1
    for records, _ in timed(history):
        for key, value, time in records:
            stream_time = max(stream_time, time)
            for start in range(max(0, (time - 20) // 20 * 20), time + 1, 20):
                window = sl.Windowed(key, start, start + 40)
                if window.end <= stream_time - 10:
                    continue
                old, at = rows.get(window, (None, -1))
                new = (old or "") + value if value else None
                rows[window] = new, max(time, at) if old is not None else time
                wanted += model.add(window, new, old, rows[window][1], window.end)
    with tempfile.TemporaryDirectory() as folder:
        assert run(task_of(app, folder), history) == wanted


def piped(app: sl.App, records: Sequence[Record]) -> list[Result]:
    with TopologyTestDriver(app) as driver:
        for record in records:
            driver.pipe_input("in", *record)
        return [(r.key, r.value, r.timestamp) for r in driver.read_output("out")]


def suppressed(until: Any, **settings: Any) -> sl.App:
    app = sl.App("a", **settings)
    app.table("in", key=str, value=str).suppress(until, store="held").to_stream().to("out")
    return app


@pytest.mark.parametrize(
    ("limit", "said"),
    [({"max_records": 2}, "3 of 2 records"), ({"max_bytes": 7}, "9 of 7 bytes")],
)
def test_a_full_buffer_shuts_down_if_it_is_to_whatever_the_error_policy_is(
    limit: dict[str, int], said: str
) -> None:
    until = sl.until_time_limit("1s", when_full="shut_down", **limit)
    records: list[Record] = [("a", "xx", 1), ("b", "xx", 2), ("a", "yy", 3)]
    app = suppressed(until, on_error="skip")
    assert piped(app, records) == []
    with pytest.raises(BufferFullError, match=f"with {said} at in-0 offset 3, operator KTABLE"):
        piped(app, [*records, ("c", "zz", 4)])


def test_closed_windows_make_room_before_a_buffer_counts_as_full() -> None:
    app = sl.App("a")
    windowed = app.stream("in", key=str, value=str).group_by_key().windowed_by(sl.tumbling(10))
    counts = windowed.count().suppress(sl.until_window_closes(max_records=1))
    counts.to_stream().to("out")
    assert piped(app, [("a", "v", 1), ("a", "v", 12)]) == [(sl.Windowed("a", 0, 10), 1, 1)]
    with pytest.raises(BufferFullError, match="2 of 1 records"):
        piped(app, [("a", "v", 1), ("b", "v", 2)])


def test_an_update_has_the_headers_of_its_record_and_a_failing_one_is_left_out() -> None:
    app = suppressed(sl.until_time_limit(10), on_error="skip")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "1", 5, headers=[("n", b"1")])
        driver.pipe_input("in", "a", "2", 6, headers=[("n", b"2"), ("n", None)])
        driver.pipe_input("in", "b", "3", 16)
        (record,) = driver.read_output("out")
        assert (record.key, record.value, record.timestamp) == ("a", "2", 6)
        assert record.headers == [("n", b"2"), ("n", None)]
        assert list(driver.store("held").all()) == [("b", "3")]


def test_a_value_that_changes_after_it_was_sent_on_waits_as_it_was() -> None:
    app = sl.App("a")
    table = app.table("in", key=str, value=list)
    table.suppress(sl.until_time_limit(10)).to_stream().to("out")
    table.to_stream().foreach(lambda key, value: value.append("changed"))
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", ["as it was"], 5)
        driver.pipe_input("in", "b", [], 15)
        assert [r.value for r in driver.read_output("out")] == [["as it was"]]


def test_a_mapped_value_of_the_wrong_type_fails_before_it_waits() -> None:
    app = sl.App("a", on_error="skip")
    table = app.table("in", key=str, value=str)
    mapped = table.map_values(lambda value: len(value) if value != "bad" else value, value=int)
    mapped.suppress(sl.until_time_limit(0), store="held").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "one"), ("b", "bad"), ("c", "three")])
        assert [(r.key, r.value) for r in driver.read_output("out")] == [("a", 3), ("c", 5)]


def test_bytes_are_counted_anew_when_a_bound_on_them_is_new(tmp_path: Path) -> None:
    records: list[Record] = [("a", "xx", 1), ("b", "yy", 2)]
    task = task_of(suppressed(sl.until_time_limit("1s")), tmp_path)
    assert task.send(records) == []
    task.commit()
    task.state.close()
    bound = task_of(suppressed(sl.until_time_limit("1s", max_bytes=8)), tmp_path)
    bound.task.positions[INPUT] = bound.offset = 2
    assert bound.send([("c", "zz", 3)]) == [("a", "xx", 1)]
    bound.state.close()


def described(until: Any) -> tuple[dict[str, Any], str]:
    app = sl.App("a")
    windowed = app.stream("in", key=str, value=str).group_by_key()
    counts = windowed.windowed_by(sl.session(40, grace=30)).count()
    counts.suppress(until).to_stream().to("out")
    (part,) = as_json(app.topology())["subtopologies"]
    return part["stores"][1], part["hash"]


def test_a_topology_shows_its_buffers_and_its_hash_contains_their_rules() -> None:
    store, same = described(sl.until_window_closes())
    assert (store["name"], store["changelog"]) == (
        "KTABLE-SUPPRESS-STATE-STORE-0000000004",
        "a-KTABLE-SUPPRESS-STATE-STORE-0000000004-changelog",
    )
    assert store["suppress"] == {
        "until": "window closes",
        "wait_ms": 70,
        "max_records": None,
        "max_bytes": None,
        "when_full": "shut_down",
    }
    others = [
        sl.until_window_closes(max_records=3),
        sl.until_window_closes(max_bytes=3),
        sl.until_time_limit(70),
        sl.until_time_limit(71),
        sl.until_time_limit(71, when_full="shut_down"),
    ]
    hashes = {same, *(described(until)[1] for until in others)}
    assert len(hashes) == 6
    assert described(sl.until_window_closes())[1] == same


def test_only_windows_that_close_can_be_waited_for() -> None:
    grouped = sl.App("a").stream("in", key=str, value=str).group_by_key()
    until = sl.until_window_closes()
    for table in (
        grouped.count(),
        grouped.windowed_by(sl.unlimited()).count(),
        grouped.windowed_by(sl.tumbling(1), emit="final").count(),
    ):
        with pytest.raises(TopologyError, match="not that of windows that close and send updates"):
            table.suppress(until)
    with pytest.raises(TopologyError, match=r"suppress\(\) takes until_window_closes\(\) or"):
        grouped.count().suppress("10s")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match=r"max_records=-1\): expected a number from 0 on"):
        sl.until_window_closes(max_records=-1)
    with pytest.raises(TopologyError, match="'emit_early' or 'shut_down'"):
        sl.until_time_limit(1, when_full="spill")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match=r"until_time_limit\(wait=\) 'soon'"):
        sl.until_time_limit("soon")


def test_a_stream_is_joined_with_the_values_that_were_sent() -> None:
    app = sl.App("a")
    table = app.table("rows", key=str, value=str).map_values(str.upper)
    calm = table.suppress(sl.until_time_limit(10)).map_values(lambda value: f"{value}!")
    joined = app.stream("in", key=str, value=str).left_join(
        calm, lambda value, row: str(row), value=str
    )
    joined.to("out")
    calm.to_stream().to("calm")
    found = []
    with TopologyTestDriver(app) as driver:
        for key, value, time in (("a", "x", 1), ("b", "y", 11), ("a", "z", 12), ("b", "w", 22)):
            driver.pipe_input("rows", key, value, time)
            driver.pipe_input("in", "a", "v", time)
            found += [record.value for record in driver.read_output("out")]
    assert found == ["None", "X!", "X!", "Z!"]


def test_rows_that_a_commit_evicts_between_two_parts_are_still_there(tmp_path: Path) -> None:
    task = task_of(suppressed(sl.until_time_limit(10)), tmp_path)
    first: list[Record] = [(key, "1", 0) for key in "abcdef"]
    assert task.send([*first, ("x", "old", 1)]) == []
    task.commit()
    found = task.send([("y", "1", 10), ("x", "new", 10), ("y", "2", 11)])
    assert found == [*first, ("x", "new", 10)]
    task.state.close()
