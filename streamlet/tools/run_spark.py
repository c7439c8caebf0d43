"""``streamlet run --engine spark``: the application as a Structured Streaming query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.counted import counted
from streamlet.errors import BrokerError, SparkFailedError, UnreachableError
from streamlet.kafka.stable_offsets import held_text
from streamlet.kafka.waiting_partitions import WaitingPartitions
from streamlet.tools.output import CommandOutput

if TYPE_CHECKING:
    from streamlet.app import App
    from streamlet.config import Settings
    from streamlet.hosting.signals import GracefulStop
    from streamlet.spark.cluster.submit import SparkOptions
    from streamlet.spark.metrics import QueryMetrics
    from streamlet.spark.progress import BatchProgress, HeldBack
    from streamlet.spark.restarts import Restarts
    from streamlet.spark.rows.task_reports import TaskReport
    from streamlet.types import TopicPartition


def run_on_spark(
    output: CommandOutput, reference: str, app: App, settings: Settings, options: SparkOptions
) -> None:
    """Run until the query ends or Ctrl-C: once finishes the micro-batch, twice is now.

    While Spark starts, Ctrl-C or SIGTERM ends it at once.

    Raises:
        StreamletError: it cannot be started, or failed.
    """
    from streamlet.spark.metrics import QueryMetrics
    from streamlet.spark.plan.plan import readers_of
    from streamlet.spark.plan.reference import query_topology
    from streamlet.spark.restarts import Restarts

    checkpoint = options.checkpoint or str(settings.state_dir / app.name / "spark")
    metrics = QueryMetrics(app.name, readers=readers_of(query_topology(app)))
    report = SparkReport(output, metrics, Restarts(options.restarts))
    query = SparkQuery(report, reference, settings, options, checkpoint)
    with _served(report, options):
        query.run(app)
    report.ended(app.name, checkpoint)


@attrs.define
class SparkReport:
    """Batches as lines on standard error and as metrics, and their sum as the answer."""

    output: CommandOutput
    metrics: QueryMetrics
    restarts: Restarts
    batches: int = 0
    records: int = 0
    lag: int = 0
    tasks: dict[str, TaskReport] = attrs.field(factory=dict)
    #: The offset from which on an open transaction holds each partition back, and those named.
    held: Mapping[TopicPartition, int] = attrs.field(factory=dict)
    _named: dict[TopicPartition, int] = attrs.field(factory=dict, init=False)
    _waiting: WaitingPartitions = attrs.field(factory=WaitingPartitions, init=False)

    def batch(self, one: BatchProgress) -> None:
        """Report one batch."""
        self.batches += 1
        self.records += one.records
        self.lag = one.lag
        for report in one.tasks:
            before = self.tasks.get(report.task)
            self.tasks[report.task] = report if before is None else before.plus(report)
        self.metrics.batch(one)
        self.restarts.succeeded()
        self.output.note(line(one))

    def held_back(self, found: HeldBack) -> None:
        """Name each transaction that is open for long, once."""
        self.held = found.offsets
        self._name(self._waiting.for_long(found.offsets, found.at_ms))

    def _name(self, held: Mapping[TopicPartition, int]) -> None:
        for where, offset in sorted(held.items()):
            if self._named.get(where) != offset:
                self._named[where] = offset
                self.output.note(f"warning: {held_text(where, offset)}")

    def ended(self, application: str, checkpoint: str) -> None:
        """Print the answer."""
        self._name(self.held)
        held = [
            {"topic": tp.topic, "partition": tp.partition, "offset": offset}
            for tp, offset in sorted(self.held.items())
        ]
        document: dict[str, Any] = {
            "application": application,
            "engine": "spark",
            "checkpoint": checkpoint,
            "batches": self.batches,
            "records": self.records,
            "lag": self.lag,
            "held": held,
            "restarts": self.restarts.total,
            "tasks": [self.tasks[task].document() for task in sorted(self.tasks)],
            "exit_code": 0,
            "error": None,
        }
        records = counted(self.records, "record")
        batches = counted(self.batches, "batch", "batches")
        self.output.answer(document, f"{application} stopped: {records} in {batches}")


def line(one: BatchProgress) -> str:
    """A micro-batch in one line."""
    return (
        f"batch {one.batch}: {counted(one.records, 'record')} in {one.took_ms / 1000:.1f} s "
        f"({one.records_per_second:,.0f}/s), lag {one.lag:,}, state {_size(one.state_bytes)}"
    )


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


@attrs.frozen
class SparkQuery:
    """The query of a run, from its first start over its restarts to its end."""

    report: SparkReport
    reference: str
    settings: Settings
    options: SparkOptions
    checkpoint: str

    def run(self, app: App) -> None:
        """Run until the query ends or Ctrl-C."""
        from streamlet import spark as on_spark
        from streamlet.hosting.signals import GracefulStop
        from streamlet.spark.cluster.breakable import BreakableStart
        from streamlet.spark.cluster.gateway import short_errors

        # One that breaks into a call of Java leaves nothing to stop the query with.
        with GracefulStop(breakable=False) as stop, ExitStack() as stack:
            with BreakableStart() as starting:
                session = _session(self.report.output, self.reference, self.options)
                stack.callback(on_spark.stop, session)
                starting.take_ctrl_c()
                stack.enter_context(short_errors())
                for one in self.options.py_files:
                    session.sparkContext.addPyFile(one)
                query = self._started(session)
            if starting.broken:
                stack.pop_all()  # Spark has ended: there is nothing to stop
                return
            self.report.metrics.running = True
            self.report.output.note(f"query runs; checkpoint {self.checkpoint}")
            while query is not None:
                query = self._follow(query, session, stop)

    def _started(self, session: Any) -> Any:
        from streamlet import spark as on_spark

        return on_spark.start(
            self.reference,
            session,
            checkpoint=self.checkpoint,
            trigger=self.options.trigger,
            settings=self.settings,
            max_records_per_batch=self.options.max_records_per_batch or None,
            output=self.options.output,
            aggregations=self.options.aggregations,
            notify=self.report.output.note,
        )

    def _follow(self, query: Any, session: Any, stop: GracefulStop) -> Any | None:
        """Follow a query to its end; the one that goes on where it failed, None if it did not."""
        from streamlet.spark.progress import follow

        try:
            with ExitStack() as ending:
                ending.callback(_stop, query)
                output = self.report.output
                keep_going = _until_asked(stop, output, query)
                follow(
                    query,
                    self.report.batch,
                    keep_going=keep_going,
                    ends=self._ends,
                    on_held=self.report.held_back if self.settings.read_committed else None,
                )
        except SparkFailedError as error:
            return self._restarted(error, session, stop)
        return None

    def _ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The ends of partitions; none if no broker answers, which the query will say itself."""
        from streamlet.hosting.clients import admin_for

        try:
            with closing(admin_for(self.settings)) as admin:
                return admin.readable_ends(partitions)
        except BrokerError as error:
            self.report.output.note(f"the lag of this batch is not known: {error}")
            return {}

    def _restarted(self, error: SparkFailedError, session: Any, stop: GracefulStop) -> Any | None:
        """The query that goes on after a failure; None if the end was asked for meanwhile."""
        from streamlet.spark.cluster.gateway import short_errors

        restarts = self.report.restarts
        while True:
            pause_s = restarts.pause_s(error)
            soon = f"restart {restarts.in_a_row} of {restarts.limit} in {pause_s:.0f} s"
            self.report.output.note(f"{error}; {soon}")
            if stop.asked.wait(pause_s):
                return None
            try:
                with short_errors():
                    return self._started(session)
            except SparkFailedError as again:
                error = again
            except UnreachableError as unreachable:
                error = SparkFailedError(str(unreachable), by_chance=True)


