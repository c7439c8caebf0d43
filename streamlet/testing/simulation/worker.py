"""A simulated worker: the one that ships, stepped by the world, over ports that can be checked.

Time passes only where a message travels or state is restored. What is simulated is when the worker
comes round (``due_ms``), and the threads beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.coordinator.commit_metadata import Positions
from streamlet.garbage import GarbageCollection
from streamlet.processing.edges.plan import EdgePlan
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.runtime.worker import Worker
from streamlet.runtime.worker_ports import WorkerPorts, WorkerThreads
from streamlet.tasks.activation import Activation
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit_delivery import ChangelogDelivery
from streamlet.tasks.commit_share import TaskCommit
from streamlet.tasks.meters import Meters
from streamlet.tasks.open_task import OpenTask, RestoreProgress
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.task_events import CopyFailed, Restored, SetCopies
from streamlet.tasks.task_record import OpeningStage, TaskStage
from streamlet.testing.memory_ports import MemoryAdmin, MemorySource
from streamlet.testing.simulation.brokers import SimCatalog, SimPositions, SimThread
from streamlet.testing.simulation.counting import input_of
from streamlet.testing.simulation.input import SimSink, SimSource
from streamlet.testing.simulation.restoring import SimReader, SimRunner, opener
from streamlet.testing.simulation.stores import locked, opened
from streamlet.types import StateNumber, TaskId

if TYPE_CHECKING:
    from streamlet.testing.simulation.member import SimMember


class _LeftGarbage(GarbageCollection):
    """Garbage that the process collects when it likes: a simulation closes thousands of tasks."""

    def collect(self, now_ms: int, *, busy: bool) -> None:
        """Collect nothing."""


@attrs.define(eq=False)
class _Closing:
    """Stores to be closed at a time, or earlier when ``hurried``."""

    opened: OpenTask
    hurried: bool = False


class SimCloser:
    """Closes stores after a pause, or after the time that a thread takes to come round.

    Args:
        member: the worker's.
        pause_ms: how long nothing is done about a task, unless in a hurry.
    """

    def __init__(self, member: SimMember, pause_ms: int) -> None:
        self._member, self._pause_ms = member, pause_ms
        self._waiting: dict[TaskId, _Closing] = {}

    @property
    def tasks(self) -> frozenset[TaskId]:
        """Tasks whose folders are locked until their stores are closed."""
        return frozenset(self._waiting)

    @property
    def paused(self) -> frozenset[TaskId]:
        """Tasks whose stores are closed only after the member's pause."""
        return frozenset(task for task, one in self._waiting.items() if not one.hurried)

    def close(self, opened: OpenTask) -> None:
        """Close these stores soon."""
        assert opened.task not in self._waiting, f"{opened.task} is closed twice"
        closing = self._waiting[opened.task] = _Closing(opened)
        self._close_in(closing, self._pause_ms)

    def hurry(self) -> None:
        """Close all that was given so far without a pause."""
        for one in self._waiting.values():
            if not one.hurried:
                one.hurried = True
                self._close_in(one, self._member.world.network.hop())

    def finish(self) -> None:
        """Close all at once: the process ends."""
        for one in list(self._waiting.values()):
            self._close(one)

    def _close_in(self, closing: _Closing, ms: int) -> None:
        close = self._member.when_awake(lambda: self._close(closing))
        self._member.world.later(ms, close)

    def _close(self, closing: _Closing) -> None:
        if self._waiting.get(closing.opened.task) is closing:
            del self._waiting[closing.opened.task]
            closing.opened.close()


class WatchedDelivery(ChangelogDelivery):
    """The changelog side of commits: nothing goes there without a claim."""

    def __init__(self, member: SimMember, sink: SimSink) -> None:
        self._member, log = member, member.world.cluster.log
        super().__init__(
            *(sink, MemoryAdmin(log), member.world.clock),
            open_source=lambda: MemorySource(log, headers=True),
        )

    def flush(self, active: ActiveTask, *, look: bool, compact: bool) -> TaskCommit:
        """Send what is dirty to the changelog."""
        self._member.world.protocol.wrote(self._member, active)
        return super().flush(active, look=look, compact=compact)


