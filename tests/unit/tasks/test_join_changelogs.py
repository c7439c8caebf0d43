"""A join of streams over changelogs in memory: whoever goes on has exactly the committed state.

Owners crash on old and new disks, dead ones still send, and changelogs are purged and compacted.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.coordinator.commit_metadata import Positions
from streamlet.dsl.joins.windows import LEAST_BUCKET_MS
from streamlet.errors import DeliveryError
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.task import Task
from streamlet.state import join_store
from streamlet.state.task_state import TaskState
from streamlet.tasks.target import Target
from streamlet.testing.memory_ports import MemorySink
from streamlet.topology.graph import Topology
from streamlet.types import TopicPartition
from tests.unit.tasks.expiring import hosts_of
from tests.unit.tasks.owners import INPUT, TASK, Owner, World

Shown = dict[str, tuple[list[Any], Any]]
NAMES = ("j-outer-this-join-store", "j-outer-other-join-store", "j-outer-shared-join-store")
CHANGELOGS = [TopicPartition(f"app-{name}-changelog", 0) for name in NAMES]


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


@attrs.define
class JoinWorld(World):
    """A world with what one process would show that never restarts, before each input offset."""

    time: int = LEAST_BUCKET_MS
    #: Starts of changelogs that owners may still delete up to, and what zombies may still send.
    allowed: list[tuple[TopicPartition, int]] = attrs.field(factory=list)
    late: list[MemorySink] = attrs.field(factory=list)
    purges: int = 0
    shown: list[Shown] = attrs.field(factory=list)
    state: TaskState = attrs.field(init=False)
    task: Task = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.topology = joined()
        (part,) = self.topology.subtopologies
        self.state = TaskState.open(None, part.stores, 1 << 20)
        self.task = Task(TASK, part, self.state, {INPUT: 0})
        self.shown.append(shown(self.state))
        for tp in (INPUT, *CHANGELOGS):
            self.log.create(tp.topic)

    def produce(self, count: int) -> None:
        """Mostly rising times, many equal ones, some late ones, some at the start of a bucket."""
        for _ in range(count):
            next_bucket = LEAST_BUCKET_MS - self.time % LEAST_BUCKET_MS
            steps = (0, 0, 0, 0, 0, 1, 2, 5, 9, -4, -30, 60, next_bucket, next_bucket)
            time = max(0, self.time + self.rnd.choice(steps))
            self.time = max(self.time, time)
            offset = len(self.shown) - 1
            key = self.rnd.choice("aab").encode()
            value = f"{self.rnd.choice('lr')}{offset}".encode()
            self.log.append(INPUT, [key], [value], [time])
            batch = [key], [value], [time]
            self.task.process(PartitionBatch("words", 0, range(offset, offset + 1), *batch, None))
            self.shown.append(shown(self.state))

    def expected(self) -> Shown:
        return self.shown[max(0, self.committed.offset)]

    def disturb(self) -> None:
        """Let something happen that may happen at any time."""
        if self.allowed and self.rnd.random() < 0.4:
            tp, start = self.rnd.choice(self.allowed)
            self.purges += start > self.log.start(tp)
            self.log.raise_start(tp, start)
        if self.late and self.rnd.random() < 0.2:
            self.rnd.choice(self.late).deliver(self.rnd.randint(1, 3))

    def whole_from(self) -> Mapping[TopicPartition, int]:
        return Target.of(Positions.of([INPUT], {INPUT: self.committed}), {}).whole_from()


class JoinOwner(Owner):
    """An owner whose accepted commits are purged sooner or later."""

    world: JoinWorld

    def check(self) -> None:
        """Assert that it begins with exactly the state of its position."""
        for store in self.active.state.stores.values():
            store.commits.check_invariants()
        found, wanted = shown(self.active.state), self.world.expected()
        assert found == wanted, f"at offset {self.world.committed.offset}"

    def run(self) -> None:
        rnd = self.world.rnd
        for _ in range(rnd.randint(0, 4)):
            self.work(rnd.randint(1, 6))
            for step in self.steps():
                self.active.check_invariants()
                if step == "answered":
                    self.world.allowed += self.world.whole_from().items()
                self.world.disturb()
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


@pytest.mark.parametrize("row_records", [1, 8])
@pytest.mark.parametrize("seed", range(4))
def test_an_owner_begins_with_exactly_the_committed_state(
    seed: int, row_records: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_store, "ROW_RECORDS", row_records)
    rnd = random.Random(seed)
    world = JoinWorld(tmp_path, rnd)
    host = hosts_of(world, rnd)
    for _ in range(25):
        world.produce(rnd.randint(3, 15))
        owner = JoinOwner(world, host=host())
        owner.check()
        owner.run()
        owner.die()
        world.disturb()
    fresh = JoinOwner(world, host=tmp_path / "fresh")
    fresh.check()
    fresh.die()
    assert world.purges > 0
    assert all(any(then[name][0] for then in world.shown) for name in NAMES)
