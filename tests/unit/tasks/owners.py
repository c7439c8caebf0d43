"""Owners of one task over a log in memory, with the power to die anywhere.

An owner is activation, task, commit port and stores as the worker uses them; the group is a few
lines that accept, refuse or lose commits as a coordinator does.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import attrs

from streamlet.app import App
from streamlet.clock import ManualClock
from streamlet.config import Settings
from streamlet.coordinator.events import CommitOutcome
from streamlet.coordinator.messages import Committed
from streamlet.coordinator.states import MembershipView
from streamlet.errors import UnreachableError
from streamlet.processing.edges.plan import EdgePlan
from streamlet.processing.policy import ErrorPolicy
from streamlet.state.directory import StateDirectory
from streamlet.tasks.activation import Activation
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit import AtLeastOnceCommit
from streamlet.tasks.commit_delivery import ChangelogDelivery
from streamlet.tasks.opening import TaskOpener
from streamlet.tasks.task_record import TaskStage
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource
from streamlet.topology.graph import Topology
from streamlet.tracing.off import NoTracing
from streamlet.types import TaskId, TopicPartition
from tests.unit.tasks.inline import inline_updater, step_all
from tests.unit.tasks.logs import targets_over

TASK = TaskId(0, 0)
INPUT = TopicPartition("words", 0)
CHANGELOG = TopicPartition("app-counts-changelog", 0)


def counting() -> Topology:
    app = App("app")
    stream = app.stream("words", key=str, value=str)
    # A deletion now and then, so that tombstones travel too.
    stream.group_by_key().aggregate(
        lambda: 0, lambda k, v, n: None if v == "drop" else (n or 0) + 1, store="counts", value=int
    )
    return app.topology()


def fold(inputs: Sequence[tuple[str, str]], end: int) -> dict[str, int]:
    """What the store must contain when the input was counted up to ``end``."""
    counts: Counter[str] = Counter()
    for key, value in inputs[:end]:
        if value == "drop":
            del counts[key]
        else:
            counts[key] += 1
    return dict(counts)


@attrs.define
class World:
    """What survives an owner: the log, the committed position, the disk of each host."""

    root: Path
    rnd: random.Random
    log: MemoryLog = attrs.field(factory=MemoryLog)
    committed: Committed = attrs.field(factory=lambda: Committed(-1, ""))
    inputs: list[tuple[str, str]] = attrs.field(factory=list)
    topology: Topology = attrs.field(factory=counting)
    hosts: int = 0
    #: Commits there were, as far as a test notes them.
    commits: list[Committed] = attrs.field(factory=list)

    def produce(self, count: int) -> None:
        for _ in range(count):
            key = self.rnd.choice("abcdef")
            value = "drop" if self.rnd.random() < 0.15 else "x"
            self.inputs.append((key, value))
            self.log.append(INPUT, [key.encode()], [value.encode()])

    def host(self) -> Path:
        """The same disk as before, or a new one."""
        if self.hosts == 0 or self.rnd.random() < 0.4:
            self.hosts += 1
        return self.root / f"host-{self.rnd.randint(max(1, self.hosts - 1), self.hosts)}"


class Owner:
    """One active period, with the power to die anywhere."""

    view = MembershipView(member_id="member", generation=1)
    gated = False

    def __init__(
        self,
        world: World,
        policy: str = "fail",
        host: Path | None = None,
        tracing: NoTracing | None = None,
    ) -> None:
        tracing = tracing or NoTracing()
        self.world = world
        self.sent: list[tuple[int, Mapping[TopicPartition, tuple[int, str]]]] = []
        self.holds: list[int | None] = []
        clock = self.clock = ManualClock(1_000)
        admin = MemoryAdmin(world.log)
        self.source = MemorySource(world.log, headers=True)
        self.sink = MemorySink(world.log, hold=True)
        delivery = ChangelogDelivery(
            *(self.sink, admin, clock), open_source=self._open_source, read_timeout_ms=100
        )
        self.commit_port = AtLeastOnceCommit(self, delivery, clock)
        self.given_back = 0
        #: So many times a changelog cannot be read again.
        self.unreadable = 0
        settings = Settings.load({"state.mismatch.policy": policy})
        directory = StateDirectory(host or world.host(), "app")
        opener = TaskOpener(world.topology, directory, settings.cache_max_bytes, tracing.kept)
        targets = targets_over(world.log, world.topology, self, clock, settings=settings)
        self.updater = inline_updater(world.log, admin, opener, targets, clock)
        self.activation = Activation(
            world.topology,
            targets=targets,
            open_stores=opener,
            updater=self.updater,
            settings=settings,
            edges=EdgePlan(world.topology, {}, {}, exact=False),
            new_task=partial(
                tracing.new_task,
                policy=ErrorPolicy(),
                partition_counts={},
                wall_ms=clock.wall_ms,
                idle_ms=0,
            ),
            clock=clock,
        )
        self.active = self._activate()

    def alive(self) -> bool:
        return True

    def _open_source(self) -> MemorySource:
        if self.unreadable:
            self.unreadable -= 1
            raise UnreachableError("away")
        return MemorySource(self.world.log, headers=True)

    def commit(
        self,
        token: int,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        hold: int | None = None,
    ) -> None:
        self.sent.append((token, offsets))
        self.holds.append(hold)

    def fetch_committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, Committed]:
        return dict.fromkeys(partitions, self.world.committed)

    def _activate(self) -> ActiveTask:
        self.activation.want(TASK)
        ready: list[ActiveTask] = []
        while not ready:
            ready = step_all(self.activation, self.updater)
            self.clock.advance(100)
            if self.activation.given_back():  # there is no other member
                self.given_back += 1
                self.activation.cancel(TASK)
                self.activation.want(TASK)
        ready[0].move_to(TaskStage.RUNNING)
        return ready[0]

    def state(self) -> dict[str, int]:
        return dict(self.active.state.stores["counts"].range())

    def work(self, most: int) -> None:
        """Process some input; the outputs do not matter here."""
        processor = self.active.processor
        if not most:
            return
        self.source.assign(processor.received)
        for batch in self.source.poll(most, 0):
            processor.process(batch)

    def steps(self) -> Iterator[str]:
        """A commit, step by step."""
        self.commit_port.begin([self.active])
        yield "flushed and sent" if self.sent else "nothing to say"
        if not self.sent:
            return
        token, offsets = self.sent.pop()
        if self.world.rnd.random() < 0.2:  # lost on the way: unknown, the same again
            if self.world.rnd.random() < 0.5:
                self._arrive(offsets)
            self.commit_port.done(token, CommitOutcome.UNKNOWN, 0)
            yield "unknown"
            self.commit_port.begin([self.active])
            token, offsets = self.sent.pop()
        self._arrive(offsets)
        yield "accepted"
        self.commit_port.done(token, CommitOutcome.ACCEPTED, 0)
        yield "answered"
        self.commit_port.finish()
        yield "written"

    def _arrive(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        self.world.committed = Committed(*offsets[INPUT])

    def die(self) -> None:
        """As kill -9: what was not delivered is lost, part of it may have been."""
        self.sink.deliver(self.world.rnd.randint(0, 4))
        self.sink.close()
        self.active.opened.close()
