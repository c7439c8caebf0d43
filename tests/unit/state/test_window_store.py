"""Window stores: rows by time, expiry, and the times that move with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamlet.serdes import Windowed, serde
from streamlet.state.backing import Columns
from streamlet.state.bucket_store import BucketStore, bucket_rows
from streamlet.state.task_state import TaskState
from streamlet.state.window_rows import (
    PROGRESS_KEY,
    WindowProgress,
    row_keys,
    sent_bytes,
    time_bytes,
)
from streamlet.state.window_times import WindowTimes
from streamlet.types import StateNumber, TopicPartition
from tests.unit.state.support import Layout, Spec, changelog

WINDOWS = Spec("s", window=Layout())
SESSIONS = Spec("s", value=bucket_rows(serde(int)), window=Layout(size_ms=None, bucket_ms=40))


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "disk" else None


def open_state(folder: Path | None, spec: Spec = WINDOWS, cache_bytes: int = 1) -> TaskState:
    return TaskState(folder, [spec], cache_bytes, {"s": changelog("s")})


def store_of(state: TaskState) -> Any:
    store = state.stores["s"]
    assert isinstance(store.times, WindowTimes)
    return store


def commit(state: TaskState, number: int = 1) -> Columns:
    drained = state.drain()
    state.write(drained, StateNumber(1, number), {})
    state.stores["s"].commits.check_invariants()
    return drained.columns["s"]


def window(key: str, start: int) -> Windowed[str]:
    return Windowed(key, start, start + 10)


def rows_on(state: TaskState) -> Iterator[bytes]:
    """Keys of the rows on the medium, without that of the progress."""
    return (key for key, _ in state._backing("s").scan(b"\x00", None))


def test_windows_are_read_by_key_and_start_and_in_order(folder: Path | None) -> None:
    state = open_state(folder)
    store = store_of(state)
    for key, start in [("b", 20), ("a", 20), ("a", 0)]:
        store.put(window(key, start), start + 1, time_ms=start + 5)
    in_order = [(window("a", 0), 1), (window("a", 20), 21), (window("b", 20), 21)]
    assert list(store.range()) == in_order
    commit(state)
    assert list(store.range()) == in_order
    assert list(store.range(20, 20)) == in_order[1:]
    assert (store.fetch("a", 20), store.fetch("a", 10), store.get(window("b", 20))) == (
        21,
        None,
        21,
    )
    assert store.timestamp(window("a", 20)) == 25
    store.put(window("a", 20), None)
    assert list(store.range(10)) == in_order[2:]
    state.close()


def test_rows_of_keys_that_are_not_exact_are_read_back(folder: Path | None) -> None:
    state = open_state(folder, Spec("s", window=Layout(key=float)))
    store = store_of(state)
    store.put(Windowed(1.5, 0, 10), 7)
    commit(state)
    assert list(store.range()) == [(Windowed(1.5, 0, 10), 7)]
    assert store.fetch(1.5, 0) == 7
    state.close()


def test_windows_before_the_epoch_sort_before_others() -> None:
    assert time_bytes(-1) < time_bytes(0) < time_bytes(1 << 40)
    rows = row_keys(serde(str))
    assert rows.decode(rows.encode((-5, "a"))) == (-5, "a")


def test_expired_windows_are_not_shown_and_leave_cache_and_medium(folder: Path | None) -> None:
    state = open_state(folder)
    store = store_of(state)
    store.put(window("a", 0), 1)
    store.put(window("a", 50), 2)
    commit(state)
    store.put(window("b", 100), 3)  # the last one that shows the window at 1
    assert [w.start for w, _ in store.range()] == [50, 100]
    assert store.fetch("a", 0) is None
    assert len(list(rows_on(state))) == 2
    columns = commit(state, 2)
    assert columns.expired is not None
    assert all(value is not None for value in columns.values), "a tombstone for an expired row"
    assert len(list(rows_on(state))) == 2
    store.put(window("b", 1_000), 4)
    assert store.commits._held.count() == 1
    commit(state, 3)
    assert len(list(rows_on(state))) == 1
    state.close()


def test_a_row_that_expires_before_its_commit_is_never_written(folder: Path | None) -> None:
    state = open_state(folder)
    store = store_of(state)
    store.put(window("a", 0), 1)
    store.put(window("a", 500), 2)
    store.commits.check_invariants()
    assert commit(state).keys == [PROGRESS_KEY, row_keys(serde(str)).encode((500, "a"))]
    state.close()


def test_a_row_that_expires_on_its_way_to_the_medium_leaves_it_with_the_next_commit(
    folder: Path | None,
) -> None:
    state = open_state(folder)
    store = store_of(state)
    store.put(window("a", 0), 1)
    drained = state.drain()
    store.put(window("a", 500), 2)
    store.commits.check_invariants()
    assert [w.start for w, _ in store.range()] == [500]
    state.write(drained, StateNumber(1, 1), {})
    store.commits.check_invariants()
    assert len(list(rows_on(state))) == 1
    commit(state, 2)
    assert [raw[8:] for raw in rows_on(state)] == [b"a"]
    assert store.fetch("a", 0) is None
    state.close()


def test_times_survive_a_restart_and_a_commit_of_times_alone_is_written(tmp_path: Path) -> None:
    state = open_state(tmp_path)
    store = store_of(state)
    assert not state.has_dirty()
    store.advance(70, 60, sent_bytes(50))
    assert state.has_dirty()
    assert commit(state).keys == [PROGRESS_KEY]
    assert not state.has_dirty()
    state.close()
    again = open_state(tmp_path)
    assert store_of(again).progress == WindowProgress(70, 60, sent_bytes(50))
    assert not again.has_dirty()
    again.close()


def test_times_that_were_not_written_are_forgotten_with_their_rows(folder: Path | None) -> None:
    state = open_state(folder)
    store = store_of(state)
    store.put(window("a", 10), 1)
    store.advance(15)
    commit(state)
    store.put(window("a", 1_000), 2)
    store.advance(1_000)
    state.drain()
    state.discard()
    store.commits.check_invariants()
    assert store.progress == WindowProgress(15, 10)
    assert list(store.range()) == [(window("a", 10), 1)]
    state.close()


def test_a_drain_that_is_taken_back_is_drained_again(folder: Path | None) -> None:
    other = Spec("z", value=int)
    state = TaskState(folder, [WINDOWS, other], 1, {"s": changelog("s")})
    store = store_of(state)
    store.put(window("a", 0), 1)
    state.stores["z"].put("k", "no int")
    with pytest.raises(Exception, match="expected int"):
        state.drain()
    state.stores["z"].put("k", 1)
    assert commit(state).keys[0] == PROGRESS_KEY
    state.close()


@pytest.mark.parametrize("count", [3, 30_000])
def test_a_reader_of_the_changelog_deletes_what_has_expired(tmp_path: Path, count: int) -> None:
    """Also where the rows are so many that they go in as one file."""
    state = open_state(tmp_path)
    keys = [row_keys(serde(str)).encode((start, "a")) for start in range(count)]
    rows: list[bytes | None] = [bytes(8) + serde(int).encode(start) for start in range(count)]
    progress = WindowProgress(count, count - 1).to_row()
    position = {"partition": TopicPartition("app-s-changelog", 0), "position": 9, "epoch": 1}
    columns = Columns("s", [*keys, PROGRESS_KEY], [*rows, progress])
    state.load(columns, **position)  # type: ignore[arg-type]
    kept = min(count, 100)
    assert len(list(rows_on(state))) == kept
    store = store_of(state)
    assert [w.start for w, _ in store.range()] == list(range(count - kept, count))
    later = WindowProgress(count + 1_000, count + 1_000).to_row()
    state.load(Columns("s", [PROGRESS_KEY], [later]), **position)  # type: ignore[arg-type]
    assert list(rows_on(state)) == []
    assert store.progress.highest == count + 1_000
    state.close()


def test_times_are_written_again_with_all_rows_where_a_changelog_lost_some(
    folder: Path | None,
) -> None:
    state = open_state(folder)
    store_of(state).put(window("a", 10), 1)
    commit(state)
    state.write_again("s", [PROGRESS_KEY, *rows_on(state)])
    columns = commit(state, 2)
    assert sorted(columns.keys) == [PROGRESS_KEY, *rows_on(state)]
    assert None not in columns.values
    state.close()


def test_a_store_without_retention_keeps_all_windows(folder: Path | None) -> None:
    state = open_state(folder, Spec("s", window=Layout(retention_ms=None)))
    store = store_of(state)
    store.put(window("a", 0), 1)
    store.put(window("a", 1 << 40), 2)
    assert commit(state).expired is None
    assert len(list(store.range())) == 2
    state.close()


def session(key: str, start: int, end: int) -> Windowed[str]:
    return Windowed(key, start, end)


def test_sessions_of_a_key_share_rows_and_are_read_by_their_ends(folder: Path | None) -> None:
    state = open_state(folder, SESSIONS)
    store = store_of(state)
    assert isinstance(store, BucketStore)
    for key, start, end in [("b", 5, 30), ("a", 0, 10), ("a", 20, 30), ("a", 45, 90)]:
        store.put(session(key, start, end), end)
    commit(state)
    assert len(list(rows_on(state))) == 3
    ends = [(w.key, w.start, w.end) for w, _ in store.range()]
    assert ends == [("a", 0, 10), ("a", 20, 30), ("b", 5, 30), ("a", 45, 90)]
    assert [w.end for w, _ in store.range(30, 89)] == [30, 30]
    assert (store.fetch("a", 20), store.fetch("a", 21)) == (30, None)
    assert [item[:2] for item in store.items("a", 10, 90)] == [(10, 0), (30, 20), (90, 45)]
    assert [item[:2] for item in store.items("a", 11, 89)] == [(30, 20)]
    store.put(session("a", 20, 30), None)
    assert store.fetch("a", 20) is None
    assert len(list(store.range())) == 3
    state.close()


def test_expired_sessions_leave_rows_that_are_written_and_rows_that_are_past(
    folder: Path | None,
) -> None:
    state = open_state(folder, SESSIONS)
    store = store_of(state)
    assert isinstance(store, BucketStore)
    for start, end in [(0, 10), (50, 55), (70, 75)]:
        store.put(session("a", start, end), end)
    commit(state)
    store.put(session("b", 170, 170), 1)  # shows ends from 71 on
    assert [w.end for w, _ in store.range()] == [75, 170]
    commit(state, 2)
    assert [item[:2] for item in store.load((40, "a"))] == [(55, 50), (75, 70)]
    store.put(session("a", 78, 79), 1)
    assert [item[:2] for item in store.load((40, "a"))] == [(75, 70), (79, 78)]
    assert len(list(rows_on(state))) == 2
    state.close()
