"""Tasks with versioned tables in Spark's batches: the results of native tasks."""

from __future__ import annotations

import random

import streamlet as sl
from streamlet.spark.plan.plan import plan
from streamlet.spark.state.run import Runner
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId
from tests.unit.spark.test_stages import SMALL, KeptInMemory, raw_rows, text

joined = sl.App("versioned")
_left = joined.stream("left", key=str, value=str)
_right = joined.table("right", key=str, value=str, store=sl.Materialized("t", history="100ms"))
_left.left_join(_right, lambda a, b: f"{a}|{b}", value=str).to("at-once")
_left.left_join(_right, lambda a, b: f"{a}|{b}", grace="40ms", value=str).to("later")

TOPICS = ("at-once", "later")


def test_every_result_is_that_of_a_native_task() -> None:
    """The workers take turns, so that one of them begins cold."""
    laid_out = plan(f"{__name__}:joined", joined.topology(), {"left": 1, "right": 1})
    runners, kept = [Runner(laid_out, SMALL), Runner(laid_out, SMALL)], KeptInMemory()
    dice, now, first = random.Random(1), 0, {"left": 0, "right": 0}
    native: list[tuple[str, str]] = []
    found: list[tuple[str, str]] = []
    with TopologyTestDriver(joined) as driver:
        for batch in range(40):
            side, given = dice.choice(("left", "right")), []
            for _ in range(dice.randrange(1, 12)):
                now += dice.choice((0, 1, 5, 30))
                time = max(0, now - dice.choice((0, 0, 20, 150)))
                given.append((dice.choice("abc"), f"{side}{batch}", time))
            for key, value, time in given:
                driver.pipe_input(side, key, value, time)
            native += [(topic, r.value) for topic in TOPICS for r in driver.read_output(topic)]
            rows = raw_rows(laid_out, text(side, first[side], *given))
            first[side] += len(given)
            outputs = [
                output
                for some in runners[batch % 3 == 0].run(TaskId(0, 0), rows, kept, batch)
                for output in some
            ]
            found += [
                (topic, (value or b"").decode())
                for topic in TOPICS
                for output in outputs
                if output.topic == topic
                for value in output.values
            ]
    assert len(native) > 100
    assert found == native
