"""Processors, state functions with timers and deduplication in Spark's batches: native results."""

from __future__ import annotations

import random
from typing import Any

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError, TopologyError
from streamlet.spark.plan.plan import plan
from streamlet.spark.plan.refusals import check_topology
from streamlet.spark.state.run import Runner
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId
from tests.unit.spark.test_stages import SMALL, KeptInMemory, raw_rows, text

STR: dict[str, Any] = {"key": str, "value": str}


def counted(record: sl.Record[str, str], context: Any) -> str:
    store = context.store("counts")
    store.put(record.key, (store.get(record.key) or 0) + 1)
    return f"{store.get(record.key)} {context.stream_time}"


def watched(record: sl.Record[str, str], state: sl.State[str]) -> None:
    state["n"] = state.get("n", 0) + 1
    state.timer(after=60)


def silent(timer: sl.Timer[str], state: sl.State[str]) -> tuple[str, str]:
    count = state.pop("n")
    return timer.key, f"{count} until {timer.time}"


processors = sl.App("processors")
_events = processors.stream("events", **STR)
_counts = sl.key_value_store("counts", key=str, value=int, ttl=200)
_events.process_values(counted, stores=[_counts], value=str).to("counted")
_events.process(watched, on_timer=silent, name="watch", **STR).to("silent")
_events.deduplicate(30, store="seen").to("once")

TOPICS = ("counted", "silent", "once")
HERE = f"{__name__}:processors"


def records(seed: int, count: int) -> list[tuple[str, str, int]]:
    """Records whose times mostly rise; some are late."""
    dice, now, found = random.Random(seed), 0, []
    for _ in range(count):
        now += dice.choice((0, 1, 5, 30, 100))
        found.append((dice.choice("abc"), "v", max(0, now - dice.choice((0, 0, 0, 20, 150)))))
    return found


@pytest.mark.parametrize("seed", range(2))
def test_every_result_is_that_of_a_native_task(seed: int) -> None:
    """The workers take turns, so that one of them begins cold."""
    laid_out, kept = plan(HERE, processors.topology(), {"events": 1}), KeptInMemory()
    runners = [Runner(laid_out, SMALL), Runner(laid_out, SMALL)]
    given = records(seed, 300)
    with TopologyTestDriver(processors) as driver:
        for key, value, time in given:
            driver.pipe_input("events", key, value, time)
        native = {
            topic: [(r.key, r.value, r.timestamp) for r in driver.read_output(topic)]
            for topic in TOPICS
        }
    found: dict[str, list[tuple[str, str, int]]] = {topic: [] for topic in TOPICS}
    for batch, first in enumerate(range(0, len(given), 20)):
        rows = raw_rows(laid_out, text("events", first, *given[first : first + 20]))
        for some in runners[batch % 3 == 0].run(TaskId(0, 0), rows, kept, batch):
            for out in some:
                columns = zip(out.keys, out.values, out.timestamps, strict=True)
                found[out.topic] += [
                    ((key or b"").decode(), (value or b"").decode(), time)
                    for key, value, time in columns
                ]
    assert all(native.values())
    assert found == native


class Flushing(sl.Processor[str, str, str, str]):
    def init(self, context: sl.ProcessorContext[str, str]) -> None:
        context.schedule("1m", "stream_time", print)

    def process(self, record: sl.Record[str, str]) -> None:
        raise AssertionError


def test_punctuators_and_timers_by_the_clock_are_refused_by_name() -> None:
    app = sl.App("a")
    app.stream("in", **STR).process(Flushing, name="flushing")
    with pytest.raises(TopologyError, match=r"with punctuators \(flushing\) do not run on Spark"):
        check_topology(app.topology())
    app = sl.App("a")
    watching = app.stream("in", **STR)
    watching.process(watched, on_timer=silent, timers="wall_clock", name="watch", **STR)
    with pytest.raises(TopologyError, match=r"by the clock \(watch\) do not run on Spark"):
        check_topology(app.topology())


def tagged(record: sl.Record[str, str], context: Any) -> sl.Record[str, str]:
    context.store("tags").put(record.key, "x")
    return record.with_header("tag", b"x")


tagging = sl.App("tagging")
_tags = sl.key_value_store("tags", **STR)
tagging.stream("events", **STR).process(tagged, stores=[_tags], **STR).to("tagged")


def test_headers_that_a_processor_sets_are_refused() -> None:
    laid_out = plan(f"{__name__}:tagging", tagging.topology(), {"events": 1})
    rows = raw_rows(laid_out, text("events", 0, ("a", "v", 1)))
    with pytest.raises(ProcessingError, match="headers are neither read nor written on Spark"):
        list(Runner(laid_out, SMALL).run(TaskId(0, 0), rows, KeptInMemory(), 0))
