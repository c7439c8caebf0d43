"""The figures of each task in a micro-batch, on their way from the workers to the driver.

A task sends them as a row behind its records. Spark collects these rows as observed metrics, which
are part of its progress, and leaves them out of what goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamlet.processing.record_failures import RecordCounters
    from streamlet.spark.rows.packing import Packed

#: How the name begins of an observed metric with reports of tasks, as ``tasks``.
OBSERVED_TASKS: Final = "streamlet-tasks:"

#: The topic of a row that is a report; Kafka has none with such a name.
_REPORTS: Final = "/reports"


class TaskReport(msgspec.Struct, frozen=True):
    """One task in one micro-batch.

    ``records`` were processed and ``written`` sent on, to topics and to other tasks; ``dropped``,
    ``late`` and ``skipped`` are as in ``RecordCounters``. ``seconds`` passed from the task's first
    record until its state was kept. ``state_bytes`` are the keys and values that it keeps,
    replaced ones that no merge has dropped yet included; None: it has no state.
    """

    task: str
    records: int
    written: int
    dropped: int
    late: int
    skipped: int
    seconds: float
    state_bytes: int | None = None

    @classmethod
    def of(
        cls, task: object, counters: RecordCounters, written: int, took_ns: int, state: int | None
    ) -> Self:
        """The report of a task that began to count with the micro-batch."""
        found = counters.records, written, counters.dropped, counters.late, counters.skipped
        return cls(str(task), *found, took_ns / 1e9, state)

    def followed(self, later: Self) -> Self:
        """The one report that counts of two of a task in one micro-batch."""
        return later if later.state_bytes is not None else self.plus(later)

    def plus(self, later: Self) -> Self:
        """The sums of both, with the state of the later one."""
        sums = {name: getattr(self, name) + getattr(later, name) for name in _SUMS}
        return msgspec.structs.replace(later, **sums)

    def document(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {**msgspec.structs.asdict(self), "seconds": round(self.seconds, 3)}

    def row(self) -> Packed:
        """The report as a row."""
        from streamlet.spark.rows.packing import LEAVES, Packed

        return Packed(0, self.task, 0, 0, 0, _REPORTS, LEAVES, _encode(self))


#: The fields of reports that add up.
_SUMS = ("records", "written", "dropped", "late", "skipped", "seconds")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(TaskReport).decode


def observed(rows: DataFrame, name: str) -> DataFrame:
    """Rows of ``schemas.PACKED`` without the reports among them, which Spark's progress has.

    Args:
        rows: with reports.
        name: of these rows, unique in the query.
    """
    from pyspark.sql import functions as f

    is_report = f.col("topic") == _REPORTS
    report = f.when(is_report, f.col("records").cast("string"))
    reports = f.collect_list(report).alias("tasks")  # leaves out nulls
    return rows.observe(OBSERVED_TASKS + name, reports).where(~is_report)


def reports_in(progress: Mapping[str, Any]) -> tuple[TaskReport, ...]:
    """The reports of the tasks that had records, in what Spark reports of a micro-batch.

    Of several of a task with state, which Spark has run again, the last one counts. One without
    state may have run in several parts, which are added up.
    """
    metrics = progress.get("observedMetrics", {}).items()
    texts = [
        text
        for name, metric in metrics
        if name.startswith(OBSERVED_TASKS)
        for text in metric["tasks"] or []
    ]
    by_task: dict[str, TaskReport] = {}
    for report in map(_decode, texts):
        before = by_task.get(report.task)
        by_task[report.task] = report if before is None else before.followed(report)
    return tuple(by_task[task] for task in sorted(by_task))
