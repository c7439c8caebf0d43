"""``streamlet backfill``: bounded data through Spark, so that instances start warm."""

from __future__ import annotations

from contextlib import ExitStack
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from streamlet.counted import counted
from streamlet.errors import AppNotFoundError
from streamlet.hosting.signals import GracefulStop
from streamlet.tools.application import scaled
from streamlet.tools.backfill_arguments import BackfillArguments
from streamlet.tools.command import Common, command
from streamlet.tools.output import CommandOutput
from streamlet.tools.run_spark import line
from streamlet.user_code import shown

if TYPE_CHECKING:
    from streamlet.admin.window import ApplicationInfo
    from streamlet.reset.backfill import BackfillPlan
    from streamlet.reset.start import StartPosition
    from streamlet.spark.backfill import BackfillQuery
    from streamlet.spark.backfill_files import DataFiles
    from streamlet.spark.progress import BatchProgress


class DataPlace(StrEnum):
    """The place of the bounded data."""

    PARQUET = "parquet"
    CSV = "csv"
    TOPIC = "topic"


@command("backfill")
def backfill(
    common: Common,
    app: Annotated[str, typer.Argument(metavar="MODULE:ATTRIBUTE", help="The application.")],
    place: Annotated[
        DataPlace,
        typer.Option(
            "--from",
            envvar="STREAMLET_BACKFILL_FROM",
            help="Where the data is; topic: all that its topics hold now.",
        ),
    ],
    options: BackfillArguments,
) -> None:
    """Run an application over bounded data on Spark, so that instances start warm.

    All its instances have to be stopped. Makes its changelogs and repartition
    topics again, empty, as a reset does; fills the changelogs with the state after
    all of the data; and commits where the data ends. Instances restore that state,
    and go on from there.

    Broken off halfway, no position is committed, and no instance starts before the
    same command was given again, which begins from the start, or streamlet reset.
    What was written to output topics until then stays there.

    Exit 0: done. 1: Spark or the broker failed. 2: wrong options or columns. 3: no
    such application or source topic. 4: brokers took too long. 5: refused, it is
    running, or has state and needs --force. 130: Ctrl-C; nothing was committed.
    """
    if ":" not in app:
        raise AppNotFoundError(f"{shown(app)}: a backfill runs the program, give module:attribute")
    files, live_from = options.files(place.value), options.start()
    known = scaled(common, app)
    with ExitStack() as stack:
        from streamlet import spark
        from streamlet.spark.backfill import BackfillQuery

        common.output.note(f"starting Spark on {options.master or 'local[*]'}")
        session = spark.session(
            f"backfill of {app}", master=options.master, verbose=options.verbose
        )
        stack.callback(spark.stop, session)
        # Behind the session, which takes Ctrl-C for itself.
        stop = stack.enter_context(GracefulStop(breakable=False))
        query = BackfillQuery(
            app,
            session,
            known.settings,
            {topic: one.source(session) for topic, one in files.items()},
            written=options.output.value,
            max_records=options.max_records_per_batch,
            parent=options.checkpoint or str(known.settings.state_dir / known.name),
        )
        starts = {topic: _start(one, query, live_from) for topic, one in files.items()}
        report = _BackfillReport(common.output, stop)
        placed = tuple(files) if options.partitioner else ()
        plan = _carry_out(known, query, (starts, placed, options.force), report)
        report.ended(known.name, plan)


def _carry_out(
    known: ApplicationInfo,
    query: BackfillQuery,
    how: tuple[dict[str, StartPosition], tuple[str, ...], bool],
    report: _BackfillReport,
) -> BackfillPlan:
    from streamlet.hosting.clients import open_window
    from streamlet.reset.backfill import Backfill

    with open_window(known, "operator", report.stop.asked) as cluster:
        backfill = Backfill(cluster, *how)
        plan = backfill.plan()
        prepared = query.prepared(plan.read, plan.counts)

        def fill() -> None:
            report.output.note(f"{known.name}: filling its changelogs")
            prepared.run(plan.epoch, report.batch, report.going)
            if report.stop.asked.is_set():
                raise KeyboardInterrupt("no position was committed")

        backfill.carry_out(plan, fill)
    return plan


def _start(
    files: DataFiles, query: BackfillQuery, live_from: StartPosition | None
) -> StartPosition:
    """The place where instances go on in a topic that comes from files."""
    from streamlet.reset.start import StartPosition

    if live_from is not None:
        return live_from
    last = files.last_time(query.spark)
    return StartPosition(f"behind {last}", last + 1)


@attrs.define
class _BackfillReport:
    """Batches as lines on standard error, and their sum as the answer."""

    output: CommandOutput
    stop: GracefulStop
    batches: int = 0
    records: int = 0
    #: How often a record came too late for a window, and was left out of it.
    late: int = 0

    def going(self) -> bool:
        """False when Ctrl-C asked to stop; a second one raises."""
        if self.stop.now.is_set():
            raise KeyboardInterrupt("no position was committed")
        return not self.stop.asked.is_set()

    def batch(self, one: BatchProgress) -> None:
        """Report one batch."""
        self.batches += 1
        self.records += one.records
        self.late += sum(task.late for task in one.tasks)
        self.output.note(line(one))

    def ended(self, application: str, plan: BackfillPlan) -> None:
        """Print the answer."""
        if self.late:
            self.output.note(
                f"warning: {self.late:,} times a record came too late for a window and was left "
                "out of it: give such windows a longer grace, and begin again with --force"
            )
        positions = [
            {"topic": tp.topic, "partition": tp.partition, "offset": offset}
            for tp, offset in sorted(plan.positions.items())
        ]
        document = {
            "application": application,
            "records": self.records,
            "batches": self.batches,
            "late": self.late,
            "positions": positions,
        }
        text = f"{application}: {counted(self.records, 'record')}; instances go on behind them"
        self.output.answer(document, text)
