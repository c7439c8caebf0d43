"""The parts of a worker that have spans, in place of those that have none."""

from __future__ import annotations

from functools import partial

from opentelemetry.trace import TracerProvider

from streamlet.clock import Clock
from streamlet.runtime.listeners import Observer
from streamlet.state.row_headers import KeptHeaders
from streamlet.tasks.meters import Meters
from streamlet.tracing.headers import TRACEPARENT, TRACESTATE
from streamlet.tracing.off import NoTracing
from streamlet.tracing.provider import flush, provider_of_process, tracer_of
from streamlet.tracing.traced_task import TracedTask
from streamlet.tracing.worker_spans import TracedMeters, TracedObserver


class WorkerTracing(NoTracing):
    """Makes these parts; closed with the worker, it exports what has ended.

    Args:
        provider: of the program; None: that of the process.
        application: its name.
        instance: the name of the worker.
        rows: of how many rows of a store contexts are kept; 0: of none.

    Raises:
        ConfigError: the exporter is not installed.
    """

    def __init__(
        self, provider: TracerProvider | None, application: str, instance: str, rows: int
    ) -> None:
        if provider is None:
            provider = provider_of_process(application, instance)
        self._provider, self._tracer = provider, tracer_of(provider)
        self._application = application
        self.kept = KeptHeaders(frozenset((TRACEPARENT, TRACESTATE)), rows) if rows else None
        self.new_task = partial(TracedTask, tracer=self._tracer)
        self._meters: TracedMeters | None = None

    def meters(self, clock: Clock) -> Meters:
        """The counters of the worker, which have spans for what they count."""
        self._meters = TracedMeters(clock, tracer=self._tracer, application=self._application)
        return self._meters

    def observed(self, observer: Observer) -> Observer:
        """The observer that is called with the states: it tells the counters and the one given."""
        assert self._meters is not None
        return TracedObserver(self._meters, observer)

    def close(self) -> None:
        """Export the spans that have ended."""
        flush(self._provider)
