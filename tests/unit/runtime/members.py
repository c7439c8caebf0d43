"""Whole workers over a log in memory and a fake coordinator, in real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamlet.app import App
from streamlet.clock import SystemClock
from streamlet.config import Settings
from streamlet.kafka.ports import OutgoingRecords
from streamlet.processing.edges.plan import EdgePlan
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.metrics.advisor import Advisor
from streamlet.runtime.metrics.values import Snapshot
from streamlet.runtime.stream_thread import StreamThread
from streamlet.runtime.uncaught import UncaughtErrors
from streamlet.runtime.watchdog import Watchdog
from streamlet.runtime.worker import Worker
from streamlet.runtime.worker_group import GroupPorts, MemberIdentity, WorkerGroup
from streamlet.runtime.worker_ports import WorkerPorts
from streamlet.runtime.worker_status import Companions
from streamlet.state.directory import StateDirectory
from streamlet.state.task_state import TaskState
from streamlet.tasks.meters import Meters
from streamlet.tasks.open_task import RestoreProgress
from streamlet.tasks.opening import TaskOpener
from streamlet.testing.coordinator import FakeCoordinator
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource
from streamlet.topology.graph import Topology
from streamlet.types import TaskId, TopicPartition
from tests.coordinator_transport import FakeCluster

CLOCK = SystemClock()
PARTITIONS = 4
CHANGELOG = "app-counts-changelog"


def counting() -> Topology:
    """Counts per key of ``words``, every count written to ``counts``."""
    app = App("app")
    counts = app.stream("words", key=str, value=str).group_by_key().count(store="counts")
    counts.to_stream().to("counts")
    return app.topology()


def wait_for(found: Callable[[], object], what: str, timeout_s: float = 300.0) -> None:
    """Wait until it is true."""
    deadline = time.monotonic() + timeout_s
    while not found():
        assert time.monotonic() < deadline, f"not in {timeout_s} s: {what}"
        threading.Event().wait(0.002)


def advised() -> Advisor:
    """One that never looks and knows already."""

    def opened() -> Any:
        raise AssertionError("nobody leads here")

    advisor = Advisor(opened, lambda: False)
    advisor.advice = {"instances": 3, "current": 2, "lag": 7, "lag_per_s": 0.5, "unread": 0}
    return advisor


class Nobody:
    """An observer that does not look."""

    def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None: ...

    copying = None

    def restoring(self, progress: RestoreProgress) -> None: ...

    def produced(self, outputs: list[Output]) -> None: ...

    def settled(self, counts: bool) -> None: ...


class Group:
    """An application with its log, its coordinator and its members."""

    def __init__(self, root: Path, topology: Topology | None = None, **config: str) -> None:
        self.root = root
        self.topology = topology or counting()
        #: Of members made from now on.
        self.policy = ErrorPolicy()
        self._config = {"commit.interval.ms": "50", "learner.ready.linger.ms": "1"}
        # A busy machine stops a thread for more than 10 s, after which a member would be dead.
        self._config |= {"heartbeat.interval.ms": "20", "session.timeout.ms": "300s"}
        self._config |= {name.replace("_", "."): value for name, value in config.items()}
        self.settings = self.settings_in()
        self.log = MemoryLog()
        for topic in ("words", "counts"):
            self.log.create(topic, PARTITIONS)
        self.cluster = FakeCluster(FakeCoordinator(), CLOCK)
        self.members: list[Member] = []

    def settings_in(self, mode: str | None = None) -> Settings:
        """The settings of a member in this rebalancing mode, None: the group's."""
        config = self._config | ({} if mode is None else {"stream.rebalancing.mode": mode})
        return Settings.load(overrides=[f"{k}={v}" for k, v in config.items()])

    def produce(self, count: int, keys: int = 40) -> None:
        """So many records for every key."""
        sink = MemorySink(self.log)
        for _ in range(count):
            sink.send(OutgoingRecords("words", [b"k%d" % i for i in range(keys)], [b"x"] * keys))

    def member(self, name: str, mode: str | None = None) -> Member:
        """A member that works, in a thread; ``mode`` is its own rebalancing mode."""
        self.members.append(self.idle_member(name, mode))
        self.members[-1].thread.start()
        return self.members[-1]

    def idle_member(self, name: str, mode: str | None = None) -> Member:
        """A member that nobody runs."""
        return Member(self, name, mode or self.settings.stream_rebalancing_mode)

    def counts(self) -> dict[str, list[int]]:
        """All counts put out, by key, in order."""
        found: dict[str, list[int]] = {}
        for partition in range(PARTITIONS):
            for record in self.log.records(TopicPartition("counts", partition)):
                assert record.key is not None
                assert record.value is not None
                number = int.from_bytes(record.value, "big", signed=True)
                found.setdefault(record.key.decode(), []).append(number)
        return found

    @property
    def put_out(self) -> int:
        """Records put out so far."""
        return sum(self.log.end(TopicPartition("counts", p)) for p in range(PARTITIONS))

    def shares(self) -> list[int]:
        """How many tasks each living member runs."""
        return [len(m.running) for m in self.members if m.thread.is_alive()]

    def end(self) -> None:
        """Stop everybody."""
        for member in self.members:
            member.told.set()
        for member in self.members:
            member.thread.join()


