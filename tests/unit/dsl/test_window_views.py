"""The stores of windows and sessions that processors keep, against what a dict would have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.dsl.graph.builder import Builder
from streamlet.errors import TopologyError
from streamlet.serdes import Windowed
from streamlet.state.task_state import TaskState
from streamlet.testing import TopologyTestDriver
from streamlet.types import StateNumber
from tests.shares import share_of

RETENTION = 40


class Kept:
    """A store of one task, whose view can be had again from its medium."""

    def __init__(self, built: sl.StoreBuilder[Any], folder: Path | None = None) -> None:
        self.built = built
        self.state = TaskState(folder, [built.added(Builder("a"))], 1)
        self.commits = 0

    def commit(self) -> None:
        self.commits += 1
        self.state.write(self.state.drain(), StateNumber(1, self.commits), {})

    @property
    def view(self) -> Any:
        task: Any = SimpleNamespace(store=self.state.stores.__getitem__)
        return self.built.view(task, lambda: 0)

    def restart(self) -> None:
        self.commit()
        self.state.discard()
        for store in self.state.stores.values():
            store.commits.forget()
            store.commits.check_invariants()


TIMES = st.integers(0, 120)
KEYS = st.sampled_from("ab")
RESTART = st.just(None)


@settings(max_examples=share_of(60), deadline=None)
@given(st.lists(RESTART | st.tuples(KEYS, TIMES, st.integers(0, 3))))
def test_a_window_store_has_what_was_put_and_not_expired(steps: list[Any]) -> None:
    kept = Kept(sl.window_store("w", key=str, value=int, size=10, retention=RETENTION))
    model: dict[tuple[str, int], int] = {}
    highest = -1
    for step in steps:
        if step is None:
            kept.restart()
            continue
        key, start, value = step
        kept.view.put(key, value or None, start)
        highest = max(highest, start)
        model[key, start] = value
        model = {at: one for at, one in model.items() if one and at[1] > highest - RETENTION}
        for key in "ab":
            mine = sorted((at, one) for (own, at), one in model.items() if own == key)
            assert list(kept.view.fetch(key, None, None)) == mine
            inside = [(at, one) for at, one in mine if 20 <= at <= 60]
            assert list(kept.view.fetch(key, 20, 60)) == inside
            assert kept.view.fetch(key, start) == model.get((key, start))
        everything = sorted((at, key, one) for (key, at), one in model.items())
        shown = [(window.start, window.key, one) for window, one in kept.view.all()]
        assert shown == everything


@settings(max_examples=share_of(60), deadline=None)
@given(st.lists(RESTART | st.tuples(KEYS, TIMES, st.integers(0, 20), st.integers(0, 3))))
def test_a_session_store_has_what_was_put_and_not_expired(steps: list[Any]) -> None:
    kept = Kept(sl.session_store("s", key=str, value=int, retention=RETENTION))
    model: dict[tuple[str, int, int], int] = {}
    highest = -1
    for step in steps:
        if step is None:
            kept.restart()
            continue
        key, start, length, value = step
        end = start + length
        kept.view.put(Windowed(key, start, end), value or None)
        highest = max(highest, end)
        model[key, end, start] = value
        model = {at: one for at, one in model.items() if one and at[1] > highest - RETENTION}
        assert kept.view.fetch_session(key, start, end) == model.get((key, end, start))
        for key in "ab":
            mine = sorted(at for at in model if at[0] == key)
            found = [(window.end, window.start) for window, _ in kept.view.fetch(key)]
            assert found == [at[1:] for at in mine]
            some = [at[1:] for at in mine if at[1] >= 30 and at[2] <= 50]
            found = [(one.end, one.start) for one, _ in kept.view.find_sessions(key, 30, 50)]
            assert found == some


#: Keys whose order by bytes is not that of their lengths, nor of all text.
ORDERED = st.sampled_from(["", "a", "ab", "b", "é"])
#: A step: what to do, keys and times of a put or a read.
STEPS = st.lists(
    st.sampled_from(["put", "put", "put", "read", "commit", "restart"]).flatmap(
        lambda what: st.tuples(st.just(what), ORDERED, ORDERED, TIMES, TIMES, st.integers(0, 3))
    ),
    max_size=25,
)


def by_bytes(row: tuple[str, int, int]) -> tuple[int, bytes, int]:
    """The order of rows ``(key, time, second time)``."""
    return row[1], row[0].encode(), row[2]


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("duplicates", [False, True])
def test_windows_of_ranges_of_keys_come_in_order_and_backwards(
    on_disk: bool, duplicates: bool
) -> None:
    @settings(max_examples=share_of(8 if on_disk else 40), deadline=None)
    @given(STEPS)
    def holds(steps: list[Any]) -> None:
        with TemporaryDirectory() as folder:
            check_windows(steps, Path(folder) if on_disk else None, duplicates)

    holds()


def check_windows(steps: list[Any], folder: Path | None, duplicates: bool) -> None:
    built = sl.window_store(
        "w", key=str, value=int, size=10, retention=RETENTION, retain_duplicates=duplicates
    )
    kept = Kept(built, folder)
    model: dict[tuple[str, int, int], int] = {}
    highest = -1
    for number, (what, key, other, start, last, value) in enumerate(steps):
        view = kept.view
        if what == "put":
            view.put(key, value or None, start)
            if value or not duplicates:
                highest = max(highest, start)
                model[key, start, number if duplicates else 0] = value
            model = {at: v for at, v in model.items() if v and at[1] > highest - RETENTION}
        elif what == "commit":
            kept.commit()
        elif what == "restart":
            kept.restart()
        else:
            rows = sorted(model, key=by_bytes)
            found = [(Windowed(k, at, at + 10), model[k, at, n]) for k, at, n in rows]
            ends = sorted([key.encode(), other.encode()])
            some = [
                row
                for row in found
                if ends[0] <= row[0].key.encode() <= ends[1] and start <= row[0].start <= last
            ]
            low, high = (end.decode() for end in ends)
            assert list(view.fetch(low, high, start, last)) == some
            assert list(view.backward_fetch(low, high, start, last)) == some[::-1]
            own = [(row[0].start, row[1]) for row in found if row[0].key == key]
            assert list(view.fetch(key, None, None)) == own
            assert list(view.backward_fetch(key, None, None)) == own[::-1]
            assert list(view.fetch(None, None, None, None)) == list(view.all()) == found
            assert list(view.backward_all()) == found[::-1]
            inside = [row for row in found if start <= row[0].start <= last]
            assert list(view.fetch_all(start, last)) == inside
            assert list(view.backward_fetch_all(start, last)) == inside[::-1]
            same = [v for at, v in own if at == start]
            assert view.fetch(key, start) == (same[-1] if same else None)
    kept.state.close()


@pytest.mark.parametrize("on_disk", [False, True])
def test_sessions_of_ranges_of_keys_come_in_order_and_backwards(on_disk: bool) -> None:
    @settings(max_examples=share_of(8 if on_disk else 40), deadline=None)
    @given(STEPS)
    def holds(steps: list[Any]) -> None:
        with TemporaryDirectory() as folder:
            check_sessions(steps, Path(folder) if on_disk else None)

    holds()


def check_sessions(steps: list[Any], folder: Path | None) -> None:
    kept = Kept(sl.session_store("s", key=str, value=int, retention=RETENTION), folder)
    model: dict[tuple[str, int, int], int] = {}
    highest = -1
    for what, key, other, one, two, value in steps:
        view, (start, end) = kept.view, sorted((one, two))
        if what == "put":
            view.put(Windowed(key, start, end), value or None)
            highest = max(highest, end)
            model[key, end, start] = value
            model = {at: v for at, v in model.items() if v and at[1] > highest - RETENTION}
        elif what == "commit":
            kept.commit()
        elif what == "restart":
            kept.restart()
        else:
            rows = sorted(model, key=by_bytes)
            found = [(Windowed(k, at, until), model[k, until, at]) for k, until, at in rows]
            ends = sorted([key.encode(), other.encode()])
            low, high = (raw.decode() for raw in ends)
            keys = [row for row in found if ends[0] <= row[0].key.encode() <= ends[1]]
            assert list(view.fetch(low, high)) == keys
            assert list(view.backward_fetch(low, high)) == keys[::-1]
            some = [row for row in keys if row[0].end >= start and row[0].start <= end]
            assert list(view.find_sessions(low, high, start, end)) == some
            assert list(view.backward_find_sessions(low, high, start, end)) == some[::-1]
            ended = [row for row in found if start <= row[0].end <= end]
            assert list(view.find_sessions(start, end)) == ended
            assert list(view.find_sessions(None, end)) == [r for r in found if r[0].end <= end]
            assert list(view.backward_find_sessions(start, end)) == ended[::-1]
            own = [row for row in found if row[0].key == key]
            assert list(view.fetch(key)) == own
            assert list(view.backward_fetch(key)) == own[::-1]
            assert list(view.backward_all()) == found[::-1]
            assert view.fetch_session(key, start, end) == model.get((key, end, start))
    kept.state.close()


def test_windows_that_change_while_they_are_read_are_seen_as_they_are_then() -> None:
    kept = Kept(sl.window_store("w", key=str, value=int, size=10, retention=RETENTION))
    for start in range(0, 30, 10):
        for key in "abc":
            kept.view.put(key, start, start)
    kept.commit()
    seen = []
    for window, value in kept.view.backward_fetch("a", "b", 0, 20):
        seen.append((window.start, window.key, value))
        kept.view.put("a", None, 0)
        kept.view.put("c", 1, 10)
    assert seen == [(20, "b", 20), (20, "a", 20), (10, "b", 10), (10, "a", 10), (0, "b", 0)]
    assert kept.view.fetch("a", 0) is None


def test_reads_take_keys_and_times() -> None:
    kept = Kept(sl.window_store("w", key=str, value=int, size=10, retention=RETENTION))
    for given_, message in [
        (("a",), "a key or two"),
        (("a", "b", 1, 2, 3), "a key or two"),
        (("a", "x", 2), "the first time"),
        ((None, 1, 2), "a key cannot be None"),
        (("a", -1), "the start of a window"),
    ]:
        with pytest.raises(TypeError, match=message):
            kept.view.fetch(*given_)
    sessions = Kept(sl.session_store("s", key=str, value=int, retention=RETENTION))
    with pytest.raises(TypeError, match="the earliest end"):
        sessions.view.find_sessions("a")
    with pytest.raises(TypeError, match="the first time"):
        sessions.view.find_sessions("a", 5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sl.window_store("w", key=str, value=int, size=10, retention=5), "shorter"),
        (lambda: sl.window_store("w", key=str, value=int, size=0, retention=5), "size"),
        (lambda: sl.session_store("s", key=str, value=int, retention="long"), "retention"),
        (lambda: sl.session_store("", key=str, value=int, retention=5), "needs a name"),
    ],
)
def test_what_is_no_store_is_refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        build()


@pytest.mark.parametrize("furthest", [(1 << 63) - 1, 1 << 80])
def test_ends_as_far_away_as_numbers_go_are_open(furthest: int) -> None:
    windows = Kept(sl.window_store("w", key=str, value=int, size=10, retention=RETENTION))
    several = sl.window_store(
        "d", key=str, value=int, size=10, retention=RETENTION, retain_duplicates=True
    )
    for view in (windows.view, Kept(several).view):
        view.put("a", 1, 7)
        assert [*view.fetch("a", -furthest, furthest)] == [(7, 1)]
        assert [*view.backward_fetch_all(-furthest, furthest)] == [*view.all()]
    sessions = Kept(sl.session_store("s", key=str, value=int, retention=RETENTION)).view
    sessions.put(Windowed("a", 3, 7), 1)
    assert [*sessions.find_sessions(-furthest, furthest)] == [(Windowed("a", 3, 7), 1)]
    assert [*sessions.find_sessions("a", -furthest, furthest)] == [(Windowed("a", 3, 7), 1)]


def test_times_and_keys_are_checked() -> None:
    kept = Kept(sl.window_store("w", key=str, value=int, size=10, retention=RETENTION))
    with pytest.raises(TypeError, match="the start of a window"):
        kept.view.put("a", 1, -1)
    with pytest.raises(TypeError, match="a key cannot be None"):
        kept.view.put(None, 1, 1)


def test_a_session_is_a_windowed_key_that_does_not_end_before_it_begins() -> None:
    view = Kept(sl.session_store("s", key=str, value=int, retention=RETENTION)).view
    for call in (view.remove, view.timestamp, lambda session: view.put(session, 1)):
        with pytest.raises(TypeError, match="store s: expected a Windowed key, got 'a'"):
            call("a")
    with pytest.raises(ValueError, match="from 9 to 5 would end before it begins"):
        view.put(Windowed("a", 9, 5), 1)
    view.put(Windowed("a", 5, 5), 1)
    assert [*view.all()] == [(Windowed("a", 5, 5), 1)]


@pytest.mark.parametrize(
    "windows", [sl.tumbling(10), sl.hopping(10, 5), sl.sliding(10), sl.session(3), sl.unlimited()]
)
def test_windows_are_read_by_windowed_keys_too(windows: Any) -> None:
    app = sl.App("a")
    app.stream("in", key=str, value=int).group_by_key().windowed_by(windows).count(store="s")
    with TopologyTestDriver(app) as driver:
        for time, key in [(1, "a"), (2, "b"), (3, "a"), (30, "a")]:
            driver.pipe_input("in", key, 1, time)
        store = driver.store("s")
        found = list(store.range())
        assert found == list(store.all())
        assert found
        assert [(window, store.get(window)) for window, _ in found] == found
        assert store.get(sl.Windowed("a", 5_000, 5_010)) is None
        with pytest.raises(TypeError, match="expected a Windowed key, got 'a'"):
            store.get("a")
