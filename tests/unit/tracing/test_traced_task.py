"""Spans of the tasks of a test driver, and the contexts that its records carry."""

from __future__ import annotations

import attrs
import pytest

import streamlet as sl
from streamlet.errors import ProcessingError
from streamlet.testing import TopologyTestDriver

pytest.importorskip("opentelemetry.sdk.trace", reason="needs the extra otel")

from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from streamlet.tracing.spans import LEFT_OUT, MOST_LINKS
from tests.unit.tracing.spans import Spans, header, links, traces


@pytest.fixture
def spans() -> Spans:
    return Spans()


def test_the_trace_goes_through_state_to_the_output(spans: Spans) -> None:
    """Count, table, repartition, window, join, suppress: each record's trace is that of its cause.

    The instrumentation of Java's clients loses it at the first aggregation.
    """
    app = sl.App("traced", tracer_provider=spans.provider)
    names = app.table("names", key=str, value=str)
    counts = app.stream("in", key=str, value=str).group_by_key().count()
    (
        counts.to_stream()
        .map(lambda key, count: ("all", count), key=str, value=int)
        .group_by_key()
        .windowed_by(sl.tumbling("10s", grace=0))
        .count()
        .suppress(sl.until_window_closes())
        .to_stream()
        .map(lambda window, count: (window.key, count), key=str, value=int)
        .join(names, lambda count, name: f"{name}:{count}", value=str)
        .to("out")
    )
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_input("names", "all", "n", headers=[header(9)])
        driver.pipe_input("in", "a", "x", 1_000, headers=[header(1)])
        driver.pipe_input("in", "b", "x", 2_000, headers=[header(2)])
        driver.pipe_input("in", "b", "x", 20_000, headers=[header(3)])
        (first,) = driver.read_output("out")
    assert first.value == "n:2"
    assert traces(first) == [2]  # the record that changed the window last, not the one closing it
    through = [one for one in spans.ended() if 2 in links(one) or one.context.trace_id == 2]
    assert {one.name for one in through} >= {"process in"}
    assert any("repartition" in one.name for one in through)
    assert all(one.attributes["messaging.system"] == "kafka" for one in through)


