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
from streamlet.state.task_state import TaskState
from streamlet.topology.subtopologies import Subtopology
from streamlet.tracing.row_contexts import RowContexts
from streamlet.tracing.spans import TaskSpan, TaskSpans, in_span
from streamlet.types import TaskId


class TracedTask(Task):
    """A task with spans: one for each batch, and one for what its timers send.

    Args:
        task: which.
        subtopology: what it does.
        state: its stores, which may keep the contexts of the records that changed their rows.
        arguments: more of ``Task``.
        tracer: begins the spans.
        named: those of ``Task``.
    """

    def __init__(
        self,
        task: TaskId,
        subtopology: Subtopology,
        state: TaskState,
        *arguments: Any,
        tracer: trace.Tracer,
        **named: Any,
    ) -> None:
        #: The span that is open; None: nothing is under way.
        self._span: TaskSpan | None = None
        self._rows = RowContexts(subtopology, state, lambda: self._span)
        super().__init__(task, self._rows.hooked(subtopology), state, *arguments, **named)
        self._spans = TaskSpans(tracer, str(self.task), self.application)
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
                begun = self._spans.of_batch(batch)
                yield from in_span(begun, step(begun.batch), self._enter)

        return traced

    def _of_timers(self, node: str, step: Step) -> Step:
        def traced(batch: Batch) -> Iterator[None]:
            begun = self._spans.of_timer(node, self._rows.carried_on(node, batch))
            yield from in_span(begun, step(begun.batch), self._enter)

        return traced

    def _enter(self, span: TaskSpan | None) -> TaskSpan | None:
        before, self._span = self._span, span
        return before

    def _emit_traced(self, output: Output) -> None:
        """Give outputs that lost their context, as of a function that sets headers, the span's."""
        if self._span is not None and self._span.own is not None:
            headers = self._span.carrying(output.headers, len(output.keys))
            output = attrs.evolve(output, headers=headers, owned=False)
        self._emit(output)
