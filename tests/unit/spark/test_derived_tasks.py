"""Tasks with derived tables that have stores, in Spark's batches: the results of native tasks."""

from __future__ import annotations

import random

import pytest

import streamlet as sl
from streamlet.spark.plan.plan import plan
from streamlet.spark.state.run import Runner
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId
from tests.unit.spark.test_stages import SMALL, KeptInMemory, raw_rows, text

derived = sl.App("derived")
_rows = derived.table("rows", key=str, value=str, store="rows")
_kept = _rows.filter(lambda k, v: v < "5", store="kept")
_long = _kept.map_values(lambda v: None if v.endswith("2") else f"{v}!", value=str, store="long")
_shown = _long.transform_values(lambda k, v: f"{k} {v}", value=str, store="shown")
_kept.to_stream().to("kept")
_shown.to_stream(lambda k, v: v, key=str).to("shown")

#: The same of a table that has no store, since nothing reads it.
unread = sl.App("unread")
_passed = unread.table("rows", key=str, value=str)
_passed.filter(lambda k, v: v < "5").to_stream().to("kept")
_passed.map_values(lambda v: None if v.endswith("2") else f"{v}!", value=str).to_stream().to(
    "shown"
)

TOPICS = ("kept", "shown")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["derived", "unread"])
def test_every_row_is_that_of_a_native_task(name: str, seed: int) -> None:
    """The workers take turns, so that one of them begins cold."""
    app = globals()[name]
    laid_out = plan(f"{__name__}:{name}", app.topology(), {"rows": 1})
    runners, kept = [Runner(laid_out, SMALL), Runner(laid_out, SMALL)], KeptInMemory()
    dice, first = random.Random(seed), 0
    native: list[tuple[str, bytes, bytes | None]] = []
    found: list[tuple[str, bytes | None, bytes | None]] = []
    with TopologyTestDriver(app) as driver:
        for batch in range(30):
            given = [
                (dice.choice("abc"), dice.choice([*"012345678", None]), batch)
                for _ in range(dice.randrange(1, 8))
            ]
            for key, value, time in given:
                driver.pipe_input("rows", key, value, time)
            native += [
                (topic, one.key, one.value)
                for topic in TOPICS
                for one in driver.read_output(topic, key=bytes, value=bytes)
            ]
            rows = raw_rows(laid_out, text("rows", first, *given))
            first += len(given)
            outputs = [
                output
                for some in runners[batch % 3 == 0].run(TaskId(0, 0), rows, kept, batch)
                for output in some
            ]
            found += [
                (topic, key, value)
                for topic in TOPICS
                for output in outputs
                if output.topic == topic
                for key, value in zip(output.keys, output.values, strict=True)
            ]
    assert len(native) > 50
    assert found == native
