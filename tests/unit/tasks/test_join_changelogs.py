"""A join of streams over changelogs in memory: whoever goes on has exactly the committed state.

Owners crash on old and new disks, dead ones still send, and changelogs are purged and compacted.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.dsl.joins.windows import LEAST_BUCKET_MS
from streamlet.state import join_store
from streamlet.state.task_state import TaskState
from streamlet.topology.graph import Topology
from tests.unit.tasks.compared import PurgedWorld, PurgingOwner, live_through

Shown = dict[str, tuple[list[Any], Any]]
NAMES = ("j-outer-this-join-store", "j-outer-other-join-store", "j-outer-shared-join-store")


def joined() -> Topology:
    """Both sides from one topic, in whose order they meet."""
    app = App("app")
    words = app.stream("words", key=str, value=str)
    left, right = (words.filter(lambda k, v, s=side: v[0] == s) for side in "lr")
    within = sl.join_windows("20 ms", after="40 ms", grace="10 ms")
    left.outer_join(right, lambda a, b: f"{a}|{b}", within=within, value=str, store="j")
    return app.topology()


def shown(state: TaskState) -> Shown:
    return {
        name: (list(store.range()), store.progress)  # type: ignore[attr-defined]
        for name, store in state.stores.items()
    }


@attrs.define(kw_only=True)
class JoinWorld(PurgedWorld):
    topology: Topology = attrs.field(factory=joined)
    look: Callable[[TaskState], Any] = shown
    time: int = LEAST_BUCKET_MS

    def produce(self, count: int) -> None:
        """Mostly rising times, many equal ones, some late ones, some at the start of a bucket."""
        for _ in range(count):
            next_bucket = LEAST_BUCKET_MS - self.time % LEAST_BUCKET_MS
            steps = (0, 0, 0, 0, 0, 1, 2, 5, 9, -4, -30, 60, next_bucket, next_bucket)
            time = max(0, self.time + self.rnd.choice(steps))
            self.time = max(self.time, time)
            key = self.rnd.choice("aab")
            self.take(key, f"{self.rnd.choice('lr')}{len(self.shown) - 1}", time)


@pytest.mark.parametrize("row_records", [1, 8])
@pytest.mark.parametrize("seed", range(4))
def test_an_owner_begins_with_exactly_the_committed_state(
    seed: int, row_records: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_store, "ROW_RECORDS", row_records)
    world = JoinWorld(root=tmp_path, rnd=random.Random(seed))
    live_through(world, 25, PurgingOwner)
    assert world.purges > 0
    assert all(any(then[name][0] for then in world.shown) for name in NAMES)
