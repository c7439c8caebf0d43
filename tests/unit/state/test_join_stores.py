"""Stores of joins of streams: records of one key and time, and records that wait for a match."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from streamlet.errors import SerdeError
from streamlet.serdes import Windowed, serde
from streamlet.state.backing import Columns
from streamlet.state.join_rows import ROW_RECORDS, kept_rows
from streamlet.state.join_store import JoinStore
from streamlet.state.task_state import TaskState
from streamlet.state.unmatched_store import LEFT, RIGHT, UnmatchedStore, unmatched_rows
from streamlet.types import StateNumber
from tests.unit.state.support import Layout, Spec, changelog

BUCKET = 1_024


JOINED = partial(Layout, retention_ms=2_000, size_ms=100, bucket_ms=BUCKET)
RECORDS = Spec("s", value=kept_rows(serde(str)), window=JOINED(), join="records")
WAITING = Spec("s", value=unmatched_rows(serde(str), serde(int)), join="unmatched")


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "disk" else None


def open_state(folder: Path | None, spec: Spec = RECORDS) -> TaskState:
    return TaskState(folder, [spec], 1, {"s": changelog("s")})


def records_of(state: TaskState) -> JoinStore:
    store = state.stores["s"]
    assert isinstance(store, JoinStore)
    return store


def waiting_of(state: TaskState) -> UnmatchedStore:
    store = state.stores["s"]
    assert isinstance(store, UnmatchedStore)
    return store


def taken(store: UnmatchedStore, left: int, right: int) -> list[tuple[Any, list[Any]]]:
    places = store.close(left, right)
    return list(zip(places, store.take(places), strict=True))


def commit(state: TaskState, number: int) -> Columns:
    drained = state.drain()
    state.write(drained, StateNumber(1, number), {})
    state.stores["s"].commits.check_invariants()
    return drained.columns["s"]


def added(store: JoinStore, key: str, time: int, count: int, first: int = 0) -> None:
    values = [f"v{first + n}" for n in range(count)]
    assert store.add([key] * count, [time] * count, values) == (count, None)


@pytest.mark.parametrize("offset", [0, 1, 500, BUCKET - 1])
@pytest.mark.parametrize("count", [1, 8, 9, 64, 65, 700])
def test_all_records_of_a_key_and_time_are_there_after_a_restart(
    tmp_path: Path, offset: int, count: int
) -> None:
    """Also at the very start of a bucket, where more rows than milliseconds are in use."""
    time = 7 * BUCKET + offset
    state = open_state(tmp_path)
    for number, first in enumerate(range(0, count, 50), 1):
        added(records_of(state), "a", time, min(50, count - first), first)
        commit(state, number)
        state.close()
        state = open_state(tmp_path)
    wanted = [(time, f"v{n}") for n in range(count)]
    assert records_of(state).found(["a", "b"], [time] * 2, [time] * 2) == [wanted, []]
    state.close()


def test_a_commit_writes_rows_that_changed_and_not_all_of_a_key(folder: Path | None) -> None:
    state = open_state(folder)
    added(records_of(state), "a", 5_000, 1_000)
    assert len(commit(state, 1).keys) == 1_000 // ROW_RECORDS + 1  # and the progress
    added(records_of(state), "a", 5_000, 1, 1_000)
    assert len(commit(state, 2).keys) == 1
    state.close()


def test_records_come_in_the_order_of_their_times_then_as_they_came(folder: Path | None) -> None:
    state = open_state(folder)
    store = records_of(state)
    times = [4_090, 4_100, 4_095, 4_100, 4_090]  # of two buckets
    store.add(["a"] * 5, times, list("vwxyz"))
    commit(state, 1)
    (found,) = store.found(["a"], [0], [9_000])
    assert found == [(4_090, "v"), (4_090, "z"), (4_095, "x"), (4_100, "w"), (4_100, "y")]
    assert store.found(["a", "a"], [4_091, 4_101], [4_100, 9_000]) == [found[2:], []]
    state.close()


def test_records_expire_by_the_latest_one_of_the_store(folder: Path | None) -> None:
    state = open_state(folder)
    store = records_of(state)
    added(store, "a", 1_000, 20)
    added(store, "b", 2_999, 1)
    assert len(store.found(["a"], [0], [9_000])[0]) == 20
    added(store, "b", 3_000, 1)
    assert store.found(["a"], [0], [9_000]) == [[]]
    added(store, "a", 1_000, 1)
    assert store.found(["a"], [0], [9_000]) == [[]]
    added(store, "b", 9_000, 1)
    columns = commit(state, 1)
    assert columns.expired is not None
    assert [key for key, _ in state._backing("s").scan(b"\x00", None)] == [
        key for key in columns.keys if key
    ]
    state.close()


def test_keys_that_are_no_exact_ones_are_told_apart(tmp_path: Path) -> None:
    spec = Spec("s", value=kept_rows(serde(str)), window=JOINED(serde(dict)), join="records")
    state = open_state(tmp_path, spec)
    store = records_of(state)
    ckeys = store.ckeys([{"k": 1}, {"k": 2}])
    store.add(ckeys, [5, 6], ["v", "w"])
    commit(state, 1)
    assert store.found(ckeys, [0, 0], [9, 9]) == [[(5, "v")], [(6, "w")]]
    assert [key.key for key, _ in store.range()] == [{"k": 1}, {"k": 2}]
    state.close()


def test_a_row_that_the_changelog_would_not_take_fails_with_its_record() -> None:
    state = open_state(None)
    store = records_of(state)
    store.commits.check_entries(1_000)
    done, error = store.add(["a"] * 3, [5] * 3, ["v" * 400, "w" * 600, "x"])
    assert (done, type(error)) == (1, SerdeError)
    assert store.found(["a"], [5], [5]) == [[(5, "v" * 400)]]
    state.close()


def test_the_way_for_all_stores_adds_and_reads_records(folder: Path | None) -> None:
    state = open_state(folder)
    store = records_of(state)
    key = Windowed("a", 50, 150)
    for value in ("v", None, "w"):
        store.put(key, value)
    assert list(store.range()) == [(key, "v"), (key, "w")]
    assert (store.get(key), store.timestamp(key)) == ("w", 50)
    assert (store.fetch("a", 51), store.timestamp(Windowed("b", 50, 150))) == (None, None)
    assert list(store.range(51)) == list(store.range(0, 49)) == []
    state.close()


def test_what_waits_comes_by_time_right_before_left_then_by_key(folder: Path | None) -> None:
    state = open_state(folder, WAITING)
    store = waiting_of(state)
    for time, raw, value in [
        (9, LEFT + b"a", "l0"),
        (5, LEFT + b"b", "l1"),
        (5, LEFT + b"a", "l2"),
        (5, RIGHT + b"b", 1),
        (5, LEFT + b"a", "l3"),
    ]:
        store.wait(time, raw, value)
    store.note(9)
    commit(state, 1)
    assert taken(store, 6, 6) == [
        ((5, RIGHT + b"b"), [1]),
        ((5, LEFT + b"a"), ["l2", "l3"]),
        ((5, LEFT + b"b"), ["l1"]),
    ]
    assert taken(store, 9, 9) == []
    store.commits.check_invariants()
    state.close()


def test_what_waits_and_its_times_are_there_after_a_restart(tmp_path: Path) -> None:
    state = open_state(tmp_path, WAITING)
    store = waiting_of(state)
    for time in (30, 20, 40):
        store.wait(time, LEFT + b"a", f"l{time}")
    store.matched(20, LEFT + b"a")
    store.matched(20, LEFT + b"a")  # once more, and where nothing waits
    store.matched(40, RIGHT + b"a")
    store.note(45)
    commit(state, 1)
    state.close()
    state = open_state(tmp_path, WAITING)
    store = waiting_of(state)
    assert (store.least, store.progress.observed) == (20, 45)
    store.commits.check_invariants()
    assert taken(store, 40, 0) == [((30, LEFT + b"a"), ["l30"])]
    assert store.least == 40
    assert taken(store, 41, 0) == [((40, LEFT + b"a"), ["l40"])]
    store.note(50)
    commit(state, 2)
    state.close()
    state = open_state(tmp_path, WAITING)
    assert list(waiting_of(state).range()) == []
    state.close()


@pytest.mark.parametrize(
    ("waits", "wanted"),
    [
        ([], None),
        ([(10, LEFT), (20, LEFT), (30, LEFT)], 30),  # no right one stays: all are looked at
        ([(10, LEFT), (20, LEFT), (21, RIGHT)], 21),  # nothing is behind the one that decides
        ([(20, LEFT), (21, RIGHT), (22, RIGHT), (23, LEFT)], 22),
        ([(20, LEFT), (21, RIGHT), (21, RIGHT), (23, LEFT)], 21),  # the same row once more
    ],
)
def test_least_is_the_time_of_the_row_at_which_kafka_streams_stops(
    waits: list[tuple[int, bytes]], wanted: int | None
) -> None:
    state = open_state(None, WAITING)
    store = waiting_of(state)
    for time, side in waits:
        store.wait(time, side + b"a", "l" if side == LEFT else 1)
    store.close(15, 15)
    assert store.least == wanted
    state.close()


def test_the_index_is_that_of_rows_on_the_medium_and_in_the_cache(tmp_path: Path) -> None:
    state = open_state(tmp_path, WAITING)
    store = waiting_of(state)
    for time in (10, 20, 30):
        store.wait(time, LEFT + b"a", f"l{time}")
    store.note(30)
    commit(state, 1)
    store.matched(10, LEFT + b"a")
    store.wait(40, LEFT + b"a", "l40")
    store.note(40)
    drained = state.drain()
    store.matched(20, LEFT + b"a")
    store.wait(50, RIGHT + b"b", 5)
    store._sides = None  # as if it had not been read yet
    store.commits.check_invariants()
    assert [place for place, _ in taken(store, 60, 60)] == [
        *((30, LEFT + b"a"), (40, LEFT + b"a"), (50, RIGHT + b"b"))
    ]
    state.write(drained, StateNumber(1, 2), {})
    store.commits.check_invariants()
    state.close()


def test_the_medium_is_asked_only_for_rows_that_may_be_on_it_alone(tmp_path: Path) -> None:
    """Keys that are nowhere are looked up as well, before and after an eviction and a restart."""
    state = TaskState(tmp_path, [RECORDS], 1 << 20, {"s": changelog("s")})
    store = records_of(state)
    backing: Any = Mock(wraps=store.commits.backing)
    wanted = ["a", "c"], [4_000] * 2, [6_000] * 2
    with patch.object(store.commits, "backing", backing):
        added(store, "a", 5_000, 1)
        commit(state, 1)
        assert store.found(*wanted) == [[(5_000, "v0")], []]
        assert backing.get_many.call_count == 0
        store.commits.evict(0)
        assert store.found(*wanted) == [[(5_000, "v0")], []]
        assert backing.get_many.call_count == 1
    state.close()
    state = TaskState(tmp_path, [RECORDS], 1 << 20, {"s": changelog("s")})
    assert records_of(state).found(*wanted) == [[(5_000, "v0")], []]
    state.close()