class WatchedActivation(Activation):
    """Tasks on their way up: with a marker seen, a copy that is open here has to be promoted."""

    def __init__(self, member: SimMember, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._member = member
        self._warm: set[TaskId] = set()

    def want(self, task: TaskId, positions: Positions | None = None) -> None:
        """Bring this task up."""
        member = self._member
        member.world.protocol.wanted(member, task, positions)
        copy = member.worker.updater.kept.get(task)
        if positions is not None and copy is not None:
            self._warm.add(task)
        super().want(task, positions)

    def cancel(self, task: TaskId) -> None:
        """Bring it up no more."""
        self._warm.discard(task)
        super().cancel(task)

    def step(self) -> list[ActiveTask]:
        """Go on; a folder that this worker has yet to close is not waited for."""
        opening = {one.task for one in self._at(OpeningStage.UNLOCKING)}
        for task in sorted(opening & self._member.worker.closer.paused):
            self._member.world.protocol.waits_for_itself(self._member, task)
        return super().step()

    def restored(self, event: Restored) -> ActiveTask | None:
        """Take stores that were restored or promoted."""
        coming = self._coming.get(event.opened.task)
        promoted = coming is not None and coming.opening is OpeningStage.PROMOTING
        active = super().restored(event)
        if promoted:
            self._warm.discard(event.opened.task)
        elif active is not None:
            self._opened_here(active.task)
        return active

    def copy_failed(self, event: CopyFailed) -> None:
        """Go on without a copy that could not be promoted."""
        self._warm.discard(event.task)
        super().copy_failed(event)

    def _opened_here(self, task: TaskId) -> None:
        """A task is ready that was not promoted."""
        if task in self._warm:
            self._warm.discard(task)
            self._member.world.protocol.began(self._member, task)


#: How soon the loop comes round again while something is waited for; an answer of the coordinator.
RETRY_MS, PROCESS_MS = 20, 100


class SimWorker:
    """The worker of one member; its own observer."""

    def __init__(self, member: SimMember, rebalance_events: RebalanceEvents) -> None:
        self._member = member
        self._world = member.world
        self.unheard = False  # copies told something since the last round
        self._known: frozenset[TaskId] = frozenset()  # ran when we looked last
        self._begun: dict[TaskId, ActiveTask] = {}  # as it was when it began last
        self.stopping = False
        world, topology = member.world, member.world.cluster.topology
        broker = MemoryAdmin(world.cluster.heard)
        self._readers = {name: SimReader(member, broker) for name in ("copies", "restore")}
        self.worker = Worker(
            world.settings,
            self._ports(broker),
            member.session,
            rebalance_events,
            SimCatalog(topology, broker, world.settings),
            EdgePlan(topology, {}, {}, exact=False),
            ErrorPolicy(),
            self,
            Meters(world.clock),
            siblings=member.instance.spec.members > 1,
            leaves=lambda: True,
            on_drained=self._drained,
        )
        self.registry, self.activation = self.worker.registry, self.worker._activation
        self.registry.garbage = _LeftGarbage()
        self.updater = self.worker._updater
        runner: Any = self.updater.runner
        self.runner: SimRunner = runner
        closer: Any = self.worker._closer
        self.closer: SimCloser = closer

    def _ports(self, broker: MemoryAdmin) -> WorkerPorts:
        member, world = self._member, self._member.world
        thread: Any = SimThread(member)
        sink = SimSink(member)
        simulated: dict[str, Any] = {
            "source": SimSource(world),
            "open_reader": self._readers.__getitem__,
        }
        return WorkerPorts(
            clock=world.clock,
            sink=sink,
            delivery=WatchedDelivery(member, sink),
            admin=broker,
            log_admin=broker,
            positions=SimPositions(world.coordinator),
            open_source=_no_source,
            open_stores=opener(member),
            threads=WorkerThreads(
                copies=lambda updater, clock, settings: SimRunner(
                    member, *self._two_readers, updater
                ),
                closer=lambda clock, pause_ms: SimCloser(member, pause_ms),
                asking=lambda: thread,
            ),
            activation=partial(WatchedActivation, member),
            **simulated,
        )

    @property
    def _two_readers(self) -> tuple[SimReader, SimReader]:
        return self._readers["copies"], self._readers["restore"]

    # -- its observer --------------------------------------------------------------------------

    def state_changed(self, state: str, tasks: tuple[TaskId, ...]) -> None:
        """Look at tasks that run from now on; those that only stood still are where they were."""
        for task in sorted({*tasks} - self._known):
            self._world.checks.started(self._member, task)
            active = self.registry.tasks[task]
            if not active.claimed and self._begun.get(task) is not active:
                self._world.checks.begins(self._member, active)
            self._begun[task] = active
        self._known = frozenset(tasks)

    #: The progress of copies is looked at in their stores.
    copying = None

    def restoring(self, progress: RestoreProgress) -> None:
        """Ignore it."""

    def produced(self, outputs: list[Output]) -> None:
        """Ignore them: there are none."""

    def settled(self, counts: bool) -> None:
        """Ignore it."""

    def _drained(self) -> None:
        self._member.instance.drained = True

    # -- what others ask -----------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """True if something is under way besides processing and its commits."""
        if self.stopping or self.worker._actions.unit.waiting or not self.activation.idle:
            return True
        if self.unheard or self.runner.busy:
            return True
        return any(not active.claimed for active in self.registry.tasks.values())

    @property
    def held(self) -> frozenset[TaskId]:
        """Tasks whose folders the member may have open."""
        return self.activation.tasks | self.registry.tasks.keys() | self.closer.tasks

    def runs(self, task: TaskId) -> bool:
        """True if it processes this task."""
        active = self.registry.tasks.get(task)
        return active is not None and active.stage is TaskStage.RUNNING

    def due_ms(self) -> int | None:
        """The time at which to come round again."""
        now, worker = self._world.now_ms, self.worker
        commit, actions, commits = worker._commit, worker._actions, worker._commits
        if self.stopping:
            return now + RETRY_MS
        if commit.under_way and not commit.sent:
            return now + RETRY_MS
        if commit.sent:  # it processes meanwhile
            return now + PROCESS_MS if now < self._world.input_until_ms else None
        if actions.unit.waiting or not actions.precopy.over:
            return max(now + 1, actions.precopy._due_ms or 0)
        if not self.activation.idle:
            return now + RETRY_MS
        tasks = self.registry.tasks.values()
        if any(active.stage is TaskStage.STOPPED for active in tasks):
            return now + RETRY_MS
        if self._member.session.gated:
            return now + RETRY_MS
        idle = commits.next_ms > self._world.input_until_ms
        if not tasks or (idle and all(active.claimed for active in tasks)):
            return None
        return commits.due_ms()

    # -- one round -----------------------------------------------------------------------------

    def round(self) -> None:
        """Step the worker, or go on with its end."""
        if not self.stopping:
            self.unheard = False
            self.worker.step()
            self.stopping = self.worker.drained
        if self.stopping:
            self.worker.stop_step()

    def stop(self) -> None:
        """Commit what runs and leave, whatever the group wants of us."""
        self.stopping = True

    # -- its end -------------------------------------------------------------------------------

    def die(self) -> None:
        """End the process as a crash does: nothing is closed in order."""
        for active in self.registry.tasks.values():
            active.opened.close()
        self.closer.finish()
        locks = self._member.instance.locks
        for task in [task for task, name in locks.items() if name == self._member.name]:
            del locks[task]

    def stray_flush(self) -> None:
        """Send what was in the producer's queue when the process was stopped.

        Of a task with a commit that was not answered that is nothing: all of it is delivered before
        the commit is sent, and no record bears the next number before it is accepted.
        """
        for task, active in self.registry.tasks.items():
            state: Any = active.state
            quiet = self.runs(task) and active.claimed and not state.drained
            if quiet and active.subtopology.stateful:
                number = StateNumber(active.epoch, active.number + 1)
                ((_, offset),) = active.processor.positions.items()
                self._world.cluster.write(task, number, offset + 1)

    # -- its begin -----------------------------------------------------------------------------

    def adopt(self, task: TaskId, by: str) -> ActiveTask:
        """Have a task that was ours before the simulation began, with one commit behind it."""
        locked(self._member, task)
        inputs = {input_of(task): 1}
        part = self.activation.topology.subtopology(task.subtopology)
        stores = opened(self._member, task)
        processor = Task(task, part, stores.state, inputs, epoch=1)
        active = ActiveTask(task, opening=OpeningStage.RESTORING)
        active.begin(stores, part, processor, StateNumber(1, 1))
        active.number, active.by, active.claimed = 1, by, True
        log = self._world.cluster.log
        active.ends = {tp: log.end(tp) for tp in active.changelogs.values()}
        self.registry.add(active)
        self.registry.resume([active])
        self._known |= {task}
        return active

    def begin_with(self, copies: Sequence[SetCopies]) -> None:
        """Keep the copies that were asked for before the simulation began."""
        self.worker._actions._perform(copies)

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


def _no_source(purpose: str) -> Any:
    """A consumer to search changelogs for commit entries: nothing here calls for one."""
    raise AssertionError("positions and state disagree")
