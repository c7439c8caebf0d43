"""``emit="final"``: one result for each window, when it closes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import streamlet as sl
from streamlet.dsl.table import KTable
from streamlet.dsl.windowed import WindowedKStream
from streamlet.dsl.windowing import final_results
from streamlet.dsl.windowing.windows import ClosingWindows, SessionWindows
from streamlet.errors import TopologyError
from streamlet.state.window_rows import PROGRESS_KEY
from streamlet.testing import TopologyTestDriver
from tests.shares import share_of
from tests.unit.dsl.test_windows_model import History, histories, run, timed
from tests.unit.dsl.window_tasks import Update, WindowTask

KINDS: list[ClosingWindows] = [
    sl.tumbling(20),
    sl.tumbling(20, grace=30),
    sl.hopping(50, 20, grace=7),
    sl.sliding(15, grace=10),
    sl.session(10, grace=25),
]


def kept(windowed: WindowedKStream[str, str]) -> KTable[Any, Any]:
    """Counts whose windows do not expire.

    But sessions do: with a longer retention, as in Kafka Streams, a record that is not late may
    merge a session that is closed, and whose result was sent.
    """
    if isinstance(windowed._windows, SessionWindows):
        return windowed.count(store="windows")
    return windowed.count(store=sl.Materialized("windows", retention="1d"))


def results(windows: ClosingWindows, history: History, emit: Any, fold: Any) -> list[Update]:
    with tempfile.TemporaryDirectory() as folder:
        return run(WindowTask(windows, Path(folder), fold, emit=emit), history)


@pytest.mark.parametrize("windows", KINDS, ids=str)
@settings(max_examples=share_of(12), deadline=None)
@given(history=histories)
def test_each_closed_window_has_its_last_update_as_its_one_result(
    windows: ClosingWindows, history: History
) -> None:
    """Whatever the batches, commits and restarts are."""
    final = results(windows, history, "final", kept)
    last = {update[:3]: update[3] for update in results(windows, history, "updates", kept)}
    records = [record for batch, _ in timed(history) for record in batch]
    stream_time = max((time for key, time in records if key is not None), default=0)
    closed = windows.last_closed(stream_time)
    session = isinstance(windows, SessionWindows)
    wanted = {
        (*window, value)
        for window, value in last.items()
        if value is not None and window[2 if session else 1] <= closed
    }
    assert len(final) == len(set(final))
    assert set(final) == wanted


@pytest.mark.parametrize("windows", KINDS, ids=str)
@settings(max_examples=share_of(12), deadline=None)
@given(history=histories)
def test_a_batch_gives_what_its_records_give_one_by_one(
    windows: ClosingWindows, history: History
) -> None:
    single: History = [([record], "") for batch, _ in history for record in batch]

    def counted(windowed: WindowedKStream[str, str]) -> KTable[Any, Any]:
        return windowed.count(store="windows")

    whole = results(windows, history, "final", counted)
    assert whole == results(windows, single, "final", counted)


@pytest.mark.parametrize("windows", KINDS, ids=str)
@pytest.mark.parametrize("committed", [False, True])
def test_many_windows_that_close_at_once_give_their_results_in_parts(
    windows: ClosingWindows, committed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same results in the same order, with other work between two parts."""
    monkeypatch.setattr(final_results, "INDEX_PART", 40)
    first = [(f"k{i % 250}", i % 3) for i in range(600)]
    found = []
    for part in (1_000, 7):
        monkeypatch.setattr(final_results, "PART", part)
        folder = tmp_path / str(part)
        one = WindowTask(windows, folder, kept, emit="final", in_parts=part == 7)
        assert one.send(first) == []
        if committed:
            one.commit()
        found.append(one.send([("k1", 200), ("k2", 200)]))
        assert (one.parts > 30) == (part == 7)
        one.close()
    assert len(found[0]) >= 250
    assert found[0] == found[1]


