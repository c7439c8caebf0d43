"""A versioned table over changelogs in memory: each owner begins with the committed history."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.state import versioned_store
from streamlet.state.task_state import TaskState
from streamlet.topology.graph import Topology
from tests.unit.tasks.compared import ComparedWorld, live_through

HISTORY = 60


def topology() -> Topology:
    """Stream and table from one topic, in whose order they meet."""
    app = App("app")
    words = app.stream("words", key=str, value=str)
    left, right = (words.filter(lambda k, v, s=side: v[0] == s) for side in "lr")
    right = right.map_values(lambda value: None if value.endswith("0") else value, value=str)
    table = right.to_table(store=sl.Materialized("t", history=HISTORY))
    left.left_join(table, lambda a, b: f"{a}|{b}", grace=20, value=str, store="waiting")
    return app.topology()


def shown(state: TaskState) -> dict[str, Any]:
    """All that the stores tell within the history, and what waits, with the stream times."""
    table: Any = state.stores["t"]
    observed = table.progress.observed
    span = range(max(0, observed - HISTORY), observed + 1)
    told = {(key, at): table.get(key, at) for key in "ab" for at in span}
    newest = {key: table.get(key) for key in "ab"}
    waiting: Any = state.stores["waiting"]
    return {
        "table": (told, newest, observed),
        "waiting": (sorted(waiting.range()), waiting.order.count, waiting.progress.observed),
    }


@attrs.define(kw_only=True)
class VersionedWorld(ComparedWorld):
    time: int = 100

    def produce(self, count: int) -> None:
        """Mostly rising times, some equal, some out of order, some out of the history."""
        for _ in range(count):
            time = max(0, self.time + self.rnd.choice((0, 0, 1, 2, 5, 15, -4, -18, -40, -61, 70)))
            self.time = max(self.time, time)
            key = self.rnd.choice("aab")
            self.take(key, f"{self.rnd.choice('lrr')}{len(self.shown) - 1}", time)


@pytest.mark.parametrize("row_versions", [2, 8])
@pytest.mark.parametrize("seed", range(3))
def test_an_owner_begins_with_exactly_the_committed_history(
    seed: int, row_versions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versioned_store, "ROW_VERSIONS", row_versions)
    world = VersionedWorld(root=tmp_path, rnd=random.Random(seed), topology=topology(), look=shown)
    live_through(world)
    assert world.shown[-1]["table"][2] > 5 * HISTORY
