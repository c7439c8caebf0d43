"""Calls of async functions in Spark's batches: native results, batch by batch."""

from __future__ import annotations

import asyncio

import streamlet as sl
from streamlet.kafka.ports import PartitionBatch
from streamlet.spark.plan.plan import plan
from streamlet.spark.rows.tasks import _StatelessTasks
from streamlet.spark.state.run import Runner
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId
from tests.unit.spark.test_stages import SMALL, KeptInMemory, raw_rows, text

HERE = __name__


async def passing(value: str) -> str:
    """The value in capitals; the first of several calls ends last."""
    for _ in range(9 - len(value)):
        await asyncio.sleep(0)
    if value == "bad":
        raise ConnectionError(value)
    return value.upper()


stateless = sl.App("stateless", on_error="skip")
stateless.stream("in", key=str, value=str).map_values_async(passing, order="partition").to("out")

stateful = sl.App("stateful", on_error="skip")
_called = stateful.stream("in", key=str, value=str).map_values_async(passing, concurrency=3)
_joined = _called.group_by_key().reduce(lambda one, two: one + two, store="joined")
_joined.to_stream().to("out")

RECORDS = [("a", "x"), ("b", "yyy"), ("a", "bad"), ("a", "zz"), ("b", "y"), ("c", "xxxx")]


def native(app: sl.App) -> list[tuple[str, str]]:
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", RECORDS)
        return [(record.key, record.value) for record in driver.read_output("out")]


def test_a_stateless_task_gives_all_results_of_a_batch_in_order() -> None:
    tasks = _StatelessTasks(plan(f"{HERE}:stateless", stateless.topology(), {"in": 1}))
    keys, values = zip(*RECORDS, strict=True)
    columns = [[text.encode() for text in column] for column in (keys, values)]
    outputs = tasks.process(
        PartitionBatch("in", 0, range(len(RECORDS)), *columns, [0] * len(RECORDS))
    )
    found = [
        ((key or b"").decode(), (value or b"").decode())
        for out in outputs
        for key, value in zip(out.keys, out.values, strict=True)
    ]
    assert found == native(stateless)
    assert [value for _, value in found] == ["X", "YYY", "ZZ", "Y", "XXXX"]


def test_state_behind_calls_is_that_of_a_native_task() -> None:
    laid_out, kept = plan(f"{HERE}:stateful", stateful.topology(), {"in": 1}), KeptInMemory()
    found: list[tuple[str, str]] = []
    for batch, first in enumerate(range(0, len(RECORDS), 2)):
        some = [(key, value, first) for key, value in RECORDS[first : first + 2]]
        rows = raw_rows(laid_out, text("in", first, *some))
        for outputs in Runner(laid_out, SMALL).run(TaskId(0, 0), rows, kept, batch):
            for out in outputs:
                pairs = zip(out.keys, out.values, strict=True)
                found += [((key or b"").decode(), (value or b"").decode()) for key, value in pairs]
    assert found == native(stateful)
    assert dict(found) == {"a": "XZZ", "b": "YYYY", "c": "XXXX"}
