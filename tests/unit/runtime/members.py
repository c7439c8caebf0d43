"""Whole workers over a log in memory and a fake coordinator, in real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from streamlet.app import App
from streamlet.assignor.assign import assign
from streamlet.assignor.values import Copy
from streamlet.clock import SystemClock
from streamlet.config import Settings
from streamlet.coordinator.member_config import MembershipConfig
from streamlet.coordinator.session import GroupSession
from streamlet.processing.edges.plan import EdgePlan
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.rebalance.protocol import TasksProtocol, rules_from, types_for
from streamlet.rebalance.values import Subscription
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.metrics.advisor import Advisor
from streamlet.runtime.metrics.values import Snapshot
from streamlet.runtime.stream_thread import StreamThread
from streamlet.state.directory import StateDirectory
from streamlet.state.task_state import TaskState
from streamlet.tasks.activation import Activation
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.commit import AtLeastOnceCommit
from streamlet.tasks.commit_delivery import ChangelogDelivery
from streamlet.tasks.commit_loop import Purge
from streamlet.tasks.manager import TaskManager
from streamlet.tasks.meters import Meters
from streamlet.tasks.opening import TaskOpener
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.restore_job import RestoreProgress
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.targets import Targets
from streamlet.tasks.task_events import HandoverRules
from streamlet.testing.coordinator import FakeCoordinator
from streamlet.testing.ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource
from streamlet.topology.graph import Topology
from streamlet.types import TaskId, TopicPartition
from tests.coordinator_transport import FakeCluster
from tests.unit.tasks.logs import targets_over

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

    def restoring(self, progress: RestoreProgress) -> None: ...

    def produced(self, outputs: list[Output]) -> None: ...


class Group:
    """An application with its log, its coordinator and its members."""

    def __init__(self, root: Path, topology: Topology | None = None, **config: str) -> None:
        self.root = root
        self.topology = topology or counting()
        #: Of members made from now on.
        self.policy = ErrorPolicy()
        overrides = {"commit.interval.ms": "50", "learner.ready.linger.ms": "1"}
        overrides |= {name.replace("_", "."): value for name, value in config.items()}
        self.settings = Settings.load(overrides=[f"{k}={v}" for k, v in overrides.items()])
        self.log = MemoryLog()
        for topic in ("words", "counts"):
            self.log.create(topic, PARTITIONS)
        self.cluster = FakeCluster(FakeCoordinator(), CLOCK)
        self.members: list[Member] = []

    def produce(self, count: int, keys: int = 40) -> None:
        """So many records for every key."""
        sink = MemorySink(self.log)
        for _ in range(count):
            sink.send("words", [b"k%d" % i for i in range(keys)], [b"x"] * keys)

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
        rules = HandoverRules.from_settings(group.settings)
        self.manager = TaskManager(attrs.evolve(rules, stops_at_joins=mode == "eager"))
        #: What it measured, newest last.
        self.snapshots: list[Snapshot] = []
        self.meters = Meters(CLOCK)
        self.worker = self._worker(RebalanceEvents(self.manager, CLOCK))
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def running(self) -> frozenset[str]:
        """The tasks it runs."""
        tasks = list(self.worker.holdings.tasks.values())
        return frozenset(str(one.task) for one in tasks if one.stage.value == "running")

    def open_copies(self) -> dict[TaskId, TaskState]:
        """The stores of the copies it keeps now."""
        kept = list(self.worker._copies.kept.items())
        return {task: copy.state for task, copy in kept if copy.opened is not None}

    def open_tasks(self) -> dict[TaskId, TaskState]:
        """The stores of the tasks it holds."""
        return {task: one.state for task, one in list(self.worker.holdings.tasks.items())}

    def _run(self) -> None:
        try:
            self.worker.run(lambda: not self.told.wait(0.001))
        except Exception as error:
            self.failed = error

    def _worker(self, board: RebalanceEvents) -> StreamThread:
        group, settings = self.group, self.group.settings
        admin, sink = MemoryAdmin(group.log), MemorySink(group.log)
        catalog = Catalog(group.topology, admin, settings)
        catalog.prepare()
        session = self.session = self._session(board, catalog)
        opener = TaskOpener(group.topology, self.directory, settings.cache_max_bytes)
        copies = StateUpdater(
            open_stores=opener,
            reader=self._restorer(),
            restores=self._restorer(),
            targets=self._targets(session, catalog),
            settings=settings,
            clock=CLOCK,
        )
        activation = self._activation(session, catalog, opener, copies)
        delivery = ChangelogDelivery(
            *(sink, admin, CLOCK),
            open_source=lambda: MemorySource(group.log, headers=True),
            read_timeout_ms=1_000,
        )
        return StreamThread(
            settings,
            group=session,
            board=board,
            source=MemorySource(group.log),
            sink=sink,
            activation=activation,
            copies=copies,
            commit=AtLeastOnceCommit(session, delivery, CLOCK),
            catalog=catalog,
            purge=Purge(admin, ()),
            clock=CLOCK,
            policy=group.policy,
            observer=Nobody(),
            meters=self.meters,
            measured=self.snapshots.append,
            advisor=advised(),
        )

    def _activation(
        self, session: GroupSession, catalog: Catalog, opener: TaskOpener, copies: StateUpdater
    ) -> Activation:
        group, settings = self.group, self.group.settings
        return Activation(
            group.topology,
            targets=self._targets(session, catalog),
            open_stores=opener,
            copies=copies,
            settings=settings,
            edges=EdgePlan(
                group.topology,
                catalog.counts,
                catalog.topic_ids,
                exact=settings.repartition_exact,
            ),
            new_task=partial(
                Task,
                policy=group.policy,
                partition_counts=catalog.counts,
                wall_ms=CLOCK.wall_ms,
                idle_ms=settings.max_task_idle_ms,
            ),
            clock=CLOCK,
        )

    def _targets(self, session: GroupSession, catalog: Catalog) -> Targets:
        group = self.group
        parts = (group.log, group.topology, session, CLOCK)
        return targets_over(
            *parts, settings=group.settings, inputs=catalog.inputs_of, later=catalog.came_later
        )

    def _restorer(self) -> StoreChangelogReader:
        source = MemorySource(self.group.log, headers=True)
        return StoreChangelogReader(source, MemoryAdmin(self.group.log), CLOCK)

    def _session(self, board: RebalanceEvents, catalog: Catalog) -> GroupSession:
        group = self.group
        config = MembershipConfig(
            "app",
            heartbeat_interval_ms=20,
            announce_joins=self.manager.rules.announced_joins,
            protocol_types=types_for(self.mode),
        )
        protocol = TasksProtocol(
            Subscription(
                self.name,
                self.name,
                stateful=frozenset({0}),
                subtopologies=_hashes(group),
                mode=self.mode,
            ),
            rules_from(group.settings, learners=True),
            assign,
            tasks=catalog.tasks,
            wall_ms=CLOCK.wall_ms,
            rejoin=lambda reason: session.rejoin(reason),
        )

        def describe() -> Mapping[TaskId, Copy]:
            copies = board.describe()
            protocol.disk_fails = board.disk_fails
            return copies

        session = GroupSession(
            config,
            protocol,
            group.cluster.transport(self.name),
            CLOCK,
            board.offer,
            describe=describe,
        )
        return session


def _hashes(group: Group) -> tuple[bytes, ...]:
    return tuple(part.hash for part in group.topology.subtopologies)
