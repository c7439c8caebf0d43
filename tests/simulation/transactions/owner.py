"""A member that runs one task: activation, stores, commits and producer are those that ship."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import streamlet as sl
from streamlet.app import App
from streamlet.clock import ManualClock
from streamlet.config import Settings
from streamlet.coordinator import events as ev
from streamlet.coordinator.commit_metadata import Positions
from streamlet.coordinator.events import CommitOutcome
from streamlet.coordinator.messages import Committed, OffsetCommit
from streamlet.coordinator.states import MembershipView
from streamlet.errors import StreamletError, TimedOutError
from streamlet.kafka.transactions import TransactionalSink
from streamlet.processing.edges.plan import EdgePlan
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.record_collector import RecordCollector
from streamlet.processing.task import Task
from streamlet.state.directory import StateDirectory
from streamlet.tasks.activation import Activation
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.commit_delivery import ChangelogDelivery
from streamlet.tasks.opening import TaskOpener, reads_committed
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.targets import Targets
from streamlet.tasks.task_record import TaskStage, Unit, UnitStage
from streamlet.tasks.transactional_commit import TransactionalCommit
from streamlet.topology.graph import Topology
from streamlet.types import TaskId, TopicPartition
from tests.memory_ports import MemorySource
from tests.simulation.transactions.broker import Broker, CommittedLog, TransactionAdmin
from tests.unit.tasks.inline import InlineRunner, step_all

TASK = TaskId(0, 0)
INPUT, OUTPUT = TopicPartition("words", 0), TopicPartition("out", 0)
_PATIENCE_MS = 1_000


def counting() -> App:
    """Counts of keys, each written out."""
    app = App("app")
    words = app.stream("words", key=str, value=str)
    words.group_by_key().count(store="counts").to_stream().to("out")
    return app


def suppressing() -> App:
    """Counts of keys in windows, written out when the window closes: results wait in a store."""
    app = App("app")
    words = app.stream("words", key=str, value=str).group_by_key()
    counts = words.windowed_by(sl.tumbling("10s")).count(store="counts")
    counts.suppress(sl.until_window_closes(), store="waiting").to_stream().to("out")
    return app


SETTINGS = Settings.load({"processing.guarantee": "exactly_once"})


class Inline(Executor):
    """Answers before it returns, so that a history can be told again."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Call it."""
        answer: Future[Any] = Future()
        try:
            answer.set_result(call(*args, **named))
        except StreamletError as error:
            answer.set_exception(error)
        return answer