def _stop(query: Any) -> None:
    """Stop a query; to stop one that has failed would ask its dead processes to end."""
    if query.isActive:
        query.stop()


def _session(output: CommandOutput, reference: str, options: SparkOptions) -> Any:
    from streamlet import spark as on_spark
    from streamlet.spark.cluster.gateway import short_errors

    output.note(f"starting Spark on {options.master or 'local[*]'}")
    with short_errors():
        return on_spark.session(
            options.name or reference,
            master=options.master,
            jars=options.jars,
            packages=options.packages,
            files=options.files,
            archives=options.archives,
            config=options.conf,
            verbose=options.verbose,
        )


def _until_asked(stop: Any, output: CommandOutput, query: Any) -> Callable[[], bool]:
    noted = False

    def keep_going() -> bool:
        nonlocal noted
        if stop.asked.is_set() and not noted:
            noted = True
            busy = query.status["isTriggerActive"]
            output.note("stopping" + (" after this batch; Ctrl-C again stops now" if busy else ""))
        if stop.now.is_set():
            raise KeyboardInterrupt
        return not stop.asked.is_set()

    return keep_going


def _served(report: SparkReport, options: SparkOptions) -> AbstractContextManager[Any]:
    from streamlet.runtime.metrics.server import MetricsServer

    if options.metrics_port is None:
        return nullcontext()
    query, port = report.metrics, options.metrics_port
    server = MetricsServer(query.registry, query.alive, query.ready, port, options.metrics_host)
    report.output.note(f"metrics on {server.url}/metrics")
    return server
