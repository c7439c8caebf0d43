"""The state of a worker, and all that hear of it: the observer, the control topic, the metrics."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from streamlet.clock import Clock
from streamlet.closing import Closing
from streamlet.config import Settings
from streamlet.control.view import ControlView
from streamlet.coordinator.session import GroupSession
from streamlet.counted import counted
from streamlet.kafka.ports import RecordSource
from streamlet.logs import get_logger
from streamlet.processing.global_tables import GlobalTables
from streamlet.processing.record_failures import RecordCounters
from streamlet.runtime.abandoned import AbandonedTransactions
from streamlet.runtime.broker_outage import BrokerOutage
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.control_link import ControlLink
from streamlet.runtime.listeners import Observer
from streamlet.runtime.metrics.advisor import Advisor
from streamlet.runtime.metrics.measure import MeasuredMember, lags_of, measure, roles_of
from streamlet.runtime.metrics.values import Snapshot
from streamlet.runtime.reporting import Reporter
from streamlet.tasks.activation import Activation
from streamlet.tasks.commit import AtLeastOnceCommit
from streamlet.tasks.dormant import Cleanup
from streamlet.tasks.meters import Meters
from streamlet.tasks.rebalance_events import RebalanceEvents
from streamlet.tasks.served_tasks import ServedTasks, ServingWorker
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.task_record import TaskStage
from streamlet.tasks.task_registry import TaskRegistry
from streamlet.types import TaskId

log = get_logger(__name__)


@attrs.define(eq=False)
class WorkSummary:
    """A line about the records and commits since the line before, each ``every_ms``.

    Args:
        every_ms: ``log.summary.interval.ms``; below 0: never.
        clock: the time.
        meters: count beside the work.
        registry: the active tasks, which count their records.
    """

    _every_ms: int
    _clock: Clock
    _meters: Meters
    _registry: TaskRegistry
    _since_ms: int = attrs.field(init=False)
    _counted: tuple[int, int] = attrs.field(default=(0, 0), init=False)

    def __attrs_post_init__(self) -> None:
        self._since_ms = self._clock.now_ms()

    def step(self) -> None:
        """Log the line if it is due."""
        now = self._clock.now_ms()
        if self._every_ms < 0 or now - self._since_ms < self._every_ms:
            return
        tasks = self._registry.tasks.values()
        records = self._meters.processed_before + sum(
            active.processor.counters.records for active in tasks
        )
        commits = sum(self._meters.commit.counts)
        log.info(
            "processed %s and committed %s in %d s; running: %s",
            counted(records - self._counted[0], "record"),
            counted(commits - self._counted[1], "time"),
            *(round((now - self._since_ms) / 1000), counted(len(tasks), "task")),
        )
        self._since_ms, self._counted = now, (records, commits)


#: How often a worker tells what it measured, ms.
MEASURE_MS = 1_000


@attrs.frozen(eq=False, kw_only=True)
class Companions:
    """Parts beside a worker that it begins, looks at and ends; a worker can do without each.

    Attributes:
        link: our end of the control topic, started; closed with the worker.
        reporter: says there what the worker does.
        tables: global tables, read before it joins the group, and on; closed with the worker.
        advisor: works out how many instances are needed, started and ended with the worker.
        cleanup: deletes state that is not needed any more, likewise.
        abandoned: has transactions aborted that lost members left open; ended with the worker.
        measured: is given a snapshot once a second and at every change of state.
        served: the tasks whose stores may be queried.
        server: answers queries of them over HTTP; ended with the worker.
        tracing: what spans are begun with; ended with the worker.
    """

    link: ControlLink | None = None
    reporter: Reporter | None = None
    tables: GlobalTables | None = None
    advisor: Advisor | None = None
    cleanup: Cleanup | None = None
    abandoned: AbandonedTransactions | None = None
    measured: Callable[[Snapshot], None] | None = None
    served: ServedTasks = attrs.field(factory=ServedTasks)
    server: Closing | None = None
    tracing: Closing | None = None

    def end(self) -> None:
        """End those that end with the worker; the control topic last, which they write to."""
        self.served.end()
        for one in (
            *(self.server, self.advisor, self.cleanup, self.abandoned),
            *(self.link, self.tracing),
        ):
            if one is not None:
                one.close()


@attrs.define(eq=False, slots=False)
class WorkerStatus:
    """Reports a worker's state at each change, and its metrics once a second.

    Args:
        settings: the application's.
        clock: the time.
        companions: the reporter and what takes measures are among them.
        observer: called when the state or the running tasks change.
        counters: of the tasks given up so far.
        meters: count beside the work.
        registry: the active tasks.
        activation: tasks on their way up.
        updater: copies and restores.
        commit: the worker's commits.
        catalog: knows the inputs.
        rebalance_events: has the task manager.
        group: the membership.
        source: the consumer of input partitions.
    """

    _settings: Settings
    _clock: Clock
    _companions: Companions
    _observer: Observer
    _counters: RecordCounters
    _meters: Meters
    _registry: TaskRegistry
    _activation: Activation
    _updater: StateUpdater
    _commit: AtLeastOnceCommit
    _catalog: Catalog
    _rebalance_events: RebalanceEvents
    _group: GroupSession
    _source: RecordSource
    #: One of Kafka Streams' states of a thread, and ``ERROR``.
    state: str = attrs.field(default="CREATED", init=False)
    _reported_tasks: tuple[TaskId, ...] = attrs.field(default=(), init=False)
    _next_measure_ms: int = attrs.field(default=0, init=False)
    _summary: WorkSummary = attrs.field(init=False)
    _outage: BrokerOutage = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        every_ms = self._settings.log_summary_interval_ms
        self._summary = WorkSummary(every_ms, self._clock, self._meters, self._registry)
        self._outage = BrokerOutage(self._clock)
        catalog, link = self._catalog, self._companions.link
        self._companions.served.begin(
            ServingWorker(
                catalog.topology,
                lambda: catalog.counts,
                self._owns,
                self._rebalance_events.wake,
                view=ControlView if link is None else lambda: link.view,
            )
        )

    def _owns(self) -> bool:
        group = self._group
        return not group.loss_unseen and group.fence.in_time(group.view)

    def set(self, state: str) -> None:
        """Note the state of the worker, and tell it and the running tasks where they changed."""
        self._companions.served.state = state
        running = tuple(active.task for active in self._registry.of_stage(TaskStage.RUNNING))
        if (state, running) != (self.state, self._reported_tasks):
            self.state, self._reported_tasks = state, running
            self._observer.state_changed(state, running)
            if self._companions.measured is not None:
                self._tell_measures(self._companions.measured)

    def end(self) -> None:
        """End what tells of the worker."""
        self._outage.end()

    def step(self) -> None:
        """Answer queries that wait, and report and measure what is due."""
        parts = self._companions
        parts.served.answer()
        if parts.reporter is not None:
            self._report(parts.reporter)
        self._summary.step()
        self._outage.step(self._group.view, len(self._reported_tasks))
        if parts.measured is not None and self._clock.now_ms() >= self._next_measure_ms:
            self._tell_measures(parts.measured)

    def _report(self, reporter: Reporter) -> None:
        link = self._companions.link
        reporter.look(
            self._clock.now_ms(),
            self.state,
            source=self._source,
            registry=self._registry,
            activation=self._activation,
            updater=self._updater,
            tables=self._companions.tables,
            inputs=self._catalog.reported_inputs if link and link.leads else None,
        )

    def _tell_measures(self, take: Callable[[Snapshot], None]) -> None:
        """Take a snapshot of everything worth knowing, and pass it on."""
        self._next_measure_ms = self._clock.now_ms() + MEASURE_MS
        tables, advisor = self._companions.tables, self._companions.advisor
        total = attrs.evolve(self._counters)
        for active in self._registry.tasks.values():
            total.add(active.processor.counters)
        if tables is not None:
            total.add(tables.counters)
        with self._rebalance_events.manager() as manager:
            roles, lags = roles_of(manager), lags_of(manager)
        member = MeasuredMember(
            state=self.state,
            mode=self._settings.stream_rebalancing_mode,
            counted=total,
            flush_ns=self._commit.flush_ns,
            active=self._registry.tasks,
            roles=roles,
            lags=lags,
            waiting=tuple(sorted(self._activation.tasks)),
            meters=self._meters,
            standing=self._group,
            ends=self._source,
            advice=None if advisor is None else advisor.advice,
            global_lags={} if tables is None else tables.lags,
        )
        take(measure(member))