class Owner:
    """A process with a membership, which may not know yet that it is lost.

    Args:
        broker: there is one.
        name: of the member.
        folder: its disk, which outlives it.
        topology: what its task does.
    """

    gated = False

    def __init__(self, broker: Broker, name: str, folder: Path, topology: Topology) -> None:
        self.name, self._broker = name, broker
        self.view = MembershipView(member_id=name, generation=broker.generation)
        self.active: ActiveTask | None = None
        self._wanted = False
        self._sent: tuple[int, OffsetCommit] | None = None
        self._unit: Unit | None = None
        clock = self._clock = ManualClock(1_000)
        admin = TransactionAdmin(broker)
        self.sink = TransactionalSink(f"app-{name}", 10_000, "simulated", clock=clock)
        self._sending = RecordCollector(self.sink, ErrorPolicy(), "app")
        self._source = self._reads(committed=SETTINGS.read_committed)
        delivery = ChangelogDelivery(
            *(self.sink, admin, clock),
            open_source=partial(self._reads, committed=False),
            transactional=True,
        )
        group: Any = self
        self.commits = TransactionalCommit(
            *(group, delivery, clock),
            sink=self.sink,
            tasks=lambda: [self.active] if self.active is not None else [],
        )
        restores = reads_committed(topology, SETTINGS)
        opener = TaskOpener(topology, StateDirectory(folder, "app"), SETTINGS.cache_max_bytes)
        targets = Targets(
            topology,
            inputs=lambda task: (INPUT,),
            positions=self,
            admin=admin,
            settings=SETTINGS,
            open_source=partial(self._reads, committed=restores),
            clock=clock,
            thread=Inline(),
        )
        self._updater = StateUpdater(
            open_stores=opener,
            reader=StoreChangelogReader(self._reads(committed=restores), admin, clock),
            restores=StoreChangelogReader(self._reads(committed=restores), admin, clock),
            targets=targets,
            settings=SETTINGS,
            clock=clock,
            runner=lambda copies, clock, most: InlineRunner(copies),
        )
        self._activation = Activation(
            topology,
            targets=targets,
            open_stores=opener,
            updater=self._updater,
            settings=SETTINGS,
            edges=EdgePlan(topology, {}, {}, exact=False),
            new_task=partial(
                Task, policy=ErrorPolicy(), partition_counts={}, wall_ms=clock.wall_ms, idle_ms=0
            ),
            clock=clock,
        )

    def _reads(self, *, committed: bool) -> MemorySource:
        log: Any = CommittedLog(self._broker) if committed else self._broker.log
        return MemorySource(log, headers=True)

    # The membership, as the commits see it.

    def alive(self) -> bool:
        """It believes so."""
        return True

    def want(self, request: ev.WorkerRequest) -> None:
        """Joins do not wait here."""

    def commit(
        self,
        token: int,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        hold: int | None = None,
    ) -> None:
        """Have it sent with the next step."""
        one = OffsetCommit("app", self.view.generation, self.name, None, dict(offsets))
        self._sent = token, one

    def fetch_committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, Committed]:
        """The positions, unless a transaction is open that has others."""
        if self._broker.unstable:
            raise TimedOutError("an open transaction has positions")
        return {tp: self._broker.positions.get(tp, Committed(-1, "")) for tp in partitions}

    # What it does.

    @property
    def busy(self) -> bool:
        """True if it has the task, or is about to."""
        return self.active is not None or self._wanted

    def take(self, positions: Positions | None = None) -> None:
        """Bring the task up, from these positions of a mark if it is given one."""
        self._activation.want(TASK, positions)
        self._wanted = True

    def released(self) -> Positions | None:
        """The positions that a mark for us says, by the order of this generation."""
        if self._broker.unstable or INPUT not in self._broker.positions:
            return None
        found = Positions.of([INPUT], self._broker.positions)
        mine = found.mark_for(self.name, self.view.generation)
        return found if mine else None

    def release(self, to: str) -> None:
        """Stop the task, and commit it with a mark."""
        if self.active is not None and self._unit is None:
            marks = {TASK: to}
            self._unit = Unit(7, self.view.generation, (TASK,), marks)
            self.active.move_to(TaskStage.STOPPED)
            for stage in (UnitStage.ASKED, UnitStage.STOPPED):
                self._unit.move_to(stage)

    def step(self, most: int) -> str:
        """Come one step further; what broke, if anything did.

        ``most``: records to process at most.
        """
        try:
            if self.active is None:
                return self._come_up() if self._wanted else ""
            self._go_on(self.active, most)
        except StreamletError as error:
            if self.active is None and not error.passing:
                return f"X2: {self.name} cannot begin: {error}"
            self._lose()
        return ""

    def _come_up(self) -> str:
        self._clock.advance(600)
        ready = step_all(self._activation, self._updater)
        if not ready:
            torn = self._activation.given_back()
            return f"X2: {self.name} cannot begin: {torn[TASK]}" if torn else ""
        (self.active,) = ready
        self.active.move_to(TaskStage.RUNNING)
        self._source.assign(self.active.processor.received)
        self._wanted = False
        return self._compared(self.active)

    def _compared(self, active: ActiveTask) -> str:
        """X2: the state is that of the position it begins at; of windows the outputs tell."""
        if len(active.state.stores) > 1:
            return ""
        at = active.processor.positions[INPUT]
        wanted: dict[str, int] = {}
        for record in self._broker.log.records(INPUT)[:at]:
            key = (record.key or b"").decode()
            wanted[key] = wanted.get(key, 0) + 1
        found = dict(active.state.stores["counts"].range())
        return "" if found == wanted else f"X2: {self.name} begins at {at} with {found}"

    def _go_on(self, active: ActiveTask, most: int) -> None:
        if self._sent is not None:
            self._answer(*self._sent)
            return
        if self._unit is not None and not self.commits.under_way:
            self.commits.begin_last(self._unit, [active])
        elif self._unit is not None or self.commits.under_way or not most:
            self.commits.begin([active], self._unit)
        elif not self.commits.sealed:
            for batch in self._source.poll(most, 0):
                for output in active.processor.process(batch):
                    active.wrote = True
                    self._sending.send(output, None, TASK)

    def _answer(self, token: int, request: OffsetCommit) -> None:
        """Send the commit; its answer."""
        code = self.sink.commit(request, _PATIENCE_MS)
        self._sent = None
        lost = CommitOutcome.UNKNOWN if code == -1 else CommitOutcome.LOST
        settled = self.commits.done(token, lost if code else CommitOutcome.ACCEPTED, code)
        if self._unit is not None and settled is not None and settled.accepted:
            self.commits.finish()
            self.close()

    def _lose(self) -> None:
        """Go back to the last commit; or find that the task is another's."""
        self._sent = self._unit = None
        self.commits.forget_queued()
        was_there = self.busy
        self.close()
        if was_there:
            self.take()

    def close(self) -> None:
        """Have the task no more."""
        active, self.active, self._wanted, self._unit = self.active, None, False, None
        self._activation.cancel(TASK)
        if active is not None:
            self.commits.forget(active)
            active.opened.close()

    def die(self) -> None:
        """As kill -9: what was not sent is lost, the transaction stays open."""
        active, self.active = self.active, None
        self._activation.cancel(TASK)
        self._updater.take_orders()
        self._updater.drop_all()
        if active is not None:
            active.opened.close()
