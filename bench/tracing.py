"""Benchmark of the cost of tracing: counts per key in one task, whose records bear trace contexts.

``off`` is without tracing, ``one`` has the records of each batch in one trace, ``each`` every
record in a trace of its own, and ``rows`` has rows keep contexts, too, a tenth of which is sampled.
``ns`` is processor time a record, the least of the rounds; ``more_ns`` what it is above ``off``.
Spans are made, and exported nowhere. No broker takes part.
"""

from __future__ import annotations

import time
from typing import Any

import streamlet as sl
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.testing import TopologyTestDriver

MODES = ("off", "one", "each", "rows")
_BATCH, _KEYS, _SAMPLED = 10_000, 1_000, 10


def run(*, records: int, runs: int) -> dict[str, Any]:
    """Measure; the result as it is printed."""
    size = min(_BATCH, records)
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    right = True
    for _ in range(runs):
        for mode in MODES:
            ns, kept = _measured(mode, size, records // size)
            found[mode].append(ns)
            right = right and kept
    least = {mode: round(min(ns)) for mode, ns in found.items()}
    more = {mode: least[mode] - least["off"] for mode in MODES[1:]}
    return {"workload": "tracing", "ns": least, "more_ns": more, "right": right}


def _measured(mode: str, size: int, batches: int) -> tuple[float, bool]:
    """Processor time a record, ns, and whether each result has the trace of its record."""
    heads: list[Headers | None] = [_header(mode, number) for number in range(size)]
    keys: list[bytes | None] = [b"k%d" % (number % _KEYS) for number in range(size)]
    with TopologyTestDriver(_app(mode)) as driver:
        task = driver._parts[0].task

        def process(number: int) -> Any:
            offsets = range(number * size, (number + 1) * size)
            times = [number] * size
            return task.process(PartitionBatch("in", 0, offsets, keys, keys, times, heads))

        process(0)
        began = time.process_time_ns()
        for number in range(1, batches + 1):
            outputs = process(number)
        spent = time.process_time_ns() - began
    results = [headers for output in outputs for headers in output.headers]
    return spent / (batches * size), list(map(_trace, results)) == list(map(_trace, heads))


def _app(mode: str) -> sl.App:
    named: dict[str, Any] = {}
    if mode != "off":
        from opentelemetry.sdk.trace import TracerProvider

        named["tracer_provider"] = TracerProvider(shutdown_on_exit=False)
    if mode == "rows":
        named["config"] = {"tracing.rows": _BATCH}
    app = sl.App("traced", **named)
    counts = app.stream("in", key=str, value=str).group_by_key().count(store="counts")
    counts.to_stream().to("out")
    return app


def _trace(headers: Headers | None) -> list[bytes]:
    return [(value or b"")[3:35] for _, value in headers or ()]


def _header(mode: str, number: int) -> Headers:
    """That of a record: its trace, which is sampled or not."""
    trace = 1 if mode == "one" else number + 1
    sampled = mode != "rows" or number % _SAMPLED == 0
    return [("traceparent", b"00-%032x-%016x-%02x" % (trace, 7, sampled))]
