"""A task of two inputs in Spark's batches, beside the same task run natively."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeAlias

from streamlet.app import App
from streamlet.spark.plan.plan import plan
from streamlet.spark.state.run import Runner
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId
from tests.unit.spark.test_stages import SMALL, KeptInMemory, raw_rows, text

#: The topic, the key and the value of each result, in order.
Results: TypeAlias = list[tuple[str, str | None, str]]


def in_turns(
    reference: str, app: App, topics: Sequence[str], late: Sequence[int], seed: int
) -> tuple[Results, Results]:
    """The results of the native task and of Spark's, of random batches of ``left`` and ``right``.

    The workers take turns, so that one of them begins cold. ``late`` is by how much, ms, records
    may be behind.
    """
    laid_out = plan(reference, app.topology(), {"left": 1, "right": 1})
    runners, kept = [Runner(laid_out, SMALL), Runner(laid_out, SMALL)], KeptInMemory()
    dice, now, first = random.Random(seed), 0, {"left": 0, "right": 0}
    native: Results = []
    found: Results = []
    with TopologyTestDriver(app) as driver:
        for batch in range(40):
            side, given = dice.choice(("left", "right")), []
            for _ in range(dice.randrange(1, 12)):
                now += dice.choice((0, 1, 5, 30))
                time = max(0, now - dice.choice(late))
                given.append((dice.choice("abc"), f"{side}{batch}", time))
            for key, value, time in given:
                driver.pipe_input(side, key, value, time)
            native += [
                (topic, one.key, one.value) for topic in topics for one in driver.read_output(topic)
            ]
            rows = raw_rows(laid_out, text(side, first[side], *given))
            first[side] += len(given)
            ran = runners[batch % 3 == 0].run(TaskId(0, 0), rows, kept, batch)
            outputs = [output for some in ran for output in some]
            found += [
                (topic, None if key is None else key.decode(), (value or b"").decode())
                for topic in topics
                for output in outputs
                if output.topic == topic
                for key, value in zip(output.keys, output.values, strict=True)
            ]
    return native, found
