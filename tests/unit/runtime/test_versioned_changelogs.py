"""A versioned table over changelogs in memory: whoever goes on has exactly the committed history.

Owners crash on old and new disks, dead ones still send, and changelogs are compacted.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.errors import DeliveryError
from streamlet.kafka.ports import PartitionBatch
from streamlet.runtime.task import Task
from streamlet.state import versioned_store
from streamlet.state.task_state import TaskState
from streamlet.testing.ports import MemorySink
from streamlet.topology.graph import Topology
from streamlet.types import TopicPartition
from tests.unit.runtime.expiring import hosts_of
from tests.unit.runtime.owners import INPUT, TASK, Owner, World

HISTORY = 60
NAMES = ("t", "waiting")
CHANGELOGS = [TopicPartition(f"app-{name}-changelog", 0) for name in NAMES]


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
        "waiting": (sorted(waiting.range()), waiting.count, waiting.progress.observed),
    }


@attrs.define
class VersionedWorld(World):
    """A world with what one process would show that never restarts, before each input offset."""

    time: int = 100
    late: list[MemorySink] = attrs.field(factory=list)
    shown: list[dict[str, Any]] = attrs.field(factory=list)
    state: TaskState = attrs.field(init=False)
    task: Task = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.topology = topology()
        (part,) = self.topology.subtopologies
        self.state = TaskState.open(None, part.stores, 1 << 20)
        self.task = Task(TASK, part, self.state, {INPUT: 0})
        self.shown.append(shown(self.state))
        for tp in (INPUT, *CHANGELOGS):
            self.log.create(tp.topic)

    def produce(self, count: int) -> None:
        """Mostly rising times, some equal, some out of order, some out of the history."""
        for _ in range(count):
            time = max(0, self.time + self.rnd.choice((0, 0, 1, 2, 5, 15, -4, -18, -40, -61, 70)))
            self.time = max(self.time, time)
            offset = len(self.shown) - 1
            key = self.rnd.choice("aab").encode()
            batch = [key], [f"{self.rnd.choice('lrr')}{offset}".encode()], [time]
            self.log.append(INPUT, *batch)
            self.task.process(PartitionBatch("words", 0, range(offset, offset + 1), *batch, None))
            self.shown.append(shown(self.state))


class VersionedOwner(Owner):
    """An owner that looks at its stores, and whose changelogs are compacted."""

    world: VersionedWorld

    def check(self) -> None:
        """Assert that it begins with exactly the history of its position."""
        for store in self.active.state.stores.values():
            store.check_invariants()
        offset = max(0, self.world.committed.offset)
        assert shown(self.active.state) == self.world.shown[offset], f"at offset {offset}"

    def run(self) -> None:
        rnd = self.world.rnd
        for _ in range(rnd.randint(0, 4)):
            self.work(rnd.randint(1, 6))
            for _ in self.steps():
                self.active.check_invariants()
                if self.world.late and rnd.random() < 0.2:
                    rnd.choice(self.world.late).deliver(rnd.randint(1, 3))
                self.work(rnd.randint(0, 2))
            if self.active.number and rnd.random() < 0.3:
                tp = rnd.choice(CHANGELOGS)
                self.world.log.compact(tp, end=self.active.ends[tp])

    def die(self) -> None:
        """As kill -9, perhaps amid a flush, of which some comes later."""
        if self.active.claimed and self.active.changed and self.world.rnd.random() < 0.5:
            self.sink.flush = _break  # type: ignore[method-assign]
            with pytest.raises(DeliveryError):
                self.commit_port.begin([self.active])
            self.world.late.append(self.sink)
        self.active.opened.close()


def _break(timeout_ms: int) -> None:
    raise DeliveryError("killed")


@pytest.mark.parametrize("row_versions", [2, 8])
@pytest.mark.parametrize("seed", range(3))
def test_an_owner_begins_with_exactly_the_committed_history(
    seed: int, row_versions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versioned_store, "ROW_VERSIONS", row_versions)
    rnd = random.Random(seed)
    world = VersionedWorld(tmp_path, rnd)
    host = hosts_of(world, rnd)  # type: ignore[arg-type]
    for _ in range(20):
        world.produce(rnd.randint(3, 15))
        owner = VersionedOwner(world, host=host())
        owner.check()
        owner.run()
        owner.die()
    fresh = VersionedOwner(world, host=tmp_path / "fresh")
    fresh.check()
    fresh.die()
    assert world.shown[-1]["table"][2] > 5 * HISTORY
