"""The spans of a task: which contexts begin them, what they say, and what they give to records.

Names and attributes are those of OpenTelemetry's conventions for messaging and Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs
from opentelemetry import context as current
from opentelemetry import trace

from streamlet.batch import Batch
from streamlet.errors import error_text
from streamlet.tracing.headers import CarriedContext, carried, with_context, with_missing

#: Links of a span at most: the limit that OpenTelemetry has by default.
MOST_LINKS = 128

LEFT_OUT = "streamlet.links.left_out"
TASK = "streamlet.task.id"


def context_of(found: CarriedContext) -> trace.SpanContext:
    """The context of a record as the API has it."""
    trace_id, span_id, flags = found.ids
    state = trace.TraceState.from_header([found.state.decode("ascii")])
    return trace.SpanContext(trace_id, span_id, True, trace.TraceFlags(flags), state)


def carried_by(span: trace.Span) -> CarriedContext | None:
    """The context of a span as records carry it; None: it has none, tracing is disabled."""
    own = span.get_span_context()
    if not own.is_valid:
        return None
    parent = f"00-{own.trace_id:032x}-{own.span_id:016x}-{int(own.trace_flags) & 255:02x}"
    return CarriedContext(parent.encode(), own.trace_state.to_header().encode())


def links_to(
    contexts: Iterable[CarriedContext],
) -> tuple[list[trace.Link], dict[str, int]]:
    """Links to the sampled ones, each once, and the attribute that counts those left out."""
    sampled = list(dict.fromkeys(one for one in contexts if one.sampled))
    left_out = max(0, len(sampled) - MOST_LINKS)
    links = [trace.Link(context_of(one)) for one in sampled[:MOST_LINKS]]
    return links, {LEFT_OUT: left_out} if left_out else {}


@attrs.define(eq=False)
class TaskSpans:
    """Begins the spans of one task.

    Args:
        tracer: of the application.
        task: its name.
        application: the name of the group.
    """

    tracer: trace.Tracer
    task: str
    application: str
    #: Of the newest batch; what timers link to.
    newest: CarriedContext | None = None

    def of_batch(self, batch: Batch) -> tuple[trace.Span, Batch]:
        """Begin the span of a batch; its records as they carry on from there.

        If all carry one context, the span goes on in that trace and the records carry the span.
        Otherwise it begins a trace of its own, and each record keeps the context it came with; one
        that came without carries the span.
        """
        found = [carried(one) for one in batch.headers or ()] or [None] * len(batch)
        contexts = dict.fromkeys(one for one in found if one is not None)
        links, counted = links_to(contexts)
        parent = None if len(contexts) != 1 or None in found else next(iter(contexts))
        span = self.tracer.start_span(
            f"process {batch.topic}",
            current.Context() if parent is None else _within(parent),
            trace.SpanKind.CONSUMER,
            {**self._about(batch), **counted},
            links,
        )
        own = self.newest = carried_by(span)
        if own is None:
            return span, batch
        headers = (
            with_missing(batch.headers, len(batch), own)
            if parent is None
            else [with_context(one, own) for one in batch.headers or ()]
        )
        return span, attrs.evolve(batch, headers=headers)

    def of_timer(self, node: str, batch: Batch) -> tuple[trace.Span, Batch]:
        """Begin the span of records that a node sends without one, and have them carry it.

        It begins a trace, with links to the newest batch and to what the records carry already.
        """
        found = [one for one in map(carried, batch.headers or ()) if one is not None]
        links, counted = links_to([*([self.newest] if self.newest else ()), *found])
        about = {"messaging.system": "kafka", "messaging.consumer.group.name": self.application}
        span = self.tracer.start_span(
            f"punctuate {node}",
            current.Context(),
            trace.SpanKind.INTERNAL,
            {**about, TASK: self.task, "messaging.batch.message_count": len(batch), **counted},
            links,
        )
        own = carried_by(span)
        if own is None:
            return span, batch
        return span, attrs.evolve(batch, headers=with_missing(batch.headers, len(batch), own))

    def _about(self, batch: Batch) -> dict[str, str | int]:
        about: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": batch.topic,
            "messaging.destination.partition.id": str(batch.partition),
            "messaging.consumer.group.name": self.application,
            "messaging.batch.message_count": len(batch),
            TASK: self.task,
        }
        if len(batch) == 1:
            about["messaging.kafka.offset"] = batch.offsets[0]
        return about


def _within(parent: CarriedContext) -> current.Context:
    span = trace.NonRecordingSpan(context_of(parent))
    return trace.set_span_in_context(span, current.Context())


def in_span(
    span: trace.Span, step: Iterator[None], enter: Callable[[trace.Span | None], trace.Span | None]
) -> Iterator[None]:
    """Take a step with a span as the current one, part by part, and end the span with it.

    Args:
        span: it.
        step: what is done within.
        enter: notes the span of the task, and returns the one before.
    """
    within = trace.set_span_in_context(span)
    try:
        while True:
            token, before = current.attach(within), enter(span)
            try:
                next(step)
            except StopIteration:
                return
            finally:
                enter(before)
                current.detach(token)
            yield
    except Exception as error:
        failed(span, error)
        raise
    finally:
        span.end()


def failed(span: trace.Span, error: BaseException) -> None:
    """Note in a span what it ended with."""
    span.record_exception(error)
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(trace.StatusCode.ERROR, error_text(error))
