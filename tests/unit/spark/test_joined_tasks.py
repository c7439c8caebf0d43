"""Tasks that join streams in Spark's batches: the results of native tasks."""

from __future__ import annotations

import random

import pytest

import streamlet as sl
from streamlet.spark.plan.plan import plan
from streamlet.spark.state.run import Runner
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId
from tests.unit.spark.test_stages import SMALL, KeptInMemory, raw_rows, text

joined = sl.App("joined")
_left, _right = (joined.stream(name, key=str, value=str) for name in ("left", "right"))
_WITHIN = sl.join_windows("50ms", after="80ms", grace="30ms")
_left.join(_right, lambda a, b: f"{a}|{b}", within=_WITHIN, value=str, store="inner").to("inner")
_left.outer_join(_right, lambda a, b: f"{a}|{b}", within=_WITHIN, value=str, store="o").to("outer")

TOPICS = ("inner", "outer")
HERE = f"{__name__}:joined"


@pytest.mark.parametrize("seed", range(3))
def test_every_result_is_that_of_a_native_task(seed: int) -> None:
    """The workers take turns, so that one of them begins cold."""
    laid_out = plan(HERE, joined.topology(), {"left": 1, "right": 1})
    runners, kept = [Runner(laid_out, SMALL), Runner(laid_out, SMALL)], KeptInMemory()
    dice, now, first = random.Random(seed), 0, {"left": 0, "right": 0}
    native: list[tuple[str, str | None, str]] = []
    found: list[tuple[str, str | None, str]] = []
    with TopologyTestDriver(joined) as driver:
        for batch in range(40):
            side = dice.choice(("left", "right"))
            given = []
            for _ in range(dice.randrange(1, 12)):
                now += dice.choice((0, 1, 5, 30))
                time = max(0, now - dice.choice((0, 0, 0, 20, 150)))
                given.append((dice.choice("abc"), f"{side}{batch}", time))
            for key, value, time in given:
                driver.pipe_input(side, key, value, time)
            native += [
                (topic, one.key, one.value) for topic in TOPICS for one in driver.read_output(topic)
            ]
            rows = raw_rows(laid_out, text(side, first[side], *given))
            first[side] += len(given)
            outputs = [
                output
                for some in runners[batch % 3 == 0].run(TaskId(0, 0), rows, kept, batch)
                for output in some
            ]
            found += [
                (topic, None if key is None else key.decode(), (value or b"").decode())
                for topic in TOPICS
                for output in outputs
                if output.topic == topic
                for key, value in zip(output.keys, output.values, strict=True)
            ]
    assert len(native) > 100
    assert found == native