class Member:
    """One worker in a thread; ``told`` stops it, ``failed`` is what ended it otherwise."""

    def __init__(self, group: Group, name: str, mode: str = "incremental") -> None:
        self.group = group
        self.name = name
        self.mode = mode
        self.told = threading.Event()
        self.failed: Exception | None = None
        self.directory = StateDirectory(group.root / name, "app")
        self.settings = group.settings_in(mode)
        #: What it measured, newest last.
        self.snapshots: list[Snapshot] = []
        self.meters = Meters(CLOCK)
        self.stream_thread = self._worker()
        self.worker = self.stream_thread.worker
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def running(self) -> frozenset[str]:
        """The tasks it runs."""
        tasks = list(self.worker.registry.tasks.values())
        return frozenset(str(one.task) for one in tasks if one.stage.value == "running")

    def open_copies(self) -> dict[TaskId, TaskState]:
        """The stores of the copies it keeps now."""
        kept = list(self.worker._updater.kept.items())
        return {task: copy.state for task, copy in kept if copy is not None}

    def open_tasks(self) -> dict[TaskId, TaskState]:
        """The stores of the tasks it holds."""
        return {task: one.state for task, one in list(self.worker.registry.tasks.items())}

    def _run(self) -> None:
        try:
            self.stream_thread.run(lambda: not self.told.wait(0.001))
        except Exception as error:
            self.failed = error

    def _worker(self) -> StreamThread:
        group, settings = self.group, self.settings
        admin = MemoryAdmin(group.log)
        catalog = Catalog(group.topology, admin, settings)
        catalog.prepare()
        outside = GroupPorts(
            clock=CLOCK,
            transport=group.cluster.transport(self.name),
            open_sink=lambda may_write: MemorySink(group.log),
        )
        mine = WorkerGroup(settings, MemberIdentity(self.name, self.name), catalog, outside)
        self.session, self.manager = mine.session, mine.rebalance_events._manager
        ports = WorkerPorts(
            clock=CLOCK,
            source=MemorySource(group.log),
            sink=mine.sink,
            admin=admin,
            log_admin=admin,
            positions=mine.session,
            open_source=lambda purpose: MemorySource(group.log, headers=True),
            open_stores=TaskOpener(group.topology, self.directory, settings.cache_max_bytes),
        )
        worker = Worker(
            settings,
            ports,
            mine.session,
            mine.rebalance_events,
            catalog,
            EdgePlan(
                group.topology,
                catalog.counts,
                catalog.topic_ids,
                exact=settings.repartition_exact,
            ),
            group.policy,
            Nobody(),
            self.meters,
            Companions(measured=self.snapshots.append, advisor=advised()),
        )
        uncaught = UncaughtErrors(group.policy.uncaught, None, CLOCK)
        watchdog = Watchdog(CLOCK, settings.max_poll_interval_ms)
        return StreamThread(worker, uncaught, watchdog)
