"""A query's progress as metrics for Prometheus; they bear the label ``application``."""

from __future__ import annotations

from typing import Any

import attrs
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from streamlet.runtime.metrics.table import SPARK, SPARK_SECONDS, Metric, MetricType
from streamlet.spark.progress import BatchProgress

_LABELS = ("application",)
_KINDS: dict[MetricType, tuple[Any, dict[str, Any]]] = {
    MetricType.COUNTER: (Counter, {}),
    MetricType.GAUGE: (Gauge, {}),
    MetricType.HISTOGRAM: (Histogram, {"buckets": SPARK_SECONDS}),
}


@attrs.define
class QueryMetrics:
    """Follows a query; also what ``runtime.metrics.server`` asks for.

    ``running`` is whether the query runs; the probes fail when it does not.
    """

    application: str
    running: bool = False
    _registry: CollectorRegistry = attrs.field(factory=CollectorRegistry)
    _records: Any = attrs.field(init=False)
    _seconds: Any = attrs.field(init=False)
    _lag: Any = attrs.field(init=False)
    _state: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._records, self._seconds, self._lag, self._state = map(self._made, SPARK)

    def _made(self, metric: Metric) -> Any:
        kind, more = _KINDS[metric.kind]
        made: Any = kind(metric.name, metric.help, _LABELS, registry=self._registry, **more)
        return made.labels(self.application)

    def batch(self, one: BatchProgress) -> None:
        """Take one micro-batch that counts."""
        self._records.inc(one.records)
        self._seconds.observe(one.took_ms / 1000)
        self._lag.set(one.lag)
        self._state.set(one.state_bytes)

    def registry(self) -> CollectorRegistry:
        """The registry that is exposed."""
        return self._registry

    def alive(self) -> dict[str, Any]:
        """The document of the liveness probe: this process answers, and ends with the query."""
        return {"ok": True, "running": self.running}

    def ready(self) -> dict[str, Any]:
        """The document of the readiness probe."""
        return {"ok": self.running, "running": self.running}
