"""A simulated worker: the real task actions, registry and commit over ports that can be checked.

One round is what ``runtime.stream_thread`` does in one, in the same order. Time passes only where a
message travels or state is restored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from streamlet.errors import (
    EntryTooLargeError,
    StreamletError,
    TaskMigratedError,
    TimedOutError,
    UnwritableEntryError,
)
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit import AtLeastOnceCommit
from streamlet.tasks.commit_loop import HOLD_OFF_MS, CommitLoop, Precopy
from streamlet.tasks.meters import Meters
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.targets import Targets
from streamlet.tasks.task_actions import TaskActions
from streamlet.tasks.task_events import SetCopies
from streamlet.tasks.task_failures import StoreFailures
from streamlet.tasks.task_record import TaskStage
from streamlet.tasks.task_registry import TaskRegistry
from streamlet.testing.simulation.brokers import SimBroker, SimEdges, SimThread, SimTopology
from streamlet.testing.simulation.cluster import input_of
from streamlet.testing.simulation.ports import SimConsumer, SimDelivery, counting
from streamlet.testing.simulation.restoring import SimReader, SimRunner, opener
from streamlet.testing.simulation.stores import locked, opened
from streamlet.testing.simulation.watched import WatchedActivation
from streamlet.types import StateNumber, TaskId

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember

#: How soon the loop comes round again while something is waited for.
RETRY_MS = 20


class SimWorker:
    """The tasks of one member."""

    def __init__(self, member: SimMember, board: RebalanceEvents) -> None:
        self._member = member
        self._world = member.world
        settings, clock = member.world.settings, member.world.clock
        self._timeout_ms = settings.session_timeout_ms
        source: Any = SimConsumer()
        delivery: Any = SimDelivery(member)
        self._unheard = False  # copies told something since the last round
        self._topology: Any = SimTopology(member.world)
        self._broker: Any = SimBroker(member)
        self._targets = self._new_targets()
        self.copies = self._new_copies()
        self.activation = self._new_activation()
        self._group = member.session
        self._commit = AtLeastOnceCommit(self._group, delivery, clock)
        self.registry = TaskRegistry(
            source, cache_bytes=0, most_buffered=1, forget=self._commit.forget
        )
        meters = Meters(clock)
        self._actions = TaskActions(
            board,
            group=self._group,
            holdings=self.registry,
            activation=self.activation,
            copies=self.copies,
            commit=self._commit,
            clock=clock,
            settled=lambda settled: None,
            meters=meters,
            precopy=Precopy(settings.handover_timeout_ms),
        )
        parts = (self.registry, self.activation, self._actions, meters)
        self._commits = CommitLoop(
            *(settings, self._commit, clock),
            group=self._group,
            holdings=self.registry,
            actions=self._actions,
            meters=meters,
            failures=StoreFailures(*parts, self._lose),
            refused_entry=_refused_entry,
            lose=self._lose,
            tidy=lambda now_ms: None,
        )
        self._known: frozenset[TaskId] = frozenset()  # ran when we looked last
        self.stopping: str | None = None
        self._deadline_ms: int | None = None  # of the last commit

    def _new_targets(self) -> Targets:
        thread: Any = SimThread(self._member)
        return Targets(
            self._topology,
            inputs=lambda task: (input_of(task),),
            positions=self._broker,
            admin=self._broker,
            settings=self._world.settings,
            open_source=_no_source,
            clock=self._world.clock,
            thread=thread,
        )

    def _new_copies(self) -> StateUpdater:
        member = self._member
        reader: Any = SimReader(member)
        restores: Any = SimReader(member)
        copies = StateUpdater(
            open_stores=opener(member),
            reader=reader,
            restores=restores,
            targets=self._targets,
            settings=self._world.settings,
            clock=self._world.clock,
            wake=self._told,
            runner=lambda copies, clock, most: SimRunner(member, reader, restores, copies),
        )
        runner: Any = copies.runner
        self.runner: SimRunner = runner
        return copies

    def _told(self) -> None:
        """The copies have something to say."""
        self._unheard = True
        self._member.wake_worker()

    def _new_activation(self) -> WatchedActivation:
        member, settings, clock = self._member, self._world.settings, self._world.clock
        edges: Any = SimEdges()
        new_task: Any = counting
        return WatchedActivation(
            member,
            self._topology,
            targets=self._targets,
            open_stores=opener(member),
            copies=self.copies,
            settings=settings,
            edges=edges,
            new_task=new_task,
            clock=clock,
        )

    # -- what others ask -----------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """True if something is under way besides processing and its commits."""
        if self.stopping or self._actions.waiting or not self.activation.idle:
            return True
        if self._unheard or self.runner.busy:
            return True
        return any(not active.claimed for active in self.registry.tasks.values())

    @property
    def held(self) -> frozenset[TaskId]:
        """Tasks whose folders it may have."""
        return self.activation.tasks | self.registry.tasks.keys()

    def runs(self, task: TaskId) -> bool:
        """True if it processes this task."""
        active = self.registry.tasks.get(task)
        return active is not None and active.stage is TaskStage.RUNNING

    def due_ms(self) -> int | None:
        """The time at which to come round again."""
        now, commit, actions = self._world.now_ms, self._commit, self._actions
        if self.stopping is not None:
            return now + RETRY_MS
        if commit.under_way and not commit.sent:
            return now + RETRY_MS
        if commit.sent:
            return None
        if actions.waiting or not actions.precopy.over:
            return now + 1
        if not self.activation.idle:
            return now + RETRY_MS
        tasks = self.registry.tasks.values()
        if any(active.stage is TaskStage.STOPPED for active in tasks):
            return now + RETRY_MS
        if self._group.gated:
            return now + RETRY_MS
        idle = self._commits.next_ms > self._world.input_until_ms
        if not tasks or (idle and all(active.claimed for active in tasks)):
            return None
        return self._commits.next_ms + (HOLD_OFF_MS if actions.awaited else 0)

    # -- one round -----------------------------------------------------------------------------

    def round(self) -> None:
        """Take the news, activate, process, commit."""
        if self.stopping is not None:
            self._stop_now(self.stopping)
            return
        self._unheard = False
        self._actions.take()
        if self._actions.leaving is not None:
            self._member.instance.drained = True
            self.stop(self._actions.leaving)
            self._stop_now(self._actions.leaving)
            return
        for active in self.activation.step():
            self._actions.run(active)
        self._actions.give_back(self.activation.given_back())
        self._look()
        first = self._actions.unit is not None and not self._commit.under_way
        if self._world.now_ms <= self._world.input_until_ms and not first:
            for active in self.registry.of_stage(TaskStage.RUNNING):
                counting: Any = active.processor
                counting.process()
        self._commits.step()

    def _look(self) -> None:
        """Check the tasks that run now and did not before."""
        tasks = self.registry.tasks
        running = frozenset(t for t, a in tasks.items() if a.stage is TaskStage.RUNNING)
        for task in sorted(running - self._known):
            self._world.checks.started(self._member, task)
            if not tasks[task].claimed:
                self._world.checks.begins(self._member, tasks[task])
        self._known = running

    def _lose(self, error: StreamletError) -> None:
        self._actions.lose_all()
        self._group.rejoin("membership was lost")

    # -- its end -------------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """Commit what runs and leave, whatever the group wants of us."""
        self.stopping = reason

    def _stop_now(self, reason: str) -> None:
        """Go on with the last commit of a worker that is stopped, then say goodbye."""
        if self._deadline_ms is None:
            self._deadline_ms = self._world.now_ms + self._timeout_ms
            for task in self.activation.tasks:
                self.activation.cancel(task)
            self.registry.stop(self.registry.of_stage(TaskStage.RUNNING))
        try:
            self._actions.take_answers()
            over = self._commits.last_step(self._deadline_ms)
        except (TaskMigratedError, TimedOutError):
            over = True
        if over:
            self._actions.drop_all()
            self._group.leave(reason, 0, quietly=False)

    def die(self) -> None:
        """End the process: nothing is open any more."""
        for active in self.registry.tasks.values():
            active.opened.close()
        locks = self._member.instance.locks
        for task in [task for task, name in locks.items() if name == self._member.name]:
            del locks[task]

    def stray_flush(self) -> None:
        """Send what was in the producer's queue when the process was stopped.

        Of a task with a commit that was not answered that is nothing: all of it is delivered before
        the commit is sent, and no record bears the next number before it is accepted.
        """
        for task, active in self.registry.tasks.items():
            counting: Any = active.processor
            quiet = self.runs(task) and active.claimed and counting.flushed <= active.number
            if quiet and active.subtopology.stateful:
                number = StateNumber(active.epoch, active.number + 1)
                ((_, offset),) = counting.positions.items()
                self._world.cluster.logs[task].records.append((number, offset + 1))

    # -- its begin -----------------------------------------------------------------------------

    def adopt(self, task: TaskId, by: str) -> ActiveTask:
        """Have a task that was ours before the simulation began, with one commit behind it."""
        locked(self._member, task)
        inputs = {input_of(task): 1}
        part = self._topology.subtopology(task.subtopology)
        processor: Any = counting(task, part, None, inputs)
        active = ActiveTask(opened(self._member, task), part, tuple(inputs), processor, epoch=1)
        active.contained, active.committed, active.number = StateNumber(1, 1), inputs, 1
        active.by, active.claimed = by, True
        self.registry.add(active)
        self.registry.resume(active)
        self._known |= {task}
        return active

    def begin_with(self, copies: Sequence[SetCopies]) -> None:
        """Keep the copies that were asked for before the simulation began."""
        self._actions._perform(copies)

    def follow_from_the_start(self) -> None:
        """Take over the copies that were read before the simulation began.

        Of one that has caught up already the group has yet to hear.
        """
        self.runner.round()
        self._member.wake_worker()

    def check_invariants(self) -> None:
        """Raise AssertionError where a task contradicts itself."""
        self.activation.check_invariants()
        for active in self.registry.tasks.values():
            active.check_invariants()


def _no_source() -> Any:
    """A consumer to search changelogs for commit entries: nothing here calls for one."""
    raise AssertionError("positions and state disagree")


def _refused_entry(error: EntryTooLargeError | UnwritableEntryError) -> None:
    """An entry that its changelog does not take: there is none here."""
    raise error
