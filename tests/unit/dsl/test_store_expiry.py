"""Stores of processors whose entries expire, against a naive model with crashes and restores."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.errors import TopologyError
from tests.shares import share_of
from tests.unit.dsl.fed_tasks import FedTask, played

TTL = 50


@attrs.define
class Model:
    """Values with their times, and the highest time of the records that the processor was given."""

    entries: dict[str, tuple[str, int]] = attrs.field(factory=dict)
    observed: int = -1

    def record(self, key: str, value: str, time: int, timed: bool) -> str:
        self.observed = max(self.observed, time)
        if value == "idle":
            return "idle"
        shown = {one: v for one, (v, at) in self.entries.items() if at + TTL > self.observed}
        if value == "delete":
            self.entries.pop(key, None)
        elif value != "look":
            self.entries[key] = value, time if timed else self.observed
        return f"{shown.get(key)} {sorted(shown.items())}"


STEPS = st.lists(
    st.one_of(
        st.lists(
            st.tuples(
                st.sampled_from("abcd"),
                st.sampled_from(["put", "other", "look", "delete", "idle", "pass"]),
                st.integers(0, 400),
            ),
            min_size=1,
            max_size=8,
        ),
        st.sampled_from(["commit", "crash", "cold"]),
    ),
    max_size=12,
)


@pytest.mark.parametrize("timed", [False, True])
@settings(max_examples=share_of(40), deadline=None)
@given(steps=STEPS)
@example(steps=[[("a", "look", 50)], "commit", "crash", [("a", "put", 0), ("a", "look", 0)]])
@example(steps=[[("a", "put", 0), ("a", "idle", 99)], "commit", "cold", [("a", "look", 0)]])
@example(steps=[[("a", "put", 0), ("a", "pass", 99)], "commit", "cold", [("a", "look", 0)]])
def test_entries_are_shown_until_their_time_is_over(timed: bool, steps: list[Any]) -> None:
    def act(record: sl.Record[str, str], context: Any) -> str:
        if record.value == "idle":
            return "idle"
        store = context.store("s")
        shown = [(key, row.value if timed else row) for key, row in store.all()]
        there = store.get(record.key)
        if record.value == "delete":
            store.delete(record.key)
        elif record.value != "look" and timed:
            store.put(record.key, record.value, record.timestamp)
        elif record.value != "look":
            store.put(record.key, record.value)
        return f"{there.value if timed and there else there} {shown}"

    build = sl.timestamped_store if timed else sl.key_value_store
    kept = build("s", key=str, value=str, ttl=TTL)
    with tempfile.TemporaryDirectory() as folder:
        task = FedTask(
            lambda stream: stream.filter(lambda key, value: value != "pass").process_values(
                act, stores=[kept], value=str
            ),
            Path(folder),
        )
        begun = Model()
        for model, records in played(task, begun, steps):
            if records is not None:
                given = [record for record in records if record[1] != "pass"]
                wanted = [model.record(*record, timed) for record in given]
                assert [value for _, value, _ in task.send(records)] == wanted
        task.state.close()


def put_or_look(record: sl.Record[str, str], context: Any) -> str:
    store = context.store("s")
    if record.value == "put":
        store.put(record.key, "x")
    return "idle" if record.value == "idle" else str(store.get(record.key))


def put_or_look_with_state(record: sl.Record[str, str], state: sl.State[Any], context: Any) -> str:
    return put_or_look(record, context)


def look_at_row(record: sl.Record[str, str], context: Any) -> str:
    row = None if record.value == "idle" else context.store("s").get(record.key)
    return "None" if row is None else str(row.value)


def reading(stream: sl.KStream[str, str]) -> sl.KStream[Any, Any]:
    """A processor beside the table whose rows it reads."""
    stream.filter(lambda key, value: value == "put").to_table(store=sl.Materialized("s", ttl=TTL))
    others = stream.filter(lambda key, value: value != "put")
    return others.process_values(look_at_row, stores=["s"], value=str)


def kept_in(function: Any) -> Any:
    kept = sl.key_value_store("s", key=str, value=str, ttl=TTL)
    return lambda stream: stream.process_values(function, stores=[kept], value=str)


@pytest.mark.parametrize("lost", ["crash", "cold"])
@pytest.mark.parametrize("build", [kept_in(put_or_look), kept_in(put_or_look_with_state), reading])
def test_records_for_which_a_store_is_not_touched_move_its_time_on_for_good(
    build: Any, lost: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        task = FedTask(build, Path(folder))
        task.send([("a", "put", 0), ("a", "idle", TTL)])
        task.commit()
        task.crash() if lost == "crash" else task.cold()
        assert task.send([("a", "look", TTL - 1)]) == [("a", "None", TTL - 1)]
        task.state.close()


def test_entries_that_have_expired_are_deleted_with_later_ones() -> None:
    def put(record: sl.Record[str, str], context: Any) -> None:
        context.store("s").put(record.key, "x")

    kept = sl.key_value_store("s", key=str, value=str, ttl=TTL)
    with tempfile.TemporaryDirectory() as folder:
        task = FedTask(
            lambda stream: stream.process(put, stores=[kept], key=str, value=str), Path(folder)
        )
        task.send([(str(number), "", number * 10) for number in range(200)])
        assert len(list(task.state.stores["s"].range())) <= TTL // 10 + 1
        assert len(list(task.state.stores["s-ttl"].range())) <= TTL // 10 + 1
        task.state.close()


def test_a_ttl_is_a_duration() -> None:
    with pytest.raises(TopologyError, match="store 's': ttl"):
        sl.key_value_store("s", key=str, value=str, ttl=0)
