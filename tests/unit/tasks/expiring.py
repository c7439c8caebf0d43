"""A task with windows whose changelog is purged, over a log in memory, and copies of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

from streamlet.app import App
from streamlet.clock import ManualClock
from streamlet.coordinator.commit_metadata import Positions
from streamlet.dsl.windowing.windows import Windows
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
from streamlet.testing.memory_ports import MemoryAdmin, MemorySource
from streamlet.topology.graph import Topology
from tests.unit.tasks.compared import PurgedWorld
from tests.unit.tasks.owners import CHANGELOG, INPUT, TASK

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


@attrs.define(kw_only=True)
class WindowWorld(PurgedWorld):
    """A world with windows."""

    windows: Windows
    emit: str = "updates"
    look: Callable[[TaskState], Any] = shown
    time: int = 1_000

    def __attrs_post_init__(self) -> None:
        self.topology = counted(self.windows, self.emit)
        super().__attrs_post_init__()

    def produce(self, count: int) -> None:
        """Mostly rising times, some late ones, some far ahead."""
        for _ in range(count):
            step = self.rnd.choice((0, 1, 2, 3, 5, 9, -4, -30, 60, 250))
            self.produce_at(self.rnd.choice("abc"), max(0, self.time + step))

    def produce_at(self, key: str, time: int) -> None:
        """A record of a key and a time."""
        self.time = max(self.time, time)
        self.take(key, "x", time)


class Copy:
    """A copy that follows the changelog, however far behind."""

    def __init__(self, world: WindowWorld, host: Path) -> None:
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