def test_a_record_that_fails_closes_windows_too() -> None:
    app = sl.App("a", on_error="skip")
    grouped = app.stream("in", key=str, value=str).group_by_key()
    windowed = grouped.windowed_by(sl.tumbling(10), emit="final")
    windowed.aggregate(int, lambda key, value, count: count + int(value)).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "1", 5)
        driver.pipe_inputs("in", [("a", "bad"), ("b", "2")], 12)
        driver.pipe_input("in", "b", "3", 25)
        found = [(r.key.key, r.value, r.timestamp) for r in driver.read_output("out")]
    assert found == [("a", 1, 5), ("b", 2, 12)]


@pytest.mark.parametrize(
    "windows", [sl.tumbling(10), sl.tumbling(10, grace=10), sl.hopping(20, 10, grace=30)], ids=str
)
def test_the_default_retention_keeps_results_until_the_next_windows_begin(
    windows: ClosingWindows,
) -> None:
    app = sl.App("a")
    windowed = app.stream("in", key=str, value=str).group_by_key()
    windowed.windowed_by(windows, emit="final").count().to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        for time in range(0, 200, 10):
            driver.pipe_input("in", "a", "v", time)
        found = [record.key.start for record in driver.read_output("out")]
    assert found == list(range(0, windows.last_closed(190) + 1, 10))
    assert len(found) > 10


def test_a_session_that_expired_unsent_is_kept_by_a_commit_before_any_record(
    tmp_path: Path,
) -> None:
    """A new owner's first commit may write what a zombie wrote as well, and cut the log off."""
    task = WindowTask(sl.session(40, grace=30), tmp_path, emit="final")
    assert task.send([("a", 110), ("b", 180)]) == []
    task.commit()
    task.restart()
    task.state.write_again("windows", [PROGRESS_KEY])
    task.commit()
    assert task.send([("b", 181)]) == [("a", 110, 110, 1)]
    task.close()


def test_a_final_result_has_the_headers_of_the_record_that_closed_its_window() -> None:
    app = sl.App("a")
    windowed = app.stream("in", key=str, value=str).group_by_key()
    windowed.windowed_by(sl.tumbling(10), emit="final").count().to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "v", 5, headers=[("n", b"1")])
        driver.pipe_input("in", "b", "v", 10, headers=[("n", b"2")])
        (record,) = driver.read_output("out")
    assert (record.key, record.timestamp) == (sl.Windowed("a", 0, 10), 5)
    assert record.headers == [("n", b"2")]


def test_windows_that_never_close_and_unknown_ways_are_refused() -> None:
    grouped = sl.App("a").stream("in", key=str, value=str).group_by_key()
    with pytest.raises(TopologyError, match="an unlimited window never closes"):
        grouped.windowed_by(sl.unlimited(), emit="final")
    with pytest.raises(TopologyError, match="expected 'updates', 'on_commit' or 'final'"):
        grouped.windowed_by(sl.tumbling(1), emit="closed")  # type: ignore[arg-type]


def test_stream_time_that_is_moved_on_closes_windows() -> None:
    app = sl.App("a")
    grouped = app.stream("in", key=str, value=str).group_by_key()
    windowed = grouped.windowed_by(sl.tumbling(20), emit="final")
    windowed.count(store="final").to_stream().to("final")
    updates = grouped.windowed_by(sl.tumbling(20)).count(store="updates")
    updates.suppress(sl.until_window_closes()).to_stream().to("held")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "a", "x", timestamp_ms=5)
        driver.advance_stream_time(14)
        assert driver.read_output("final") + driver.read_output("held") == []
        driver.advance_stream_time(1)
        told = [driver.read_output(topic) for topic in ("final", "held")]
        window = sl.Windowed("a", 0, 20)
        assert [[(r.key, r.value) for r in records] for records in told] == [[(window, 1)]] * 2
        driver.pipe_input("in", "a", "x", timestamp_ms=6)
        assert driver.late() == 2
        driver.advance_stream_time(100)
        assert driver.read_output("final") + driver.read_output("held") == []
