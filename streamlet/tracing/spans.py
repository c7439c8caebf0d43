"""The spans of a task: which contexts begin them, what they say, and what they give to records.

Names and attributes are those of OpenTelemetry's conventions for messaging and Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat

import attrs
from opentelemetry import context as current
from opentelemetry import trace

from streamlet.batch import Batch
from streamlet.errors import error_text
from streamlet.kafka.ports import Headers
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


@attrs.define
class Links:
    """The links of one span, each once: the sampled contexts among those that it is given.

    ``left_out`` is how many others it was given.
    """

    linked: dict[CarriedContext, None] = attrs.field(factory=dict)
    left_out: int = 0

    def taken(self, contexts: Iterable[CarriedContext]) -> list[trace.Link]:
        """The links to those contexts that it does not have yet, as far as there is room."""
        new = [one for one in dict.fromkeys(contexts) if one.sampled and one not in self.linked]
        some = new[: MOST_LINKS - len(self.linked)]
        self.left_out += len(new) - len(some)
        self.linked.update(dict.fromkeys(some))
        return [trace.Link(context_of(one)) for one in some]

    @property
    def counted(self) -> dict[str, int]:
        """The attribute that counts those left out, if there are any."""
        return {LEFT_OUT: self.left_out} if self.left_out else {}


@attrs.frozen
class TaskSpan:
    """A span that was begun, what it is linked with, and its records as they carry on from there.

    ``own`` is its context; None: tracing is disabled. ``known`` are the headers of which it is
    known that they carry a context, by ``id``.
    """

    span: trace.Span
    links: Links
    batch: Batch
    own: CarriedContext | None

    known: frozenset[int] = attrs.field(init=False)

    @known.default
    def _given(self) -> frozenset[int]:
        return frozenset(map(id, (self.batch.headers or ()) if self.own else ()))

    def link(self, contexts: Iterable[CarriedContext]) -> None:
        """Link to more contexts, which were met while it lasts."""
        for one in self.links.taken(contexts):
            self.span.add_link(one.context)
        for name, count in self.links.counted.items():
            self.span.set_attribute(name, count)

    def carrying(
        self, headers: Sequence[Headers | None] | None, count: int
    ) -> list[Headers | None]:
        """The headers of so many results; those that lost their context get the span's."""
        rows = [None] * count if headers is None else headers
        if self.own is None:
            return list(rows)
        known, own = self.known, self.own.headers
        return [
            one if id(one) in known or carried(one) is not None else with_context(one, own)
            for one in rows
        ]


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

    def of_batch(self, batch: Batch) -> TaskSpan:
        """Begin the span of a batch.

        If all its records carry one context, the span goes on in that trace and the records carry
        the span. Otherwise it begins a trace of its own, and each record keeps the context it came
        with; one that came without carries the span.
        """
        headers: Sequence[Headers | None] = batch.headers or [None] * len(batch)
        found = list(map(carried, headers))
        contexts = dict.fromkeys(found)
        parent = found[0] if len(contexts) == 1 else None
        links = Links()
        linked = links.taken(one for one in contexts if one)
        span = self.tracer.start_span(
            f"process {batch.topic}",
            current.Context() if not parent else _within(parent),
            trace.SpanKind.CONSUMER,
            {**self._about(batch), **links.counted},
            linked,
        )
        own = self.newest = carried_by(span)
        if own is not None:
            kept = repeat(None, len(batch)) if parent else found
            batch = attrs.evolve(batch, headers=with_missing(headers, kept, own.headers))
        return TaskSpan(span, links, batch, own)

    def of_timer(self, node: str, batch: Batch) -> TaskSpan:
        """Begin the span of records that a node sends without one, and have them carry it.

        It begins a trace, with links to the newest batch and to what the records carry already.
        """
        headers: Sequence[Headers | None] = batch.headers or [None] * len(batch)
        found = list(map(carried, headers))
        links = Links()
        linked = links.taken(one for one in (self.newest, *found) if one)
        about = {"messaging.system": "kafka", "messaging.consumer.group.name": self.application}
        span = self.tracer.start_span(
            f"punctuate {node}",
            current.Context(),
            trace.SpanKind.INTERNAL,
            {
                **about,
                TASK: self.task,
                "messaging.batch.message_count": len(batch),
                **links.counted,
            },
            linked,
        )
        own = carried_by(span)
        if own is not None:
            batch = attrs.evolve(batch, headers=with_missing(headers, found, own.headers))
        return TaskSpan(span, links, batch, own)

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
            about["kafka.offset"] = batch.offsets[0]
            if batch.values[0] is None:
                about["kafka.message.tombstone"] = True
        return about


def _within(parent: CarriedContext) -> current.Context:
    span = trace.NonRecordingSpan(context_of(parent))
    return trace.set_span_in_context(span, current.Context())


def in_span(
    begun: TaskSpan, step: Iterator[None], enter: Callable[[TaskSpan | None], TaskSpan | None]
) -> Iterator[None]:
    """Take a step with a span as the current one, part by part, and end the span with it.

    Args:
        begun: it.
        step: what is done within.
        enter: notes the span of the task, and returns the one before.
    """
    span = begun.span
    within = trace.set_span_in_context(span)
    try:
        while True:
            token, before = current.attach(within), enter(begun)
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
