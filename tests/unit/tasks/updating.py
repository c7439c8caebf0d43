"""Changelogs in memory and a state updater over them, on threads of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from streamlet.clock import SystemClock
from streamlet.config import Settings
from streamlet.coordinator.messages import Committed
from streamlet.errors import (
    BrokerError,
    TimedOutError,
)
from streamlet.kafka.ports import PartitionBatch
from streamlet.state.changelog import encode_column
from streamlet.state.directory import StateDirectory
from streamlet.state.rows import untimed
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.open_task import RestoreProgress
from streamlet.tasks.opening import TaskOpener
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.task_events import CopyEvent, Restored
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySource
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.unit.runtime.members import CHANGELOG, PARTITIONS, counting, wait_for
from tests.unit.tasks.logs import targets_over

T0, T1 = TaskId(0, 0), TaskId(0, 1)
C0, C1 = TopicPartition(CHANGELOG, 0), TopicPartition(CHANGELOG, 1)


class Source(MemorySource):
    """Fails while ``error`` is set; notes what was read in which order."""

    error: BrokerError | None = None

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log, headers=True)
        self.read: list[TopicPartition] = []
        self.priority = 0  # of the thread that read last
        self.most = 0  # records that it asked for

    def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
        """One record at a time, so that reading takes many steps."""
        self.most = max_records
        self.priority = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        if self.error is not None:
            raise self.error
        batches = super().poll(1, timeout_ms)
        self.read += [TopicPartition(b.topic, b.partition) for b in batches]
        return batches


class Unsteady:
    """Fails in the next call of one method, as if the broker were away just then."""

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.fails = ""
        self.failed = 0

    def __getattr__(self, name: str) -> Any:
        if name == self.fails:
            self.fails = ""
            self.failed += 1
            raise TimedOutError(f"no answer to {name}")
        return getattr(self._inner, name)


class World:
    """Changelogs and the copies of one worker."""

    def __init__(self, root: Path, unsteady: bool = False) -> None:
        self.log = MemoryLog()
        for topic in ("words", CHANGELOG):
            self.log.create(topic, PARTITIONS)
        self.directory = StateDirectory(root, "app")
        self.source, self.restores = Source(self.log), Source(self.log)
        self.restores.read = self.source.read
        clock = SystemClock()
        admin: Any = MemoryAdmin(self.log)
        source: Any = self.source
        if unsteady:
            admin, source = Unsteady(admin), Unsteady(source)
        self.parts = {"admin": admin, "source": source}
        topology, settings = counting(), Settings.load()
        self.copies = StateUpdater(
            open_stores=TaskOpener(topology, self.directory, settings.cache_max_bytes),
            reader=StoreChangelogReader(source, admin, clock),
            restores=StoreChangelogReader(self.restores, admin, clock),
            targets=targets_over(self.log, topology, self, clock, admin=admin),
            settings=settings,
            clock=clock,
        )
        self.copies.restoring = lambda progress: self.progress.append(progress)
        self.told: list[CopyEvent] = []
        self.progress: list[RestoreProgress] = []
        self.commit = Committed(-1, "")

    def fetch_committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, Committed]:
        """The same for all; counts need no table."""
        return dict.fromkeys(partitions, self.commit)

    def flush(self, number: int, tp: TopicPartition = C0, **counts: int) -> None:
        """What an owner writes before its commit of that number."""
        rows = untimed([count.to_bytes(8, "big") for count in counts.values()])
        values, headers = encode_column(StateNumber(1, number), rows)
        self.log.append(tp, [key.encode() for key in counts], values, headers=headers)

    def see(self, seen: Callable[[CopyEvent], bool]) -> CopyEvent:
        """The first event like that, waited for."""

        def found() -> bool:
            self.told += self.copies.take()
            return any(map(seen, self.told))

        wait_for(found, f"only {self.told} was told")
        return next(event for event in self.told if seen(event))

    def promoted(self, task: TaskId) -> Restored:
        event = self.see(lambda e: isinstance(e, Restored) and e.opened.task == task)
        assert isinstance(event, Restored)
        return event


def entries(promoted: Restored) -> Mapping[str, int]:
    return dict(promoted.opened.state.stores["counts"].range())
