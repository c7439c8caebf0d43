"""Tables whose rows expire in Spark's batches: native results, and not by Spark SQL."""

from __future__ import annotations

import random
from typing import Any

import pytest

import streamlet as sl
from streamlet.processing.policy import ErrorPolicy
from streamlet.spark.plan.folds import Unfit, folds
from streamlet.spark.plan.plan import plan
from streamlet.spark.state.run import Runner
from streamlet.testing import TopologyTestDriver
from streamlet.types import TaskId
from tests.unit.spark.test_stages import SMALL, KeptInMemory, raw_rows, text

TTL = 50

counting = sl.App("counting")
_counts = (
    counting.stream("in", key=str, value=str)
    .group_by_key()
    .count(store=sl.Materialized("counts", ttl=TTL))
)
_counts.to_stream().to("out")

HERE = f"{__name__}:counting"


@pytest.mark.parametrize("seed", range(2))
def test_every_result_is_that_of_a_native_task(seed: int) -> None:
    dice, now = random.Random(seed), 0
    given: list[tuple[str, str, int]] = []
    for _ in range(200):
        now += dice.choice((0, 1, 5, 20, 60))
        given.append((dice.choice("abc"), "v", max(0, now - dice.choice((0, 0, 30)))))
    with TopologyTestDriver(counting) as driver:
        for key, value, time in given:
            driver.pipe_input("in", key, value, time)
        native = [(r.key, r.value, r.timestamp) for r in driver.read_output("out")]
    laid_out, kept = plan(HERE, counting.topology(), {"in": 1}), KeptInMemory()
    runners = [Runner(laid_out, SMALL), Runner(laid_out, SMALL)]
    found: list[tuple[str, int, int]] = []
    for batch, first in enumerate(range(0, len(given), 20)):
        rows = raw_rows(laid_out, text("in", first, *given[first : first + 20]))
        for some in runners[batch % 3 == 0].run(TaskId(0, 0), rows, kept, batch):
            for out in some:
                columns: Any = zip(out.keys, out.values, out.timestamps, strict=True)
                found += [(k.decode(), int.from_bytes(v, "big"), time) for k, v, time in columns]
    assert found == native
    assert 1 in [count for _, count, _ in found[50:]], "rows expire"


def test_spark_sql_does_not_count_rows_that_expire() -> None:
    with pytest.raises(Unfit, match=r"rows of KSTREAM-AGGREGATE-\d+ expire \(ttl=\)"):
        folds(counting.topology(), ErrorPolicy())
