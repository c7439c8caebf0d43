"""A query's progress as metrics for Prometheus, those of its tasks included.

All bear the label ``application``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from streamlet.runtime.metrics.metric import Metric, MetricType
from streamlet.runtime.metrics.spark_table import SPARK, SPARK_LAG, SPARK_SECONDS, SPARK_TASKS
from streamlet.spark.progress import BatchProgress
from streamlet.spark.rows.task_reports import TaskReport
from streamlet.types import TaskId

_KINDS: dict[MetricType, tuple[Any, dict[str, Any]]] = {
    MetricType.COUNTER: (Counter, {}),
    MetricType.GAUGE: (Gauge, {}),
    MetricType.HISTOGRAM: (Histogram, {"buckets": SPARK_SECONDS}),
}


@attrs.define
class QueryMetrics:
    """The metrics of a query on Spark, counted as its batches come.

    ``running`` is whether the query runs; the probes fail when it does not. ``readers`` are the
    subtopologies that read topics, by topic: the lag of other topics is that of no task.
    """

    application: str
    running: bool = False
    readers: Mapping[str, int] = attrs.field(factory=dict)
    registry: CollectorRegistry = attrs.field(factory=CollectorRegistry)
    _records: Any = attrs.field(init=False)
    _seconds: Any = attrs.field(init=False)
    _lag: Any = attrs.field(init=False)
    _state: Any = attrs.field(init=False)
    #: By field of a task's report.
    _of_tasks: dict[str, Any] = attrs.field(init=False)
    _lags: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        of_query = [self._made(metric).labels(self.application) for metric in SPARK]
        self._records, self._seconds, self._lag, self._state = of_query
        self._of_tasks = {field: self._made(metric) for field, metric in SPARK_TASKS.items()}
        self._lags = self._made(SPARK_LAG)

    def _made(self, metric: Metric) -> Any:
        kind, more = _KINDS[metric.kind]
        labels = ("application", *metric.labels)
        made: Any = kind(metric.name, metric.help, labels, registry=self.registry, **more)
        return made

    def batch(self, one: BatchProgress) -> None:
        """Take one micro-batch that counts."""
        self._records.inc(one.records)
        self._seconds.observe(one.took_ms / 1000)
        self._lag.set(one.lag)
        self._state.set(one.state_bytes)
        for report in one.tasks:
            self._task(report)
        for where, lag in one.lags.items():
            if where.topic in self.readers:
                task = str(TaskId(self.readers[where.topic], where.partition))
                labels = self.application, task, where.topic, str(where.partition)
                self._lags.labels(*labels).set(lag)

    def _task(self, report: TaskReport) -> None:
        for field, metric in self._of_tasks.items():
            value = getattr(report, field)
            if value is None:
                continue
            labelled = metric.labels(self.application, report.task)
            if SPARK_TASKS[field].kind is MetricType.COUNTER:
                labelled.inc(value)
            else:
                labelled.set(value)

    def alive(self) -> dict[str, Any]:
        """The document of the liveness probe: this process answers, and ends with the query."""
        return {"ok": True, "running": self.running}

    def ready(self) -> dict[str, Any]:
        """The document of the readiness probe."""
        return {"ok": self.running, "running": self.running}
