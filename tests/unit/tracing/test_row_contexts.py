"""Rows that keep the contexts of the records which changed them, and what is made of such rows."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import streamlet as sl
from streamlet.state.row_headers import MOST_VALUE, KeptHeaders
from streamlet.testing import TopologyTestDriver
from tests.unit.tasks.owners import INPUT, Owner, World

pytest.importorskip("opentelemetry.sdk.trace", reason="needs the extra otel")

from streamlet.tracing.headers import TRACEPARENT, TRACESTATE, carried
from streamlet.tracing.spans import LEFT_OUT, MOST_LINKS
from streamlet.tracing.worker import WorkerTracing
from tests.unit.tracing.spans import Spans, header, links, traces


@pytest.fixture
def spans() -> Spans:
    return Spans()


def traced(spans: Spans, rows: int = 10) -> sl.App:
    return sl.App("traced", tracer_provider=spans.provider, config={"tracing.rows": rows})


@pytest.mark.parametrize("rows", [0, 10])
def test_a_join_links_to_what_changed_the_row(spans: Spans, rows: int) -> None:
    """That of a stream with a table and that of two tables; only if rows are to keep contexts."""
    app = traced(spans, rows)
    names, towns = (app.table(topic, key=str, value=str) for topic in ("names", "towns"))
    both = names.join(towns, lambda name, town: f"{name} of {town}", value=str)
    app.stream("in", key=str, value=str).join(both, lambda v, row: v + row, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("names", "a", "n", headers=[header(1)])
        driver.pipe_input("names", "a", "m", headers=[header(2)])
        driver.pipe_input("names", "b", "z", headers=[header(3)])
        driver.pipe_input("towns", "a", "t", headers=[header(4)])
        driver.pipe_input("in", "a", "x ", headers=[header(5)])
        driver.pipe_input("names", "a", "o", headers=[header(6, flags=0)])
        driver.pipe_input("in", "a", "y ", headers=[header(7)])
        out = driver.read_output("out")
    assert [(one.value, traces(one)) for one in out] == [("x m of t", [5]), ("y o of t", [7])]
    ended = spans.ended()
    towns_spans, asked = (
        [links(one) for one in ended if one.name == f"process {topic}"] for topic in ("towns", "in")
    )
    if not rows:
        assert (towns_spans, asked) == ([{4}], [{5}, {7}])
        return
    assert towns_spans == [{2, 4}]
    assert asked == [{2, 4, 5}, {4, 7}]  # what is not sampled is linked with nothing


def test_a_join_by_foreign_keys_links_to_the_rows_of_both_sides(spans: Spans) -> None:
    app = traced(spans)
    orders, items = (app.table(topic, key=str, value=str) for topic in ("orders", "items"))
    joined = orders.join(items, lambda o, i: f"{o} {i}", foreign_key=lambda o: o, value=str)
    joined.to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("items", "i", "tea", headers=[header(1)])
        driver.pipe_input("orders", "o", "i", headers=[header(2)])
        driver.pipe_input("items", "i", "pot", headers=[header(3)])
        out = driver.read_output("out")
    assert [(one.value, traces(one)) for one in out] == [("i tea", [2]), ("i pot", [3])]
    ended = spans.ended()
    asked = [links(one) for one in ended if "SUBSCRIPTION-REGISTRATION" in one.name]
    answered = [links(one) for one in ended if "SUBSCRIPTION-RESPONSE" in one.name]
    assert asked == [{1, 2}]
    assert answered == [{2}, {2, 3}]


@pytest.mark.parametrize(
    ("window", "idle"),
    [
        (sl.tumbling("10s", grace=0), None),
        (sl.tumbling("10s", grace=0), "1s"),
        (sl.session("1s", grace=0), None),  # which ends in another row than it began in
    ],
)
def test_the_final_result_of_a_window_has_the_context_of_its_row(
    spans: Spans, window: Any, idle: str | None
) -> None:
    """Not of the record that closes the window, nor of the timer; with it, what changed it last."""
    app = traced(spans)
    windows = app.stream("in", key=str, value=str).group_by_key()
    (
        windows.windowed_by(window, emit="final", close_idle_after=idle)
        .count()
        .to_stream()
        .map(lambda window, count: (window.key, count), key=str, value=int)
        .to("out")
    )
    with TopologyTestDriver(app, start_ms=0) as driver:
        heads = [[header(1)], [header(5)], [header(2)]]  # of records between two commits
        times = [1_500, 2_400, 3_300]
        some = driver._topics.batches("in", [b"a"] * 3, [b"x"] * 3, times, heads, None)
        driver._process(deque(some))
        driver.pipe_input("in", "b", "x", 3_000, headers=[header(3)])
        if idle is None:
            driver.pipe_input("in", "a", "x", 20_000, headers=[header(4)])
        else:
            driver.advance_wall_clock("20s")
        out = driver.read_output("out")
    found = sorted((one.key, one.value, traces(one)) for one in out)
    assert found == [("a", 3, [2]), ("b", 1, [3])]
    *_, last = spans.ended()
    assert {2, 3} <= links(last)


def test_what_a_processor_sends_by_the_clock_has_the_context_of_its_row(spans: Spans) -> None:
    app = traced(spans)

    class Reminding(sl.Processor[str, str, str, str]):
        """Sends, a second later, what it has, and something else."""

        def init(self, context: sl.ProcessorContext[str, str]) -> None:
            self.rows = context.store("rows")
            context.schedule("1s", "wall_clock", self.remind)

        def process(self, record: sl.Record[str, str]) -> None:
            self.rows.put(record.key, record.value)

        def remind(self, now: int) -> Iterator[sl.Record[str, str]]:
            for key, value in self.rows.range():
                yield sl.Record(key, value, now)
            yield sl.Record("other", "x", now)
            yield sl.Record("a", "own", now, (header(9),))

    rows = sl.key_value_store("rows", key=str, value=str)
    app.stream("in", key=str, value=str).process(Reminding, stores=[rows], key=str, value=str).to(
        "out"
    )
    with TopologyTestDriver(app, start_ms=0) as driver:
        driver.pipe_input("in", "a", "x", headers=[header(1)])
        driver.pipe_input("in", "b", "x", headers=[header(2)])
        driver.advance_wall_clock("1s")
        a, b, other, own = (traces(one) for one in driver.read_output("out"))
    assert (a, b, own) == ([1], [2], [9])
    assert other not in (a, b, own)


def test_rows_keep_contexts_by_the_record_in_a_batch_of_many_and_where_one_fails(
    spans: Spans,
) -> None:
    """And no more links than OpenTelemetry takes, nor more rows than are asked for."""
    app = sl.App(
        "traced",
        tracer_provider=spans.provider,
        on_error="skip",
        config={"tracing.rows": MOST_LINKS + 9},
    )
    sums = app.stream("in", key=str, value=int).group_by_key()
    table = sums.aggregate(lambda: 0, lambda _, v, total: total + 60 // v, value=int, store="sums")
    app.stream("ask", key=str, value=int).join(table, lambda v, row: row, value=int).to("out")
    many = range(1, MOST_LINKS + 12)
    records = [(str(number), 0 if number == 5 else 1) for number in many]
    with TopologyTestDriver(app) as driver:
        heads = [[header(1_000 + number)] for number in many]
        for (key, value), head in zip(records, heads, strict=True):
            driver.pipe_input("in", key, value, headers=head)
        spans.ended()
        driver.pipe_inputs("ask", [(str(number), 1) for number in many], headers=[header(1)])
        out = driver.read_output("out")
        kept = driver._parts[0].state.row_headers["sums"]
        held = [carried(one) for one in kept.of_rows([str(number) for number in many])]
    assert len(out) == len(many) - 1
    assert held[4] is None  # that one failed
    (span,) = spans.ended()
    assert len(span.links) == MOST_LINKS
    kept_rows = MOST_LINKS + 9  # one fewer than there are; one link is that of the record
    assert span.attributes[LEFT_OUT] == kept_rows - (MOST_LINKS - 1)


def test_a_restored_row_has_the_context_of_what_changed_it(spans: Spans, tmp_path: Path) -> None:
    """By the changelog, tombstones too, on another host; a change without a context ends it."""
    tracing = WorkerTracing(spans.provider, "app", "one", rows=10)
    world = World(tmp_path, random.Random(1))
    for topic in ("words", "app-counts-changelog"):
        world.log.create(topic)
    own = [("id", b"7"), header(5), ("tracestate", b"a=1")]
    for key, value, heads in (
        (b"a", b"x", own),
        (b"b", b"x", [header(6)]),
        (b"c", b"x", [header(7)]),
        (b"b", b"drop", [header(8)]),
        (b"c", b"x", [header(9, flags=0)]),
    ):
        world.log.append(INPUT, [key], [value], headers=[heads])
    kept: list[Any] = []
    for host in ("one", "two"):
        owner = Owner(world, host=tmp_path / host, tracing=tracing)
        list(owner.steps())  # its claim
        owner.work(10)
        list(owner.steps())
        found = owner.active.state.row_headers["counts"].of_rows(["a", "b", "c", "d"])
        kept.append([carried(one) for one in found])
        owner.die()
    first, second = kept
    assert first == second
    assert [one and one.ids[0] for one in first] == [5, 8, None, None]
    assert first[0].state == b"a=1"


def test_a_value_that_is_too_long_is_not_kept() -> None:
    kept = KeptHeaders(frozenset((TRACEPARENT, TRACESTATE)), 1)
    assert kept.of([header(1), ("x", b"y" * 9_999)]) == (header(1),)
    assert kept.of([header(1), (TRACESTATE, b"y" * (MOST_VALUE + 1))]) == ()
    assert kept.of(None) == ()
