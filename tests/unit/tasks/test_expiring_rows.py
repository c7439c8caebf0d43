"""Rows that expire (``ttl=``) over changelogs in memory: whoever goes on shows what is not over."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.dsl.processors.state_operator import EXPIRY
from streamlet.state.rows import NO_TIME
from streamlet.state.task_state import TaskState
from streamlet.state.timer_store import timer_key
from streamlet.topology.graph import Topology
from tests.unit.tasks.compared import ComparedWorld, live_through

TTL = 50
#: Stores whose rows expire, each with the store of timers beside it.
STORES = {"counts": "counts-ttl", "own": "own-ttl", "act-state": "act-timers"}


def topology() -> Topology:
    """A count, a processor's store and the state of a function, whose rows all expire."""

    def act(record: sl.Record[str, str], state: sl.State[Any], context: Any) -> None:
        own = context.store("own")
        if record.value == "put":
            own.put(record.key, f"{own.get(record.key)}"[-4:] + str(record.timestamp))
        elif record.value == "delete":
            own.delete(record.key)
        if record.value != "idle":
            state["n"] = state.get("n", 0) + 1

    app = App("app")
    words = app.stream("words", key=str, value=str)
    counted = words.filter(lambda key, value: value != "delete").group_by_key()
    counted.count(store=sl.Materialized("counts", ttl=TTL))
    own = sl.key_value_store("own", key=str, value=str, ttl=TTL)
    words.process_values(act, stores=[own], ttl=TTL, name="act", value=str)
    return app.topology()


def shown(state: TaskState) -> dict[str, Any]:
    """The rows of each store that are not over, with their times, and its stream time."""
    found = {}
    for name, beside in STORES.items():
        store, timers = state.stores[name], state.stores[beside]
        observed = timers.progress.observed  # type: ignore[attr-defined]
        rows = {key: (value, store.timestamp(key)) for key, value in store.range()}
        for key, (_, time) in rows.items():
            assert time not in (None, NO_TIME), (name, key)
        found[name] = observed, {k: row for k, row in rows.items() if row[1] + TTL > observed}
    _check_timers(state)
    return found


def _check_timers(state: TaskState) -> None:
    """Assert that each row has a timer: without one it would never be deleted."""
    for name, beside in STORES.items():
        timers: Any = state.stores[beside]
        listed = dict(timers.range())
        for key, _ in state.stores[name].range():
            raw = timer_key(key.encode(), EXPIRY) if name == "act-state" else key.encode()
            assert listed.get(raw) is not None, (name, key)


@attrs.define(kw_only=True)
class ExpiringWorld(ComparedWorld):
    time: int = 100

    def produce(self, count: int) -> None:
        """Mostly rising times, some equal, some late, some so late that they expire at once."""
        for _ in range(count):
            time = max(0, self.time + self.rnd.choice((0, 1, 2, 5, 15, -4, -10, -20, -51, 60)))
            self.time = max(self.time, time)
            self.take(self.rnd.choice("abcd"), self.rnd.choice(VALUES), time)


VALUES = ("put", "put", "delete", "idle", "idle")


@pytest.mark.parametrize("seed", range(3))
def test_an_owner_begins_with_the_rows_that_are_not_over(seed: int, tmp_path: Path) -> None:
    world = ExpiringWorld(root=tmp_path, rnd=random.Random(seed), topology=topology(), look=shown)
    live_through(world)
    assert world.shown[-1]["counts"][0] > 5 * TTL
    assert all(any(one[name][1] for one in world.shown) for name in STORES)
