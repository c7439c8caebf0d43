"""The one loop of a worker process: poll, process, commit; decisions between two batches.

Everything that touches active tasks happens on this thread. The control thread
(``coordinator.session``) keeps the membership alive, and the state updater reads changelogs; the
loop looks at what they left once a round, so that a join never stops processing and a slow user
function never stops a heartbeat.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import attrs

from streamlet.clock import Clock
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
from streamlet.kafka.ports import RecordSink, RecordSource
from streamlet.logs import get_logger
from streamlet.processing.global_tables import GlobalTables
from streamlet.processing.policy import FAIL, ErrorPolicy
from streamlet.processing.record_collector import RecordCollector
from streamlet.processing.record_failures import RecordCounters
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.control_link import ControlLink
from streamlet.runtime.listeners import Observer
from streamlet.runtime.metrics.advisor import Advisor
from streamlet.runtime.metrics.measure import MeasuredMember, lags_of, measure, roles_of
from streamlet.runtime.metrics.values import Snapshot
from streamlet.runtime.placement import placement_check
from streamlet.runtime.record_loop import RecordLoop
from streamlet.runtime.reporting import Reporter
from streamlet.runtime.topic_watch import TopicWatch
from streamlet.runtime.uncaught import UncaughtErrors
from streamlet.runtime.watchdog import Watchdog
from streamlet.tasks.activation import Activation
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit_loop import CommitLoop, Precopy, Purge
from streamlet.tasks.commit_port import CommitPort, Settled
from streamlet.tasks.disk_failures import DiskFailures
from streamlet.tasks.dormant import Cleanup
from streamlet.tasks.meters import Meters
from streamlet.tasks.opening import Closer, close_later_ms
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.restore_job import RestoreProgress
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.task_actions import TaskActions
from streamlet.tasks.task_failures import OutOfRange, StoreFailures
from streamlet.tasks.task_record import TaskStage
from streamlet.tasks.task_registry import TaskRegistry
from streamlet.types import TaskId

log = get_logger(__name__)

#: How long a worker waits for the marks there are before it joins: as one that is to leave.
MARKS_MS = 5_000
#: How long a worker that failed tries to leave the group, ms.
FAREWELL_MS = 1_000

#: How often a worker tells what it measured, ms.
MEASURE_MS = 1_000


@attrs.define(eq=False, slots=False)
class StreamThread:
    """Runs the tasks the group gives it.

    Args:
        settings: the application's.
        group: our membership, not started.
        board: what we share with the control thread.
        source: consumer of input partitions.
        sink: producer.
        activation: brings tasks up.
        copies: keeps copies of others' tasks, and restores ours.
        commit: the worker's commits.
        catalog: knows what topics there are.
        purge: deletes what is not needed any more of internal topics.
        clock: the time.
        policy: what becomes of records that fail.
        observer: called when something happens.
        meters: counts beside the work.
        advisor: works out how many instances are needed, started and ended with the worker.
        cleanup: deletes state that is not needed any more, likewise.
        measured: is given a snapshot once a second and at every change of state; or None.
        link: our end of the control topic, started; closed with the worker.
        reporter: says there what we do.
        global_tables: read before it joins the group, and on; closed with the worker.
        siblings: whether other workers share our folder, so that they may wait for what we close.
    """

    _settings: Settings
    _group: GroupSession
    _board: RebalanceEvents
    _source: RecordSource
    _sink: RecordSink
    _activation: Activation
    _copies: StateUpdater
    _commit: CommitPort
    _catalog: Catalog
    _purge: Purge
    _clock: Clock
    _policy: ErrorPolicy
    _observer: Observer
    meters: Meters
    _measured: Callable[[Snapshot], None] | None = None
    _advisor: Advisor | None = None
    _cleanup: Cleanup | None = None
    _link: ControlLink | None = None
    _reporter: Reporter | None = None
    _globals: GlobalTables | None = attrs.field(default=None, alias="global_tables")
    _siblings: bool = False

    def __attrs_post_init__(self) -> None:
        settings, clock = self._settings, self._clock
        application = self._activation.topology.application
        #: Of the tasks given up so far, all of them once ``run`` has returned.
        self.counters = RecordCounters()
        self._sending = RecordCollector(self._sink, self._policy, application, self.counters)
        self._watchdog = Watchdog(clock, settings.max_poll_interval_ms)
        closing_ms = close_later_ms(settings.stream_rebalancing_mode, self._siblings)
        self._closer = Closer(clock, closing_ms)
        self.holdings = TaskRegistry(
            self._source,
            cache_bytes=settings.cache_max_bytes,
            most_buffered=settings.buffered_records_per_partition,
            forget=self._forget,
            close=self._closer.close,
        )
        self._actions = TaskActions(
            self._board,
            group=self._group,
            holdings=self.holdings,
            activation=self._activation,
            copies=self._copies,
            commit=self._commit,
            clock=clock,
            settled=self._settled,
            meters=self.meters,
            precopy=Precopy(settings.handover_timeout_ms),
        )
        watched = (self._catalog, self._activation.missing, self._group, self._actions)
        self._topics = TopicWatch(*watched, clock)
        parts = (self.holdings, self._activation, self._actions, self.meters)
        self._out_of_range = OutOfRange(settings, *parts, clock)
        self._failures = StoreFailures(*parts, self._lose)
        self._disk = DiskFailures(settings, self._board, self._group, *parts[1:3])
        self._records = self._record_loop()
        self._commit.settle = self._records.settle
        self._copies.restoring = self._restoring
        self._commits = self._commit_loop()
        self.state = "CREATED"
        #: Asked when it stops: whether for good; else a static id waits for its next process.
        self.leaves: Callable[[], bool] = lambda: False
        #: Called when it has handed everything over and left; no other member waits for the rest.
        self.on_drained: Callable[[], None] = lambda: None
        self._reported_tasks: tuple[TaskId, ...] = ()
        self._next_measure_ms = 0
        self.uncaught = UncaughtErrors(self._policy.uncaught, self._link, clock)

    def _record_loop(self) -> RecordLoop:
        return RecordLoop(
            self._source,
            self._board,
            self._clock,
            holdings=self.holdings,
            actions=self._actions,
            commit=self._commit,
            out_of_range=self._out_of_range,
            sending=self._sending,
            observer=self._observer,
            meters=self.meters,
            counters=self.counters,
            placement=placement_check(self._catalog, self._link, self.meters),
            fail=self._fail,
            restart=self._failures.restart,
        )

    def _commit_loop(self) -> CommitLoop:
        return CommitLoop(
            self._settings,
            self._commit,
            self._clock,
            group=self._group,
            holdings=self.holdings,
            actions=self._actions,
            meters=self.meters,
            failures=self._failures,
            refused_entry=self._find_refused_record,
            lose=self._lose,
            tidy=self._tidy,
        )

    # The loop.

    def run(self, keep_going: Callable[[], bool]) -> None:
        """Join the group and work until it is stopped, then commit and leave.

        ``keep_going`` is asked once a round.

        Raises:
            StreamletError: what ended the worker; state is as of the last commit.
        """
        collecting = gc.isenabled()
        gc.disable()  # each batch is thousands of tracked messages; collected at commits instead
        try:
            if self._globals is not None:
                self._globals.restore(lambda: keep_going() and not self.uncaught.stops)
            self._watchdog.start()
            self._set_state("REBALANCING")
            if self._link is not None and not self._link.wait_read(MARKS_MS):
                log.warning("joining without knowing the control topic: it cannot be read yet")
            if self._link is not None:
                self._link.check_reset(starting=True)
            self._group.start()
            for beside in (self._advisor, self._cleanup):
                if beside is not None:
                    beside.start()
            while keep_going() and self._actions.leaving is None and not self.uncaught.stops:
                self.run_once()
            self.stop()
            self.uncaught.check()
        except BaseException as error:
            self._set_state("ERROR")
            self._actions.drop_all()
            if not isinstance(error, KeyboardInterrupt):  # a second Ctrl-C waits for nothing
                # Else the group would wait a session timeout for us, our own restart included.
                self._group.leave("failed", FAREWELL_MS)
            self.uncaught.take(error)
            raise
        finally:
            if collecting:
                gc.enable()
            self._close()

    def run_once(self) -> None:
        """One round: orders, tasks on their way up, a batch, perhaps a commit."""
        self._watchdog.beat()
        if self._link is not None:
            self._link.check_reset()
        if self._globals is not None:
            self._globals.step()
        self._copies.check()
        self._group.progress()  # before taking: what is lost from now on is seen in the next round
        self._actions.take()
        if self._out_of_range.waiting:
            self._out_of_range.step()
        self._activate()
        self._topics.step()
        try:
            waits = self._commit.delivering and not self._group.gated
            if not waits and (self._actions.unit is None or self._commit.under_way):
                self._records.process()
            self._commits.step()  # stopped tasks wait for theirs
        except UndeliveredError as error:
            self._lose(error)  # the broker was away, or we were, for about as long as our session
        if self._reporter is not None:
            self._report(self._reporter)
        if self._measured is not None and self._clock.now_ms() >= self._next_measure_ms:
            self._tell_measures()

    def stop(self) -> None:
        """Commit what was processed, give up all tasks and leave the group.

        A commit that cannot be had within the commit's time limit is left out: what it would have
        covered is processed again by the next owner.
        """
        self._set_state("PENDING_SHUTDOWN")
        for task in self._activation.tasks:
            self._activation.cancel(task)
        try:
            self._records.stop()
            self._commits.last(self._board)
        except (EntryTooLargeError, UnwritableEntryError) as error:
            if self._sending.policy.processing == FAIL:
                raise
            log.warning("%s; the next owner begins at the commit before", error)
        except (TimedOutError, TaskMigratedError, UndeliveredError) as error:
            log.warning("%s; the next owner repeats what was not committed", error)
        self._actions.drop_all()
        self._group.leave(
            self._actions.leaving or "stopped",
            self._settings.session_timeout_ms,
            quietly=False if self.drained or self.leaves() else None,
        )
        if self.drained:
            self.on_drained()
        self._set_state("NOT_RUNNING")

    def drain(self, since_ms: int) -> None:
        """Mark our instance to leave, as of wall-clock ``since_ms``; from any thread."""
        if self._link is not None:
            self._link.mark(since_ms)

    @property
    def drained(self) -> bool:
        """True if it left after handing over everything it had."""
        return self._actions.leaving is not None

    def _activate(self) -> None:
        if not self._activation.idle:
            self._closer.hurry()
            for active in self._activation.step():
                self._actions.run(active)
            self._actions.give_back(self._activation.given_back())
        self._copies.has_actives = bool(self.holdings.by_partition)
        running = self._activation.idle and self._actions.generation >= 0
        self._set_state("RUNNING" if running else "REBALANCING")

    def _restoring(self, progress: RestoreProgress) -> None:
        if progress.phase == "suspended" or progress.task in self._activation.tasks:
            self.meters.restoring(progress)
        self._observer.restoring(progress)

    # Failures.

    def _fail(self, active: ActiveTask, error: ProcessingError) -> None:
        """A record failed for good: drop its task as of its last commit, keep the others' work."""
        self.holdings.drop(active)
        self.stop()
        raise error

    def _forget(self, active: ActiveTask) -> None:
        """A task is about to be closed."""
        self._commit.forget(active)
        counted = active.processor.counters
        self.counters.add(counted)
        self.meters.gone(active.task, counted.records)

    # Commits.

    def _find_refused_record(self, error: EntryTooLargeError | UnwritableEntryError) -> None:
        """Go back to the last commit and find the record that makes an entry as it cannot be.

        The commit does not happen, for no task. From then on each entry of that task is encoded
        when it is put, so that the one record fails, as its policy says.
        """
        known = isinstance(error, EntryTooLargeError) and self._sending.policy.processing == FAIL
        if known or error.task is None or not self._activation.be_careful(error.task):
            raise error
        self._lose(error)

    def _lose(self, error: StreamletError) -> None:
        log.warning("lost all tasks: %s", error)
        self._catalog.doubted |= isinstance(error, ChangelogLostError)
        self.meters.lost += 1
        self._actions.lose_all()
        self._closer.hurry()  # we may get them again at once
        self._group.rejoin("membership was lost")

    def _settled(self, settled: Settled) -> None:
        self.meters.settled(settled)
        for part in settled.accepted:
            self._purge.committed(part)
        self._activation.missing.topics |= {tp.topic for tp in settled.gone}

    def _tidy(self, now: int) -> None:
        self._purge.run(now)
        self._topics.look(now)
        self._disk.step(now)

    # State.

    def _report(self, reporter: Reporter) -> None:
        reporter.look(
            self._clock.now_ms(),
            self.state,
            source=self._source,
            holdings=self.holdings,
            activation=self._activation,
            copies=self._copies,
            tables=self._globals,
            inputs=self._catalog.reported_inputs if self._link and self._link.leads else None,
        )

    def _set_state(self, state: str) -> None:
        running = tuple(active.task for active in self.holdings.of_stage(TaskStage.RUNNING))
        if (state, running) != (self.state, self._reported_tasks):
            self.state, self._reported_tasks = state, running
            self._observer.state_changed(state, running)
            if self._measured is not None:
                self._tell_measures()

    def _tell_measures(self) -> None:
        """Take a snapshot of everything worth knowing, and pass it on."""
        assert self._measured is not None
        self._next_measure_ms = self._clock.now_ms() + MEASURE_MS
        total = attrs.evolve(self.counters)
        for active in self.holdings.tasks.values():
            total.add(active.processor.counters)
        if self._globals is not None:
            total.add(self._globals.counters)
        with self._board.manager() as manager:
            roles, lags = roles_of(manager), lags_of(manager)
        member = MeasuredMember(
            state=self.state,
            mode=self._settings.stream_rebalancing_mode,
            counted=total,
            flush_ns=self._commit.flush_ns,
            active=self.holdings.tasks,
            roles=roles,
            lags=lags,
            waiting=tuple(sorted(self._activation.tasks)),
            meters=self.meters,
            standing=self._group,
            ends=self._source,
            advice=None if self._advisor is None else self._advisor.advice,
            global_lags={} if self._globals is None else self._globals.lags,
        )
        self._measured(measure(member))

    def _close(self) -> None:
        self._watchdog.close()
        closers = [
            self._copies.close,
            self._activation.close,
            self._closer.finish,
            self._source.close,
            self._sink.close,
        ]
        if self._globals is not None:
            closers.append(self._globals.close)
        for close in closers:
            try:
                close()
            except StreamletError as error:
                log.warning("while closing: %s", error)
        for beside in (self._advisor, self._cleanup, self._link):
            if beside is not None:
                beside.close()
        self._group.close()
