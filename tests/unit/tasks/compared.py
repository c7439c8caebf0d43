"""Owners that are compared with one process that never restarts, over changelogs in memory.

They crash on old and new disks, and changelogs are compacted. What is purged, and what a dead
process still sends, comes at any later time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from streamlet.coordinator.commit_metadata import Positions
from streamlet.errors import DeliveryError
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.task import Task
from streamlet.state.task_state import TaskState
from streamlet.tasks.target import Target
from streamlet.testing.memory_ports import MemorySink
from streamlet.types import TopicPartition
from tests.unit.tasks.owners import INPUT, TASK, Owner, World


@attrs.define(kw_only=True)
class ComparedWorld(World):
    """A world with what a process would show that never restarts, before each input offset.

    ``look`` tells what a task's stores show.
    """

    look: Callable[[TaskState], Any]
    late: list[MemorySink] = attrs.field(factory=list)
    shown: list[Any] = attrs.field(factory=list)
    changelogs: tuple[TopicPartition, ...] = attrs.field(init=False)
    state: TaskState = attrs.field(init=False)
    task: Task = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        (part,) = self.topology.subtopologies
        self.state = TaskState(None, part.stores, 1 << 20)
        self.task = Task(TASK, part, self.state, {INPUT: 0})
        self.shown.append(self.look(self.state))
        names = (f"app-{spec.name}-changelog" for spec in part.stores)
        self.changelogs = tuple(TopicPartition(name, 0) for name in names)
        for tp in (INPUT, *self.changelogs):
            self.log.create(tp.topic)

    def take(self, key: str, value: str, time: int) -> None:
        """A record, which the process that never restarts processes at once."""
        offset = len(self.shown) - 1
        batch = [key.encode()], [value.encode()], [time]
        self.log.append(INPUT, *batch)
        self.task.process(PartitionBatch(INPUT.topic, 0, range(offset, offset + 1), *batch, None))
        self.shown.append(self.look(self.state))

    def expected(self) -> Any:
        """What state of the committed position shows."""
        return self.shown[max(0, self.committed.offset)]

    def disturb(self) -> None:
        """Let something happen that may happen at any time."""
        if self.late and self.rnd.random() < 0.2:
            self.rnd.choice(self.late).deliver(self.rnd.randint(1, 3))


@attrs.define(kw_only=True)
class PurgedWorld(ComparedWorld):
    """A world in which changelogs are purged."""

    #: Starts of changelogs that owners may still delete up to.
    allowed: list[tuple[TopicPartition, int]] = attrs.field(factory=list)
    purges: int = 0

    def disturb(self) -> None:
        """Purge a changelog, too."""
        if self.allowed and self.rnd.random() < 0.4:
            tp, start = self.rnd.choice(self.allowed)
            self.purges += start > self.log.start(tp)
            self.log.raise_start(tp, start)
        super().disturb()

    def whole_from(self) -> Mapping[TopicPartition, int]:
        return Target.of(Positions.of([INPUT], {INPUT: self.committed}), {}).whole_from()


class ComparedOwner(Owner):
    """An owner that looks at its stores, and whose changelogs are compacted."""

    world: ComparedWorld

    def check(self) -> None:
        """Assert that its state shows exactly what that of its position shows elsewhere."""
        for store in self.active.state.stores.values():
            store.commits.check_invariants()
        offset = self.active.processor.positions[INPUT]
        found = self.world.look(self.active.state)
        assert found == self.world.shown[offset], f"at offset {offset}"

    def work(self, most: int) -> None:
        """Process some input, and check now and then what became of it."""
        super().work(most)
        if self.world.rnd.random() < 0.5:
            self.check()

    def run(self) -> None:
        """Work and commit for a while, amid disturbances."""
        rnd = self.world.rnd
        for _ in range(rnd.randint(0, 4)):
            self.work(rnd.randint(1, 6))
            for _ in self.steps():
                self.active.check_invariants()
                self.world.disturb()
                self.work(rnd.randint(0, 2))
            if self.active.number and rnd.random() < 0.3:
                # No further than an owner has looked, which an hour's lag sees to.
                tp = rnd.choice(self.world.changelogs)
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


class PurgingOwner(ComparedOwner):
    """An owner whose accepted commits are purged sooner or later."""

    world: PurgedWorld

    def steps(self) -> Iterator[str]:
        for step in super().steps():
            if step == "answered":
                self.world.allowed += self.world.whole_from().items()
            yield step


def hosts_of(world: World, rnd: random.Random) -> Callable[[], Path]:
    """Three disks, which are lost now and then."""

    def host() -> Path:
        if rnd.random() < 0.1:
            world.hosts += 1
        return world.root / f"host-{world.hosts}-{rnd.randint(1, 3)}"

    return host


def live_through(
    world: ComparedWorld, periods: int = 20, kind: type[ComparedOwner] = ComparedOwner
) -> None:
    """Owners one after the other, each on one of three disks, the last one on a new one."""
    host = hosts_of(world, world.rnd)
    for _ in range(periods):
        world.produce(world.rnd.randint(3, 15))
        owner = kind(world, host=host())
        assert owner.active.positions[INPUT] == max(0, world.committed.offset)
        owner.check()
        owner.run()
        owner.die()
        world.disturb()
    fresh = kind(world, host=world.root / "fresh")
    fresh.check()
    fresh.die()
