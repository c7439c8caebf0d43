"""Spans that have ended, and the contexts that records of tests carry."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    """A provider that keeps the spans that have ended."""

    def __init__(self, **named: Any) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False, **named)
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def seen(self) -> list[Any]:
        """They; more may end meanwhile."""
        return list(self._exporter.get_finished_spans())

    def ended(self) -> list[Any]:
        """They, as far as they were not taken; for one thread."""
        found = self.seen()
        self._exporter.clear()
        return found


def header(trace_id: int, span_id: int = 7, flags: int = 1) -> tuple[str, bytes]:
    """The header of a record of this trace."""
    return "traceparent", f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}".encode()


def traces(record: Any) -> list[int]:
    """The traces that a record carries."""
    found = [value for name, value in record.headers or () if name == "traceparent"]
    return [int(value.split(b"-")[1], 16) for value in found]


def links(span: Any) -> set[int]:
    """The traces that a span is linked with."""
    return {link.context.trace_id for link in span.links}