def test_the_result_of_a_call_has_the_context_of_its_record(spans: Spans) -> None:
    app = sl.App("traced", tracer_provider=spans.provider)

    async def call(value: str) -> str:
        return value.upper()

    app.stream("in", key=str, value=str).map_values_async(call, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        for trace_id in (5, 6):
            driver.pipe_input("in", "a", f"x{trace_id}", headers=[header(trace_id)])
        out = driver.read_output("out")
    assert [(one.value, traces(one)) for one in out] == [("X5", [5]), ("X6", [6])]


def passing(spans: Spans) -> sl.App:
    """An application that passes records on."""
    app = sl.App("traced", tracer_provider=spans.provider)
    app.stream("in", key=str, value=str).to("out")
    return app


def test_a_batch_of_one_context_goes_on_in_its_trace(spans: Spans) -> None:
    with TopologyTestDriver(passing(spans)) as driver:
        driver.pipe_inputs("in", [("a", "x"), ("b", "y")], headers=[("h", b"1"), header(5, 6)])
        out = driver.read_output("out")
    (span,) = spans.ended()
    assert span.name == "process in"
    assert span.kind is trace.SpanKind.CONSUMER
    assert (span.context.trace_id, span.parent.span_id, links(span)) == (5, 6, {5})
    assert span.attributes["messaging.batch.message_count"] == 2
    assert span.attributes["messaging.destination.partition.id"] == "0"
    own = header(5, span.context.span_id)
    assert [one.headers for one in out] == [[("h", b"1"), own]] * 2


def test_a_batch_of_several_contexts_begins_a_trace_and_links_to_each(spans: Spans) -> None:
    """What is not sampled is carried on and not linked to; there are 128 links at most."""
    app = sl.App("traced", tracer_provider=spans.provider)
    (
        app.stream("in", key=str, value=str)
        .flat_map_values(lambda value: value.split(), value=str)
        .group_by_key()
        .reduce(lambda old, new: new, emit="on_commit")
        .to_stream()
        .to("out")
    )
    many = [[header(number + 1)] for number in range(MOST_LINKS + 3)]
    heads = [[header(999, flags=0)], None, [("traceparent", b"?" * 9_999)], *many]
    with TopologyTestDriver(app) as driver:
        task = driver._parts[0].task
        raw = next(iter(driver._topics.batches("in", [b"k"], [b"v"], [1], None, None)))
        count = len(heads)
        batch = attrs.evolve(
            raw,
            keys=[b"%d" % number for number in range(count)],
            values=[b"v"] * count,
            timestamps=[1] * count,
            offsets=range(count),
            headers=heads,
        )
        (output,) = [*task.process(batch), *task.settle()]
    (span,) = spans.ended()
    assert span.parent is None
    assert len(span.links) == MOST_LINKS == len(links(span) - {999})
    assert span.attributes[LEFT_OUT] == 3
    own = header(span.context.trace_id, span.context.span_id, span.context.trace_flags)
    assert [list(one) for one in output.headers] == [heads[0], [own], [own], *many]


def test_what_a_timer_sends_begins_a_trace_with_a_link(spans: Spans) -> None:
    app = sl.App("traced", tracer_provider=spans.provider)

    class Ticking(sl.Processor[str, str, str, str]):
        """Sends a record of its own at each second, and drops the headers of others."""

        def init(self, context: sl.ProcessorContext[str, str]) -> None:
            self.context = context
            for by in ("stream_time", "wall_clock"):
                context.schedule("1s", by, lambda now: sl.Record("t", "tick", now))

        def process(self, record: sl.Record[str, str]) -> None:
            self.context.forward(sl.Record(record.key, record.value, record.timestamp))

    app.stream("in", key=str, value=str).process(Ticking, key=str, value=str).to("out")
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_input("in", "a", "x", 5_000, headers=[header(5)])
        driver.advance_wall_clock("2s")
        out = driver.read_output("out")
    first, *timers = sorted(spans.ended(), key=lambda one: one.name)
    assert [one.name for one in timers] == ["punctuate KSTREAM-PROCESSOR-0000000001"] * 2
    assert all(links(one) == {5} and one.parent is None for one in timers)
    assert traces(out[0]) == [first.context.trace_id] == [5]
    assert {trace for one in out[1:] for trace in traces(one)} == {
        one.context.trace_id for one in timers
    }


def test_an_error_ends_the_span_with_it_and_what_is_begun_within_is_its_child(
    spans: Spans,
) -> None:
    app = sl.App("traced", tracer_provider=spans.provider)

    def fails(value: str) -> str:
        with spans.provider.get_tracer("user").start_as_current_span("mine"):
            raise ValueError(value)

    app.stream("in", key=str, value=str).map_values(fails).to("out")
    with TopologyTestDriver(app) as driver, pytest.raises(ProcessingError):
        driver.pipe_input("in", "a", "x")
    mine, batch = spans.ended()
    assert mine.parent.span_id == batch.context.span_id
    assert batch.status.status_code is trace.StatusCode.ERROR
    assert batch.attributes["error.type"] == "ProcessingError"


def test_the_sampler_decides_and_records_carry_what_it_decided() -> None:
    spans = Spans(sampler=ParentBased(ALWAYS_OFF))
    with TopologyTestDriver(passing(spans)) as driver:
        driver.pipe_input("in", "a", "x")
        driver.pipe_input("in", "a", "x", headers=[header(5, flags=0)])
        driver.pipe_input("in", "a", "x", headers=[header(6)])
        out = driver.read_output("out")
    assert [one.context.trace_id for one in spans.ended()] == [6]
    assert [int(value[-2:], 16) & 1 for one in out for _, value in one.headers] == [0, 0, 1]
    assert [traces(one) for one in out[1:]] == [[5], [6]]
