"""A worker of an application that can be stepped: poll, process, commit; decisions in between.

Everything that touches active tasks happens on the thread that steps it. The control thread
(``coordinator.session``) keeps the membership alive, and the state updater reads changelogs; a step
looks at what they left, so that a join never stops processing and a slow user function never stops
a heartbeat. ``stream_thread`` steps a worker until it ends; the simulator steps the same class,
with ports and threads of its own (``worker_ports``).
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from streamlet.config import Settings
from streamlet.coordinator.session import GroupSession
from streamlet.errors import (
    ChangelogLostError,
    EntryTooLargeError,
    ProcessingError,
    StreamletError,
    TaskMigratedError,
    TimedOutError,
    UndeliveredError,
    UnwritableEntryError,
)
from streamlet.logs import get_logger
from streamlet.processing.edges.plan import EdgePlan
from streamlet.processing.policy import FAIL, ErrorPolicy
from streamlet.processing.record_collector import RecordCollector
from streamlet.processing.record_failures import RecordCounters
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.listeners import Observer
from streamlet.runtime.pauses import Pauses
from streamlet.runtime.placement import placement_check
from streamlet.runtime.record_loop import RecordLoop
from streamlet.runtime.topic_watch import TopicWatch
from streamlet.runtime.worker_parts import WorkerParts
from streamlet.runtime.worker_ports import WorkerPorts
from streamlet.runtime.worker_status import Companions, WorkerStatus
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit_loop import CommitLoop, Precopy
from streamlet.tasks.commit_share import Settled
from streamlet.tasks.disk_failures import DiskFailures
from streamlet.tasks.input_bound import InputBound
from streamlet.tasks.key_questions import KeyQuestions
from streamlet.tasks.meters import Meters
from streamlet.tasks.open_task import RestoreProgress
from streamlet.tasks.opening import close_later_ms
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.task_actions import TaskActions
from streamlet.tasks.task_failures import OutOfRange, StoreFailures
from streamlet.tasks.task_record import TaskStage
from streamlet.tasks.task_registry import TaskRegistry

log = get_logger(__name__)

#: How long a worker waits for the marks there are before it joins: as one that is to leave.
MARKS_MS = 5_000
#: How long a worker that failed tries to leave the group, ms.
FAREWELL_MS = 1_000
#: How long a worker that stops waits for an answer before its last commit is looked at again.
STOP_WAIT_MS = 5


@attrs.define(eq=False, slots=False)
class Worker:
    """Runs the tasks the group gives it, a step at a time; all methods but two are one thread's.

    Args:
        settings: the application's.
        ports: the world outside.
        group: our membership, not started; closed with the worker.
        rebalance_events: what we share with the control thread.
        catalog: knows the topology and what topics there are.
        edges: the repartition topics that are exact.
        policy: what becomes of records that fail.
        observer: called when something happens.
        meters: counts beside the work.
        companions: parts beside it.
        siblings: whether other workers share our folder, so that they may wait for what we close.
        leaves: asked when it stops: whether for good; else a static id waits for its next process.
        on_drained: called when it has handed everything over and left; no other member waits then.
    """

    _settings: Settings
    _ports: WorkerPorts
    _group: GroupSession
    _rebalance_events: RebalanceEvents
    _catalog: Catalog
    _edges: EdgePlan
    _policy: ErrorPolicy
    _observer: Observer
    meters: Meters
    _companions: Companions = attrs.field(factory=Companions)
    _siblings: bool = False
    _leaves: Callable[[], bool] = lambda: False
    _on_drained: Callable[[], None] = lambda: None

    def __attrs_post_init__(self) -> None:
        settings, ports, clock = self._settings, self._ports, self._ports.clock
        self._clock, self._source, self._sink = clock, ports.source, ports.sink
        self._link, self._tables = self._companions.link, self._companions.tables
        #: Of the tasks given up so far, all of them once it has stopped.
        self.counters = RecordCounters()
        name = self._catalog.topology.application
        self._collector = RecordCollector(self._sink, self._policy, name, self.counters)
        outside = WorkerParts(settings, ports, self._catalog, self._observer.settled)
        wake, copies = self._rebalance_events.wake, self._companions.served.copies
        self._updater = outside.state_updater(wake, self._restoring, copies, self._observer.copying)
        self._activation = outside.activation(
            self._updater, self._edges, self._policy, self._companions.tables
        )
        self._commit = outside.commit(self._group, self._settle, lambda: self._actions.to_commit())
        self._purge = outside.purge(self._group.alive)
        closing_ms = close_later_ms(settings.stream_rebalancing_mode, self._siblings)
        self._closer = ports.threads.closer(clock, closing_ms)
        self.registry = TaskRegistry(
            self._source,
            cache_bytes=settings.cache_max_bytes,
            input_bound=InputBound(
                settings.buffered_records_per_partition, settings.input_buffer_max_bytes
            ),
            forget=self._forget,
            close=self._closer.close,
            served=self._companions.served,
        )
        self._actions = self._new_actions()
        self._topics = TopicWatch(
            self._catalog, self._activation.missing, self._group, self._actions, clock
        )
        parts = (self.registry, self._activation, self._actions, self.meters)
        self._out_of_range = OutOfRange(settings, *parts, clock)
        self._failures = StoreFailures(*parts, self._lose)
        self._disk = DiskFailures(settings, self._rebalance_events, self._group, *parts[1:3])
        self._records = self._record_loop()
        self._commits = self._commit_loop()
        self._status = self._new_status()
        self._stop_by_ms: int | None = None

    def _new_actions(self) -> TaskActions:
        return TaskActions(
            self._rebalance_events,
            group=self._group,
            registry=self.registry,
            activation=self._activation,
            updater=self._updater,
            commit=self._commit,
            clock=self._clock,
            settled=self._settled,
            meters=self.meters,
            precopy=Precopy(self._settings.handover_timeout_ms),
        )

    def _record_loop(self) -> RecordLoop:
        return RecordLoop(
            *(self._source, self._rebalance_events, self._clock),
            questions=KeyQuestions(self._edges.keys, self._activation.targets, self._clock),
            undecided=self._edges.undecided,
            registry=self.registry,
            actions=self._actions,
            commit=self._commit,
            out_of_range=self._out_of_range,
            collector=self._collector,
            observer=self._observer,
            meters=self.meters,
            counters=self.counters,
            placement=placement_check(self._catalog, self._link, self.meters),
            pauses=Pauses(self.registry, self._link).look,
            own_markers=self._settings.read_committed,
            fail=self._fail,
            restart=self._failures.restart,
        )

    def _commit_loop(self) -> CommitLoop:
        return CommitLoop(
            *(self._settings, self._commit, self._clock),
            group=self._group,
            registry=self.registry,
            actions=self._actions,
            meters=self.meters,
            failures=self._failures,
            refused_entry=self._find_refused_record,
            lose=self._lose,
            tidy=self._tidy,
        )

    def _new_status(self) -> WorkerStatus:
        return WorkerStatus(
            *(self._settings, self._clock, self._companions, self._observer),
            counters=self.counters,
            meters=self.meters,
            registry=self.registry,
            activation=self._activation,
            updater=self._updater,
            commit=self._commit,
            catalog=self._catalog,
            rebalance_events=self._rebalance_events,
            group=self._group,
            source=self._source,
        )

    # Its life.

    def read_tables(self, going: Callable[[], bool]) -> None:
        """Read the global tables, before anything else; until ``going`` is false."""
        if self._tables is not None:
            self._tables.restore(going)

    def begin(self) -> None:
        """Begin to join the group.

        Raises:
            RefusedError: the application was reset, or is about to be.
        """
        self._status.set("REBALANCING")
        if self._link is not None and not self._link.wait_read(MARKS_MS):
            log.warning("joining without knowing the control topic: it cannot be read yet")
        if self._link is not None:
            self._link.check_reset(starting=True)
        self._group.start()
        beside = self._companions
        for part in (beside.abandoned, beside.advisor, beside.cleanup):
            if part is not None:
                part.start()

    def step(self) -> None:
        """One round: orders, tasks on their way up, a batch, perhaps a commit."""
        if self._link is not None:
            self._link.check_reset()
        if self._tables is not None:
            self._tables.step()
        self._updater.check()
        self._group.progress()  # before taking: what is lost from now on is seen in the next round
        self._actions.take()
        self.meters.acted()
        if self._out_of_range.waiting:
            self._out_of_range.step()
        self._activate()
        self._topics.step()
        try:
            waits = self._records.outputs.full
            if not waits and (self._actions.unit.stopped is None or self._commit.under_way):
                self._records.process()
            self._commits.step()  # stopped tasks wait for theirs
        except UndeliveredError as error:
            self._lose(error)  # the broker was away, or we were, for about as long as our session
        self._status.step()

    def stop(self) -> None:
        """Commit what was processed, give up all tasks and leave the group.

        A commit that cannot be had within the commit's time limit is left out: what it would have
        covered is processed again by the next owner.
        """
        while not self.stop_step():
            self._rebalance_events.wait(STOP_WAIT_MS)

    def stop_step(self) -> bool:
        """Begin to stop, or go on; True once it is over."""
        try:
            over = self._last_commit()
            if over:
                self._records.outputs.end(self.registry.tasks.values())
        except (EntryTooLargeError, UnwritableEntryError) as error:
            if self._collector.policy.processing == FAIL:
                raise
            log.warning("%s; the next owner begins at the commit before", error)
            over = True
        except (TimedOutError, TaskMigratedError, UndeliveredError) as error:
            log.warning("%s; the next owner repeats what was not committed", error)
            over = True
        if over:
            self._say_goodbye()
        return over

    def _last_commit(self) -> bool:
        """Stop all tasks, or go on with their last commit; True once that is done."""
        if self._stop_by_ms is None:
            self._status.set("PENDING_SHUTDOWN")
            for task in self._activation.tasks:
                self._activation.cancel(task)
            self._records.stop()
            self._stop_by_ms = self._clock.now_ms() + self._settings.session_timeout_ms
        else:
            self._actions.take_answers()
        return self._commits.last_step(self._stop_by_ms)

    def _say_goodbye(self) -> None:
        self._actions.drop_all()
        self._group.leave(
            self._actions.leaving or "stopped",
            self._settings.session_timeout_ms,
            quietly=False if self.drained or self._leaves() else None,
        )
        if self.drained:
            self._on_drained()
        self._status.set("NOT_RUNNING")

    def fail(self, error: BaseException) -> None:
        """Give everything up because of an error, writing nothing, and leave the group."""
        self._status.set("ERROR")
        self._actions.drop_all()
        if not isinstance(error, KeyboardInterrupt):  # a second Ctrl-C waits for nothing
            # Else the group would wait a session timeout for us, our own restart included.
            self._group.leave("failed", FAREWELL_MS)

    def drain(self, since_ms: int) -> None:
        """Mark our instance to leave, as of wall-clock ``since_ms``; from any thread."""
        if self._link is not None:
            self._link.mark(since_ms)

    @property
    def drained(self) -> bool:
        """True if it has handed over everything it had, and is to stop."""
        return self._actions.leaving is not None

    def close(self) -> None:
        """Free everything, writing nothing."""
        closers = [self._updater.close, self._activation.close, self._closer.finish]
        closers += [self._ports.delivery.close, self._source.close, self._sink.close]
        closers.append(self._status.end)
        if self._tables is not None:
            closers.append(self._tables.close)
        for close in closers:
            try:
                close()
            except StreamletError as error:
                log.warning("while closing: %s", error)
        self._companions.end()
        self._group.close()

    # Within a step.

    def _activate(self) -> None:
        if not self._activation.idle:
            self._closer.hurry()
            self.registry.add(*(ready := self._activation.step()))
            self._actions.run(ready)
            self._actions.give_back(self._activation.given_back())
        self._updater.has_actives = bool(self.registry.by_partition)
        runs = self._activation.idle and self._actions.generation >= 0
        self._status.set("RUNNING" if runs else "REBALANCING")

    def _restoring(self, progress: RestoreProgress) -> None:
        if progress.phase == "suspended" or progress.task in self._activation.tasks:
            self.meters.restoring(progress)
        self._observer.restoring(progress)

    def _settle(self, active: ActiveTask) -> None:
        """Finish the batch of a task that a commit is to cover."""
        self._records.settle(active)

    def _forget(self, active: ActiveTask) -> None:
        """A task is about to be closed."""
        self._commit.forget(active)
        counted = active.processor.counters
        self.counters.add(counted)
        self.meters.gone(active.task, counted.records)

    def _settled(self, settled: Settled) -> None:
        self.meters.settled(settled)
        for part in settled.accepted:
            self._purge.committed(part)
            if part.active.stage is TaskStage.STOPPED and self._ports.transactions is None:
                self._records.outputs.tell(part.active, at_once=True)
        self._activation.missing.topics |= {tp.topic for tp in settled.gone}

    def _tidy(self, now: int) -> None:
        self._purge.run(now)
        self._topics.look(now)
        self._disk.step(now)

    # Failures.

    def _fail(self, active: ActiveTask, error: ProcessingError) -> None:
        """A record failed for good: drop its task as of its last commit, keep the others' work."""
        self.registry.drop(active)
        self.stop()
        raise error

    def _find_refused_record(self, error: EntryTooLargeError | UnwritableEntryError) -> None:
        """Go back to the last commit and find the record whose entry cannot be written.

        The commit does not happen, for no task. From then on each entry of that task is encoded
        when it is put, so that the one record fails, as its policy says.
        """
        known = isinstance(error, EntryTooLargeError) and self._collector.policy.processing == FAIL
        if known or error.task is None or not self._activation.troubles.be_careful(error.task):
            raise error
        self._lose(error)

    def _lose(self, error: StreamletError) -> None:
        log.warning("lost all tasks: %s", error)
        self._catalog.doubted |= isinstance(error, ChangelogLostError)
        self.meters.lost += 1
        self._actions.lose_all()
        self._closer.hurry()  # we may get them again at once
        self._group.rejoin("membership was lost")
