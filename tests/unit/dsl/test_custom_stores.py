"""Stores of the latest keys, and of a user's own."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.dsl.graph.builder import Builder
from streamlet.errors import StreamletError, TopologyError
from streamlet.state.task_state import TaskState
from streamlet.testing import TopologyTestDriver
from streamlet.types import StateNumber, TopicPartition
from tests.shares import share_of


class Kept:
    """A store of one task; its view can be had again as another owner of the task has it."""

    def __init__(self, built: sl.StoreBuilder[Any], folder: Path | None = None) -> None:
        self.built, self.folder, self.commits = built, folder, 0
        self.spec = built.added(Builder("a"))
        self.changelog: dict[bytes, bytes | None] = {}
        self.open()

    def open(self) -> None:
        self.state = TaskState(self.folder, [self.spec], 1, {"s": TopicPartition("s-changelog", 0)})
        if self.changelog:
            loader = self.state.loader("s")
            loader.add(list(self.changelog), list(self.changelog.values()))
            loader.flush(len(self.changelog), 1)
        self.task: Any = Task(self.state)
        self.view: Any = self.built.view(self.task, lambda: 0)

    def commit(self) -> None:
        self.commits += 1
        drained = self.state.drain()
        for part in drained.columns.values():
            self.changelog.update(zip(part.keys, part.values, strict=True))
        self.state.write(drained, StateNumber(1, self.commits), {})


class Task(SimpleNamespace):
    """What a view asks a task for."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, state: TaskState) -> None:
        super().__init__(store=state.stores.__getitem__)


KEYS = st.sampled_from("abcde")


@settings(max_examples=share_of(60), deadline=None)
@given(
    st.integers(1, 3),
    st.lists(
        st.sampled_from(["commit", "get", "handed over"]).flatmap(
            lambda what: st.tuples(st.just(what), KEYS)
        )
        | st.tuples(KEYS, st.integers(0, 3)),
        max_size=30,
    ),
)
def test_a_store_of_the_latest_keys_is_an_ordered_dict(most: int, steps: list[Any]) -> None:
    """A copy that another owner makes of the changelog has the same rows, in the order of puts."""
    kept = Kept(sl.lru_store("s", key=str, value=int, max_entries=most))
    model: OrderedDict[str, int] = OrderedDict()
    puts: list[str] = []
    for what, given_ in steps:
        if what == "commit":
            kept.commit()
        elif what == "handed over":
            kept.commit()
            kept.open()
            model = OrderedDict((key, model[key]) for key in sorted(model, key=puts.index))
        elif what == "get":
            assert kept.view.get(given_) == model.get(given_)
            if given_ in model:
                model.move_to_end(given_)
        elif given_:
            kept.view.put(what, given_)
            model[what] = given_
            model.move_to_end(what)
            puts = [*(key for key in puts if key != what), what]
            if len(model) > most:
                model.popitem(last=False)
        else:
            assert kept.view.delete(what) == model.pop(what, None)
        assert list(kept.view.all()) == sorted(model.items())
        assert list(kept.view.reverse_all()) == sorted(model.items(), reverse=True)
    kept.commit()
    live = {key for key, value in kept.changelog.items() if value is not None}
    assert live == {key.encode() for key in model}


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_latest_keys_are_known_after_a_restart(on_disk: bool, tmp_path: Path) -> None:
    built = sl.lru_store("s", key=str, value=int, max_entries=3)
    kept = Kept(built, tmp_path if on_disk else None)
    for key in "abc":
        kept.view.put(key, 1)
    kept.view.put("a", 2)
    kept.commit()
    if on_disk:
        kept.state.close()
        kept.changelog.clear()
    kept.open()
    kept.view.put("d", 1)
    kept.view.put("e", 1)
    assert list(kept.view.all()) == [("a", 2), ("d", 1), ("e", 1)]


class Largest:
    """Keys by their values, in an index in memory."""

    def __init__(self, rows: sl.KeyValueStore[str, int]) -> None:
        self.rows = rows
        self.index = {key: value for key, value in rows.all()}

    def put(self, key: str, value: int) -> None:
        self.rows.put(key, value)
        self.index[key] = value

    def largest(self) -> str:
        return max(self.index, key=self.index.__getitem__)


def test_a_store_of_ones_own_is_made_again_of_its_rows() -> None:
    kept = Kept(sl.custom_store("s", Largest, key=str, value=int))
    kept.view.put("a", 5)
    kept.view.put("b", 3)
    assert kept.view.largest() == "a"
    assert kept.built.view(kept.task, lambda: 0) is kept.view
    kept.commit()
    kept.view.put("b", 9)  # lost with the task
    kept.open()
    assert (kept.view.largest(), kept.view.index) == ("a", {"a": 5, "b": 3})


def test_processors_of_a_task_share_a_store_of_their_own() -> None:
    app = sl.App("a")
    store = sl.custom_store("s", Largest, key=str, value=int)

    def put(record: sl.Record[str, int], context: sl.ProcessorContext[str, int]) -> int:
        context.store("s").put(record.key, record.value)
        return record.value

    def look(record: sl.Record[str, int], context: sl.ProcessorContext[str, str]) -> str:
        found: str = context.store("s").largest()
        return found

    put_ = app.stream("in", key=str, value=int).process_values(put, stores=[store], value=int)
    put_.process_values(look, stores=[store], value=str).to("out")
    with TopologyTestDriver(app) as driver:
        for key, value in [("a", 1), ("b", 5), ("c", 2)]:
            driver.pipe_input("in", key, value)
        assert [record.value for record in driver.read_output("out")] == ["a", "b", "b"]
        assert driver.store("s").rows.get("b") == 5
        driver.store("s").put("a", 9)  # the same object
        driver.pipe_input("in", "c", 2)
        assert [record.value for record in driver.read_output("out")] == ["a"]


@pytest.mark.parametrize("failure", [RuntimeError("no index"), SystemExit(3), None])
def test_a_store_that_cannot_be_made_is_named(failure: BaseException | None) -> None:
    def make(rows: sl.KeyValueStore[str, int]) -> Any:
        if failure is not None:
            raise failure

    built = sl.custom_store("s", make, key=str, value=int)
    with pytest.raises(StreamletError, match="store 's': make"):
        Kept(built)


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(TopologyError, match="max_entries=0"):
        sl.lru_store("s", key=str, value=int, max_entries=0)
    with pytest.raises(TopologyError, match="takes"):
        sl.custom_store("s", lambda: None, key=str, value=int)  # type: ignore[arg-type, misc]
