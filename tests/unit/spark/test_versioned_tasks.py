"""Tasks with versioned tables in Spark's batches: the results of native tasks."""

from __future__ import annotations

import streamlet as sl
from tests.unit.spark.turns import in_turns

joined = sl.App("versioned")
_left = joined.stream("left", key=str, value=str)
_right = joined.table("right", key=str, value=str, store=sl.Materialized("t", history="100ms"))
_left.left_join(_right, lambda a, b: f"{a}|{b}", value=str).to("at-once")
_left.left_join(_right, lambda a, b: f"{a}|{b}", grace="40ms", value=str).to("later")

TOPICS = ("at-once", "later")


def test_every_result_is_that_of_a_native_task() -> None:
    native, found = in_turns(f"{__name__}:joined", joined, TOPICS, (0, 0, 20, 150), 1)
    assert len(native) > 100
    assert found == native
