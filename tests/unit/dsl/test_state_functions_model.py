"""State functions with timers against a naive model: any records, batches, crashes, restores."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.state import ordered_rows
from streamlet.state.timer_store import key_and_name
from tests.shares import share_of
from tests.unit.dsl.fed_tasks import Fed, FedTask, played

#: Key, what to do, and time.
Step = tuple[str, str, int]

OPERATIONS = ["count", "timer", "again", "later", "cancel", "clear", "fail"]


def counted(record: sl.Record[str, str], state: sl.State[str]) -> Iterator[Any]:
    state["n"] = state.get("n", 0) + 1
    match record.value:
        case "timer":
            state.timer(at=record.timestamp + 20)
        case "again":
            state.timer(after=5, name="again")
        case "later":
            state.timer(at=500, name="later")
        case "cancel":
            state.cancel_timer()
            state.cancel_timer("later")
        case "clear":
            state.clear()
        case "fail":
            state.timer(at=0, name="never")
            raise ValueError
    yield record.with_value(f"{dict(state)} {state.timer_time()} {state.timer_time('later')}")


def fired(timer: sl.Timer[str], state: sl.State[str]) -> tuple[str, str]:
    state["fired"] = state.get("fired", 0) + 1
    if timer.name == "again" and state["fired"] % 3:
        state.timer(after=7, name="again")
    return timer.key, f"{timer.name}@{timer.time} {dict(state)}"


@attrs.define
class Model:
    """The dicts and the timers, and what they send."""

    states: dict[str, dict[str, int]] = attrs.field(factory=dict)
    timers: dict[tuple[str, str], int] = attrs.field(factory=dict)
    observed: int = -1

    def record(self, key: str, operation: str, time: int) -> list[Fed]:
        self.observed = max(self.observed, time)
        sent = self._due()
        if operation != "fail":
            sent += self._counted(key, operation, time)
        return sent + self._due()

    def _counted(self, key: str, operation: str, time: int) -> list[Fed]:
        state = self.states.setdefault(key, {})
        state["n"] = state.get("n", 0) + 1
        wanted = {"timer": ("", time + 20), "again": ("again", time + 5), "later": ("later", 500)}
        if operation in wanted:
            name, at = wanted[operation]
            self.timers[key, name] = at
        elif operation == "cancel":
            self.timers.pop((key, ""), None)
            self.timers.pop((key, "later"), None)
        elif operation == "clear":
            state.clear()
        due = self.timers.get((key, "")), self.timers.get((key, "later"))
        return [(key, f"{state} {due[0]} {due[1]}", time)]

    def _due(self) -> list[Fed]:
        sent: list[Fed] = []
        while self.timers:
            at, _, (key, name) = min((t, _order(place), place) for place, t in self.timers.items())
            if at > self.observed:
                break
            del self.timers[key, name]
            state = self.states.setdefault(key, {})
            state["fired"] = state.get("fired", 0) + 1
            if name == "again" and state["fired"] % 3:
                self.timers[key, "again"] = at + 7
            sent.append((key, f"{name}@{at} {state}", at))
        return sent


def _order(place: tuple[str, str]) -> bytes:
    key, name = place
    return key.encode() + name.encode() + len(name).to_bytes(2)


STEPS = st.lists(
    st.one_of(
        st.lists(
            st.tuples(st.sampled_from("ab"), st.sampled_from(OPERATIONS), st.integers(0, 600)),
            min_size=1,
            max_size=6,
        ),
        st.sampled_from(["commit", "crash", "cold"]),
    ),
    max_size=12,
)


@pytest.mark.parametrize("front", [2, ordered_rows.FRONT])
@settings(max_examples=share_of(40), deadline=None)
@given(steps=STEPS)
def test_state_functions_do_what_the_model_does(front: int, steps: list[Any]) -> None:
    def build(stream: sl.KStream[str, str]) -> sl.KStream[Any, Any]:
        return stream.process(counted, on_timer=fired, key=str, value=str, name="s")

    with tempfile.TemporaryDirectory() as folder, patch.object(ordered_rows, "FRONT", front):
        task = FedTask(build, Path(folder))
        begun = model = Model()
        for model, records in played(task, begun, steps):
            if records is not None:
                wanted = [one for record in records for one in model.record(*record)]
                assert task.send(records) == wanted
        task.commit()
        kept = {key: state for key, state in model.states.items() if state}
        assert dict(task.state.stores["s-state"].range()) == kept
        kept_timers = task.state.stores["s-timers"].range()
        named = ((*key_and_name(timer), time) for timer, time in kept_timers)
        timers = {(key.decode(), name): time for key, name, time in named}
        assert timers == model.timers
        task.state.close()
