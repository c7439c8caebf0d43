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
from tests.unit.dsl.fed_tasks import FedTask, played

TTL = 50


@attrs.define
class Model:
    """Values with their times, and stream time."""

    entries: dict[str, tuple[str, int]] = attrs.field(factory=dict)
    observed: int = -1

    def record(self, key: str, value: str, time: int, timed: bool) -> str:
        self.observed = max(self.observed, time)
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
                st.sampled_from(["put", "other", "look", "delete"]),
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
@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
@example(steps=[[("a", "look", 50)], "commit", "crash", [("a", "put", 0), ("a", "look", 0)]])
def test_entries_are_shown_until_their_time_is_over(timed: bool, steps: list[Any]) -> None:
    def act(record: sl.Record[str, str], context: Any) -> str:
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
            lambda stream: stream.process_values(act, stores=[kept], value=str), Path(folder)
        )
        begun = Model()
        for model, records in played(task, begun, steps):
            if records is not None:
                wanted = [model.record(*record, timed) for record in records]
                assert [value for _, value, _ in task.send(records)] == wanted
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
