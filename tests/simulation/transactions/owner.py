"""A member with all tasks: activation, stores, commits and producer are those that ship."""

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
from streamlet.tasks.commit import AtLeastOnceCommit
from streamlet.tasks.commit_delivery import ChangelogDelivery
from streamlet.tasks.opening import TaskOpener, reads_committed
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.targets import Targets
from streamlet.tasks.task_record import TaskStage, Unit, UnitStage
from streamlet.tasks.transactional_commit import TransactionalCommit
from streamlet.testing.memory_ports import MemorySource
from streamlet.topology.graph import Topology
from streamlet.types import TaskId, TopicPartition
from tests.simulation.transactions.broker import Broker, CommittedLog, TransactionAdmin
from tests.unit.tasks.inline import InlineRunner, step_all

INPUT, OUTPUT = TopicPartition("words", 0), TopicPartition("out", 0)
LETTERS = TopicPartition("letters", 0)
LEFT, RIGHT = TopicPartition("left", 0), TopicPartition("right", 0)
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


def joining() -> App:
    """A join by foreign keys: its two tasks write to each other in the transaction of one owner."""
    app = App("app")
    left = app.table(LEFT.topic, key=str, value=str)
    right = app.table(RIGHT.topic, key=str, value=str)
    rows = left.join(
        right, lambda row, to: f"{row} {to}", foreign_key=lambda row: row[0], value=str
    )
    rows.to_stream().to("out")
    return app


def failing() -> App:
    """Counts of keys, one of which fails: its records become dead letters."""
    app = App("app", on_error=("dead_letter", LETTERS.topic))
    words = app.stream("words", key=str, value=str).filter(_fail_on_some)
    words.group_by_key().count(store="kept").to_stream().to("out")
    return app


def _fail_on_some(key: str, value: str) -> bool:
    if key == "m":
        raise ValueError(value)
    return True


def inputs_of(topology: Topology) -> dict[TaskId, tuple[TopicPartition, ...]]:
    """The tasks, with the partitions that each reads: there is one of each topic."""
    return {
        TaskId(part.id, 0): tuple(part.inputs(0, dict.fromkeys(part.input_topics, 1)))
        for part in topology.subtopologies
    }


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


def _task(
    counts: Mapping[str, int], clock: ManualClock, policy: ErrorPolicy, *args: Any, **more: Any
) -> Task:
    """A task that waits for no other partition."""
    times = {"wall_ms": clock.wall_ms, "idle_ms": 0}
    return Task(*args, policy=policy, partition_counts=counts, **times, **more)


