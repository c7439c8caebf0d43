"""A task whose batches have spans, and whose records carry trace contexts in their headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
from opentelemetry import trace

from streamlet.batch import Batch
from streamlet.processing.output_order import Step
from streamlet.processing.outputs import Output
from streamlet.processing.task import Task
from streamlet.tracing.headers import with_missing
from streamlet.tracing.spans import TaskSpans, carried_by, in_span


class TracedTask(Task):
    """A task with spans: one for each batch, and one for what its timers send.

    Args:
        arguments: those of ``Task``.
        tracer: begins the spans.
        named: those of ``Task``.
    """

    def __init__(self, *arguments: Any, tracer: trace.Tracer, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._spans = TaskSpans(tracer, str(self.task), self.application)
        #: The span that is open; None: nothing is under way.
        self._span: trace.Span | None = None
        self._emit = self.failures.emit
        self.failures.emit = self._emit_traced
        self._sources = {
            topic: (source, self._of_batches(step))
            for topic, (source, step) in self._sources.items()
        }
        self._nodes.wrap_timed(self._of_timers)

    def _of_batches(self, step: Step) -> Step:
        def traced(batch: Batch) -> Iterator[None]:
            if len(batch):
                span, batch = self._spans.of_batch(batch)
                yield from in_span(span, step(batch), self._enter)

        return traced

    def _of_timers(self, node: str, step: Step) -> Step:
        def traced(batch: Batch) -> Iterator[None]:
            span, batch = self._spans.of_timer(node, batch)
            yield from in_span(span, step(batch), self._enter)

        return traced

    def _enter(self, span: trace.Span | None) -> trace.Span | None:
        before, self._span = self._span, span
        return before

    def _emit_traced(self, output: Output) -> None:
        """Give outputs that lost their context, as of a function that sets headers, the span's."""
        own = None if self._span is None else carried_by(self._span)
        if own is not None:
            headers = with_missing(output.headers, len(output.keys), own)
            output = attrs.evolve(output, headers=headers, owned=False)
        self._emit(output)
