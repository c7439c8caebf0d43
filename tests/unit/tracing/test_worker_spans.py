"""Spans of a worker beside its counters."""

from __future__ import annotations

import pytest

from streamlet.clock import ManualClock

otel = pytest.importorskip("opentelemetry.sdk.trace", reason="needs the extra otel")

from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: E402
    InMemorySpanExporter,
)

from streamlet.tracing.worker_spans import TracedMeters  # noqa: E402


def test_a_rebalance_has_one_span_and_is_counted_as_without_spans() -> None:
    exporter, clock = InMemorySpanExporter(), ManualClock(7_000)
    provider = otel.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    meters = TracedMeters(clock, tracer=provider.get_tracer("test"), application="app")
    clock.now_ns = lambda: clock.wall_ms() * 1_000_000 - 6_000_000_000  # type: ignore[method-assign]
    for state in ("REBALANCING", "RUNNING"):
        meters.rebalanced()
        clock.advance(40)
        meters.acted()
        meters.state_changed(state, ())
    assert meters.assigned.sum == pytest.approx(0.08)
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.start_time) == ("rebalance", 7_000_000_000)