class Owner:
    """A process with a membership, which may not know yet that it is lost.

    It commits by transactions.

    Args:
        broker: there is one.
        name: of the member.
        folder: its disk, which outlives it.
        topology: what its tasks do; every topic has one partition.
        policy: what becomes of records that fail.
    """

    gated = False
    transactional = True
    settings = Settings.load({"processing.guarantee": "exactly_once"})

    def __init__(
        self, broker: Broker, name: str, folder: Path, topology: Topology, policy: ErrorPolicy
    ) -> None:
        self.name, self._broker = name, broker
        self.view = MembershipView(member_id=name, generation=broker.generation)
        #: The input partitions of each task.
        self._inputs = inputs_of(topology)
        self.active: dict[TaskId, ActiveTask] = {}
        self._wanted = False
        self._sent: tuple[int, OffsetCommit] | None = None
        self._unit: Unit | None = None
        clock = self._clock = ManualClock(1_000)
        admin = TransactionAdmin(broker)
        self.sink = self._opened_sink()
        self._collector = RecordCollector(self.sink, policy, "app")
        self._source = self._reads(committed=self.settings.read_committed)
        delivery = ChangelogDelivery(
            *(self.sink, admin, clock),
            open_source=partial(self._reads, committed=False),
            transactional=self.transactional,
        )
        self.commits = self._commit_port(delivery)
        restores = reads_committed(topology, self.settings)
        opener = TaskOpener(topology, StateDirectory(folder, "app"), self.settings.cache_max_bytes)
        targets = Targets(
            topology,
            inputs=lambda task: self._inputs[task],
            positions=self,
            admin=admin,
            settings=self.settings,
            open_source=partial(self._reads, committed=restores),
            clock=clock,
            thread=Inline(),
        )
        self._updater = StateUpdater(
            open_stores=opener,
            reader=StoreChangelogReader(self._reads(committed=restores), admin, clock),
            restores=StoreChangelogReader(self._reads(committed=restores), admin, clock),
            targets=targets,
            settings=self.settings,
            clock=clock,
            runner=lambda copies, clock, settings: InlineRunner(copies),
        )
        counts = {tp.topic: 1 for inputs in self._inputs.values() for tp in inputs}
        self._activation = Activation(
            topology,
            targets=targets,
            open_stores=opener,
            updater=self._updater,
            settings=self.settings,
            edges=EdgePlan(topology, counts, {}, exact=False, transactions=self.transactional),
            new_task=partial(_task, counts, clock, policy),
            clock=clock,
        )

    def _opened_sink(self) -> Any:
        return TransactionalSink(f"app-{self.name}", 10_000, "simulated", clock=self._clock)

    def _commit_port(self, delivery: ChangelogDelivery) -> AtLeastOnceCommit:
        group: Any = self
        return TransactionalCommit(
            *(group, delivery, self._clock),
            sink=self.sink,
            tasks=lambda: [*self.active.values()],
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
    def running(self) -> bool:
        """True if all tasks are up."""
        return self.active.keys() == self._inputs.keys()

    @property
    def busy(self) -> bool:
        """True if it has the tasks, or is about to."""
        return self.running or self._wanted

    def take(self, positions: Mapping[TaskId, Positions] | None = None) -> None:
        """Bring the tasks up, from these positions of marks if it is given them."""
        for task in self._inputs:
            self._activation.want(task, None if positions is None else positions[task])
        self._wanted = True

    def released(self) -> dict[TaskId, Positions] | None:
        """The positions that marks for us say, by the order of this generation."""
        known = self._broker.positions
        if self._broker.unstable:
            return None
        found = {
            task: Positions.of(inputs, {tp: known.get(tp, Committed(-1, "")) for tp in inputs})
            for task, inputs in self._inputs.items()
        }
        mine = [one.mark_for(self.name, self.view.generation) for one in found.values()]
        return found if all(mine) else None

    def release(self, to: str) -> None:
        """Stop the tasks, and commit them with a mark."""
        if self.running and self._unit is None:
            marks = dict.fromkeys(self._inputs, to)
            self._unit = Unit(7, self.view.generation, tuple(self._inputs), marks)
            for active in self.active.values():
                active.move_to(TaskStage.STOPPED)
            for stage in (UnitStage.ASKED, UnitStage.STOPPED):
                self._unit.move_to(stage)

    def step(self, most: int) -> str:
        """Come one step further; what broke, if anything did.

        ``most``: records to process at most.
        """
        try:
            if not self.running:
                return self._come_up() if self._wanted else ""
            self._go_on([*self.active.values()], most)
        except StreamletError as error:
            if not self.running and not error.passing:
                return f"X2: {self.name} cannot begin: {error}"
            self._lose()
        return ""

    def _come_up(self) -> str:
        self._clock.advance(600)
        for active in step_all(self._activation, self._updater):
            self.active[active.task] = active
            active.move_to(TaskStage.RUNNING)
            self._came_up(active)
            self._source.assign(active.processor.received)
            if wrong := self._compared(active):
                return wrong
        self._wanted = not self.running
        torn = self._activation.given_back() if self._wanted else {}
        return f"X2: {self.name} cannot begin: {torn}" if torn else ""

    def _came_up(self, active: ActiveTask) -> None:
        """A task is about to run."""

    def _may_process(self, active: ActiveTask) -> bool:
        """True if a task may take records."""
        return True

    def _compared(self, active: ActiveTask) -> str:
        """X2: the state is that of the position it begins at; of others the outputs tell."""
        if active.state.stores.keys() != {"counts"}:
            return ""
        at = active.processor.positions[INPUT]
        wanted: dict[str, int] = {}
        for record in self._broker.log.records(INPUT)[:at]:
            key = (record.key or b"").decode()
            wanted[key] = wanted.get(key, 0) + 1
        found = dict(active.state.stores["counts"].range())
        return "" if found == wanted else f"X2: {self.name} begins at {at} with {found}"

    def _go_on(self, tasks: list[ActiveTask], most: int) -> None:
        """Process input, or take a step of a commit, for whose answer processing may wait."""
        ready = [self._may_process(active) for active in tasks]
        most = most if all(ready) else 0
        waits = self.commits.sealed or not most
        if self._sent is not None and waits:
            self._answer(*self._sent)
        elif self._unit is not None and not self.commits.under_way:
            if not self.commits.begin_claims(self._unit, tasks):
                self.commits.begin_last(self._unit, tasks)
        elif self._sent is None and (self._unit is not None or self.commits.under_way or not most):
            self.commits.begin(tasks, self._unit)
        else:
            by_input = {tp: self.active[task] for task, tps in self._inputs.items() for tp in tps}
            for batch in self._source.poll(most, 0):
                active = by_input[TopicPartition(batch.topic, batch.partition)]
                for output in active.processor.process(batch):
                    active.wrote = True
                    self._collector.send(output, active.edge_writer, active.task)

    def _answer(self, token: int, request: OffsetCommit) -> None:
        """Send the commit; its answer."""
        code = self._ended_by(request)
        self._sent = None
        lost = CommitOutcome.UNKNOWN if code == -1 else CommitOutcome.LOST
        outcome = lost if code else CommitOutcome.ACCEPTED
        settled = self.commits.done(token, outcome, code)
        if self._unit is not None and settled is not None and settled.accepted:
            self.commits.finish()
            self.close()
        self._answered(outcome)

    def _answered(self, outcome: CommitOutcome) -> None:
        """A commit was answered."""

    def _ended_by(self, request: OffsetCommit) -> int:
        code: int = self.sink.commit(request, _PATIENCE_MS)
        return code

    def _lose(self) -> None:
        """Go back to the last commit; or find that the tasks are another's."""
        self._sent = self._unit = None
        self.commits.forget_queued()
        was_there = self.busy
        self.close()
        if was_there:
            self.take()

    def close(self) -> None:
        """Have the tasks no more."""
        tasks, self.active, self._wanted, self._unit = self.active, {}, False, None
        for task in self._inputs:
            self._activation.cancel(task)
        for active in tasks.values():
            self.commits.forget(active)
            active.opened.close()

    def die(self) -> None:
        """As kill -9: what was not sent is lost, the transaction stays open."""
        tasks, self.active = self.active, {}
        for task in self._inputs:
            self._activation.cancel(task)
        self._updater.take_orders()
        self._updater.drop_all()
        for active in tasks.values():
            active.opened.close()
