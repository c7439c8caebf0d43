"""A query's progress as metrics for Prometheus; they bear the label ``application``."""

from __future__ import annotations

from typing import Any

import attrs
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from streamlet.spark.progress import BatchProgress

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_LABELS = ("application",)


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
        def made(kind: Any, name: str, text: str, **more: Any) -> Any:
            shown = f"streamlet_spark_{name}"
            return kind(shown, text, _LABELS, registry=self._registry, **more).labels(
                self.application
            )

        self._records = made(Counter, "records", "Records read by micro-batches that count")
        self._seconds = made(
            Histogram, "batch_seconds", "What micro-batches took, all of it", buckets=_SECONDS
        )
        self._lag = made(Gauge, "lag", "Records in Kafka behind the last micro-batch")
        self._state = made(Gauge, "state_bytes", "What state takes in Spark's stores")

    def batch(self, one: BatchProgress) -> None:
        """Take one micro-batch that counts."""
        self._records.inc(one.records)
        self._seconds.observe(one.took_ms / 1000)
        self._lag.set(one.lag)
        self._state.set(one.state_bytes)

    def registry(self) -> CollectorRegistry:
        """What is exposed."""
        return self._registry

    def alive(self) -> dict[str, Any]:
        """The document of the liveness probe: this process answers, and ends with the query."""
        return {"ok": True, "running": self.running}

    def ready(self) -> dict[str, Any]:
        """The document of the readiness probe."""
        return {"ok": self.running, "running": self.running}
