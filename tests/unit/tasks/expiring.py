"""A task with windows whose changelog is purged, over a log in memory: owners, zombies and copies.

What is purged, and what a dead process still sends, comes at any later time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from streamlet.app import App
from streamlet.clock import ManualClock
from streamlet.coordinator.commit_metadata import Positions
from streamlet.dsl.windowing.windows import Windows
from streamlet.errors import DeliveryError
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.task import Task
from streamlet.serdes.windowed import Windowed
from streamlet.state.bucket_store import BucketStore
from streamlet.state.directory import StateDirectory
from streamlet.state.task_state import TaskState
from streamlet.state.window_rows import WindowProgress
from streamlet.state.window_times import WindowTimes
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.opening import TaskOpener
from streamlet.tasks.target import Target
from streamlet.testing.memory_ports import MemoryAdmin, MemorySink, MemorySource
from streamlet.topology.graph import Topology
from streamlet.types import TopicPartition
from tests.unit.tasks.owners import CHANGELOG, INPUT, TASK, Owner, World

Shown = tuple[dict[Windowed[str], int], WindowProgress, dict[Windowed[str], int]]


def counted(windows: Windows, emit: Any) -> Topology:
    app = App("app")
    stream = app.stream("words", key=str, value=str)
    stream.group_by_key().windowed_by(windows, emit=emit).count(store="counts")
    return app.topology()


def shown(state: TaskState) -> Shown:
    """What a state shows of its windows, and sessions whose final results are still to be sent."""
    store = state.stores["counts"]
    assert isinstance(store.times, WindowTimes)
    return dict(store.range()), store.progress, dict(_unsent(store))


def _unsent(store: Any) -> Iterator[tuple[Windowed[str], int]]:
    if isinstance(store, BucketStore) and store.layout.final and store.layout.size_ms is None:
        for item, ckey in store.unordered(store.progress.sent + 1):
            yield store.window(store.record_key(ckey), item), item[2]


class NeverMoved:
    """The same task in one process that never commits, restarts or moves."""

    def __init__(self, topology: Topology) -> None:
        (part,) = topology.subtopologies
        self._state = TaskState.open(None, part.stores, 1 << 20)
        self._task = Task(TASK, part, self._state, {INPUT: 0})
        #: What it shows before each input offset.
        self.shown: list[Shown] = [shown(self._state)]

    def take(self, key: str, time: int) -> None:
        offset = len(self.shown) - 1
        batch = PartitionBatch(
            INPUT.topic, 0, range(offset, offset + 1), [key.encode()], [b"x"], [time], None
        )
        self._task.process(batch)
        self.shown.append(shown(self._state))


@attrs.define
class PurgedWorld(World):
    """A world in which the changelog is purged."""

    windows: Windows | None = None
    emit: str = "updates"
    never_moved: NeverMoved = attrs.field(init=False)
    time: int = 1_000
    #: Starts of the changelog that owners may still delete up to, and what zombies may still send.
    allowed: list[int] = attrs.field(factory=list)
    late: list[MemorySink] = attrs.field(factory=list)
    purges: int = 0

    def __attrs_post_init__(self) -> None:
        assert self.windows is not None
        self.topology = counted(self.windows, self.emit)
        self.never_moved = NeverMoved(self.topology)
        for topic in (INPUT.topic, CHANGELOG.topic):
            self.log.create(topic)

    def produce(self, count: int) -> None:
        """Mostly rising times, some late ones, some far ahead."""
        for _ in range(count):
            step = self.rnd.choice((0, 1, 2, 3, 5, 9, -4, -30, 60, 250))
            self.produce_at(self.rnd.choice("abc"), max(0, self.time + step))

    def produce_at(self, key: str, time: int) -> None:
        """A record of a key and a time."""
        self.time = max(self.time, time)
        self.log.append(INPUT, [key.encode()], [b"x"], [time])
        self.never_moved.take(key, time)

    def expected(self) -> Shown:
        """What state of the committed position shows."""
        return self.never_moved.shown[max(0, self.committed.offset)]

    def disturb(self) -> None:
        """Let something happen that may happen at any time."""
        if self.allowed and self.rnd.random() < 0.4:
            start = self.rnd.choice(self.allowed)
            self.purges += start > self.log.start(CHANGELOG)
            self.log.raise_start(CHANGELOG, start)
        if self.late and self.rnd.random() < 0.2:
            self.rnd.choice(self.late).deliver(self.rnd.randint(1, 3))

    def whole_from(self) -> Mapping[TopicPartition, int]:
        return Target.of(Positions.of([INPUT], {INPUT: self.committed}), {}).whole_from()


class PurgingOwner(Owner):
    """An owner whose accepted commits are purged sooner or later."""

    world: PurgedWorld

    def check(self) -> None:
        """Assert that it begins with exactly the state of its position."""
        found, wanted = shown(self.active.state), self.world.expected()
        assert found == wanted, f"at offset {self.world.committed.offset}"

    def run(self) -> None:
        """Work and commit for a while, amid disturbances."""
        rnd = self.world.rnd
        for _ in range(rnd.randint(0, 4)):
            self.work(rnd.randint(1, 6))
            for step in self.steps():
                self.active.check_invariants()
                if step == "answered":
                    self.world.allowed += self.world.whole_from().values()
                self.world.disturb()
                self.work(rnd.randint(0, 2))
            if self.active.number and rnd.random() < 0.3:
                # No further than an owner has looked, which an hour's lag sees to.
                self.world.log.compact(CHANGELOG, end=self.active.ends[CHANGELOG])

    def die(self) -> None:
        """As kill -9, perhaps amid a flush, of which some comes later."""
        if self.active.claimed and self.active.changed and self.world.rnd.random() < 0.5:
            self.sink.flush = _break  # type: ignore[method-assign]
            try:
                self.commit_port.begin([self.active])
            except DeliveryError:
                self.world.late.append(self.sink)
        self.active.opened.close()


def _break(timeout_ms: int) -> None:
    raise DeliveryError("killed")


class Copy:
    """A copy that follows the changelog, however far behind."""

    def __init__(self, world: PurgedWorld, host: Path) -> None:
        self.world = world
        self.opened = TaskOpener(world.topology, StateDirectory(host, "app"), 1 << 20)(TASK)
        self.state = self.opened.state
        admin = MemoryAdmin(world.log)
        source = MemorySource(world.log, headers=True)
        self.reader = StoreChangelogReader(source, admin, ManualClock())
        ends, ids = admin.end_offsets([CHANGELOG]), admin.topic_ids([CHANGELOG.topic])
        target, whole_from = Target(ends=ends, topic_ids=ids), world.whole_from
        self.reader.add(OpenTask(TASK, self.state).follow(target, whole_from))

    def read(self) -> None:
        """Read what there is by now."""
        self.reader.step(0)

    def promote(self) -> bool:
        """Become the state of the last commit, if there is one, and check that."""
        positions = Positions.of([INPUT], {INPUT: self.world.committed})
        if positions.newest is None:
            return False
        ends = positions.newest.ends
        assert self.reader.promote(TASK, Target.of(positions, ends))
        for _ in range(50):
            if self.reader.step(0):
                break
        found, wanted = shown(self.state), self.world.expected()
        assert found == wanted, f"a copy at offset {self.world.committed.offset}"
        return True

    def close(self) -> None:
        self.reader.remove(TASK)
        self.opened.close()


Hosts = Callable[[], Path]


def hosts_of(world: World, rnd: random.Random) -> Hosts:
    """Three disks, which are lost now and then."""

    def host() -> Path:
        if rnd.random() < 0.1:
            world.hosts += 1
        return world.root / f"host-{world.hosts}-{rnd.randint(1, 3)}"

    return host
