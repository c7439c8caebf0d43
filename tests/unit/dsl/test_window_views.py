"""The stores of windows and sessions that processors keep, against what a dict would have."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.dsl.builder import Builder
from streamlet.errors import TopologyError
from streamlet.serdes import Windowed
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber

RETENTION = 40


class Kept:
    """A store of one task, whose view can be had again from its medium."""

    def __init__(self, built: sl.StoreBuilder) -> None:
        self.built = built
        self.state = TaskState.open(None, [built.added(Builder("a"))], 1 << 20)
        self.commits = 0

    @property
    def view(self) -> Any:
        task: Any = SimpleNamespace(store=self.state.stores.__getitem__)
        return self.built.view(task, lambda: 0)

    def restart(self) -> None:
        self.commits += 1
        self.state.write(self.state.drain(), StateNumber(1, self.commits), {})
        self.state.discard()
        for store in self.state.stores.values():
            store.forget()
            store.check_invariants()


TIMES = st.integers(0, 120)
KEYS = st.sampled_from("ab")
RESTART = st.just(None)


@settings(max_examples=60, deadline=None)
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
            assert list(kept.view.fetch_range(key)) == mine
            inside = [(at, one) for at, one in mine if 20 <= at <= 60]
            assert list(kept.view.fetch_range(key, 20, 60)) == inside
            assert kept.view.fetch(key, start) == model.get((key, start))
        everything = sorted((at, key, one) for (key, at), one in model.items())
        shown = [(window.start, window.key, one) for window, one in kept.view.all()]
        assert shown == everything


@settings(max_examples=60, deadline=None)
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


def test_times_and_keys_are_checked() -> None:
    kept = Kept(sl.window_store("w", key=str, value=int, size=10, retention=RETENTION))
    with pytest.raises(TypeError, match="the start of a window"):
        kept.view.put("a", 1, -1)
    with pytest.raises(TypeError, match="a key cannot be None"):
        kept.view.put(None, 1, 1)
