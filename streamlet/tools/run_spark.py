"""``streamlet run --engine spark``: the application as a Structured Streaming query."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.errors import BrokerError
from streamlet.spark.submit import Submission
from streamlet.tools.output import CommandOutput

if TYPE_CHECKING:
    from streamlet.app import App
    from streamlet.config import Settings
    from streamlet.spark.metrics import QueryMetrics
    from streamlet.spark.prepare import Aggregations, OutputKind
    from streamlet.spark.progress import BatchProgress


@attrs.frozen
class SparkOptions:
    """The options of a run on Spark."""

    #: Folder or URL; None: below ``state.dir``.
    checkpoint: str | None = None
    trigger: str = "1s"
    #: None: all there are.
    max_records_per_batch: int | None = None
    #: None: the one of ``spark-submit``, else ``local[*]``.
    master: str | None = None
    output: OutputKind = "updates"
    #: None: Spark SQL where the result is the same.
    aggregations: Aggregations | None = None
    #: None: no metrics are served.
    metrics_port: int | None = None
    metrics_host: str = "0.0.0.0"
    #: Of the Spark application; None: the application's reference.
    name: str | None = None
    deploy_mode: str = "client"
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    conf: dict[str, str] = attrs.field(factory=dict)


def run_on_spark(
    output: CommandOutput, reference: str, app: App, settings: Settings, options: SparkOptions
) -> None:
    """Run until the query ends or Ctrl-C: once finishes the micro-batch, twice is now.

    While Spark starts, Ctrl-C or SIGTERM ends it at once.

    Raises:
        StreamletError: it cannot be started, or failed.
    """
    from streamlet.spark.metrics import QueryMetrics

    checkpoint = options.checkpoint or str(settings.state_dir / app.name / "spark")
    report = SparkReport(output, QueryMetrics(app.name))
    with _held(checkpoint), _served(report, options):
        _query(report, reference, app, settings, options, checkpoint)
    report.ended(app.name, checkpoint)


def submission(options: SparkOptions) -> Submission:
    """The same run with its driver inside the cluster."""
    run = {
        "--checkpoint": options.checkpoint,
        "--trigger": options.trigger,
        "--max-records-per-batch": options.max_records_per_batch,
        "--output": options.output,
        "--aggregations": options.aggregations,
        "--metrics-port": options.metrics_port,
        "--metrics-host": options.metrics_host,
    }
    names = [one.name for one in attrs.fields(Submission) if one.name != "run"]
    return Submission(
        **{name: getattr(options, name) for name in names},
        run=[f"{option}={value}" for option, value in run.items() if value is not None],
    )


@attrs.define
class SparkReport:
    """Batches as lines on standard error and as metrics, and their sum as the answer."""

    output: CommandOutput
    metrics: QueryMetrics
    batches: int = 0
    records: int = 0
    lag: int = 0

    def batch(self, one: BatchProgress) -> None:
        """Report one batch."""
        self.batches += 1
        self.records += one.records
        self.lag = one.lag
        self.metrics.batch(one)
        self.output.note(line(one))

    def ended(self, application: str, checkpoint: str) -> None:
        """Print the answer."""
        document: dict[str, Any] = {
            "application": application,
            "engine": "spark",
            "checkpoint": checkpoint,
            "batches": self.batches,
            "records": self.records,
            "lag": self.lag,
            "exit_code": 0,
            "error": None,
        }
        text = f"{application} stopped: {self.records:,} records in {self.batches:,} batches"
        self.output.answer(document, text)


def line(one: BatchProgress) -> str:
    """A micro-batch in one line."""
    return (
        f"batch {one.batch}: {one.records:,} records in {one.took_ms / 1000:.1f} s "
        f"({one.records_per_second:,.0f}/s), lag {one.lag:,}, state {_size(one.state_bytes)}"
    )


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _query(
    report: SparkReport,
    reference: str,
    app: App,
    settings: Settings,
    options: SparkOptions,
    checkpoint: str,
) -> None:
    from streamlet import spark as on_spark
    from streamlet.runtime.signals import GracefulStop
    from streamlet.spark.breakable import BreakableStart
    from streamlet.spark.gateway import short_errors
    from streamlet.spark.progress import follow

    # One that breaks into a call of Java leaves nothing to stop the query with.
    with GracefulStop(breakable=False) as stop, ExitStack() as stack:
        with BreakableStart() as starting:
            report.output.note(f"starting Spark on {options.master or 'local[*]'}")
            session = _session(report.output, reference, app, options)
            stack.callback(on_spark.stop, session)
            starting.take_ctrl_c()
            stack.enter_context(short_errors())
            for one in options.py_files:
                session.sparkContext.addPyFile(one)
            query = on_spark.start(
                reference,
                session,
                checkpoint=checkpoint,
                trigger=options.trigger,
                settings=settings,
                max_records_per_batch=options.max_records_per_batch,
                output=options.output,
                aggregations=options.aggregations,
                told=report.output.note,
            )
            stack.callback(query.stop)
        if starting.broken:
            stack.pop_all()  # Spark has ended: there is nothing to stop
            return
        report.metrics.running = True
        report.output.note(f"query runs; checkpoint {checkpoint}")
        follow(query, report.batch, keep_going=_until_asked(stop, report.output, query))


def _session(output: CommandOutput, reference: str, app: App, options: SparkOptions) -> Any:
    from streamlet import spark as on_spark
    from streamlet.spark.gateway import short_errors

    with short_errors():
        return on_spark.session(
            options.name or reference,
            master=options.master,
            jars=[*options.jars, *_jars(output, app)],
            packages=options.packages,
            files=options.files,
            archives=options.archives,
            config=options.conf,
        )


def _jars(output: CommandOutput, app: App) -> list[Path]:
    """Java's connector where SQL may have something to do; our own client needs none."""
    from streamlet.spark import connector_jars
    from streamlet.spark.plan import mapped_by
    from streamlet.spark.pushdown import filters

    topology = app.topology()
    if not filters(topology, mapped_by(topology)):
        return []
    try:
        return connector_jars()
    except BrokerError as error:
        output.note(f"without Spark's Kafka connector ({error}): reading with streamlet's own")
        return []


def _until_asked(stop: Any, output: CommandOutput, query: Any) -> Callable[[], bool]:
    said = False

    def keep_going() -> bool:
        nonlocal said
        if stop.asked.is_set() and not said:
            said = True
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
    server = MetricsServer(report.metrics, options.metrics_port, options.metrics_host)
    report.output.note(f"metrics on {server.url}/metrics")
    return server


def _held(checkpoint: str) -> AbstractContextManager[Any]:
    """The checkpoint's folder, locked: two queries in one would spoil each other."""
    from streamlet.state.directory import FolderLock

    if "://" in checkpoint:
        return nullcontext()
    return FolderLock(Path(checkpoint) / "streamlet.lock", "the checkpoint")
