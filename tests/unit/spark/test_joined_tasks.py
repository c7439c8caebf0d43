"""Tasks that join streams in Spark's batches: the results of native tasks."""

from __future__ import annotations

import pytest

import streamlet as sl
from tests.unit.spark.turns import in_turns

joined = sl.App("joined")
_left, _right = (joined.stream(name, key=str, value=str) for name in ("left", "right"))
_WITHIN = sl.join_windows("50ms", after="80ms", grace="30ms")
_left.join(_right, lambda a, b: f"{a}|{b}", within=_WITHIN, value=str, store="inner").to("inner")
_left.outer_join(_right, lambda a, b: f"{a}|{b}", within=_WITHIN, value=str, store="o").to("outer")

TOPICS = ("inner", "outer")
HERE = f"{__name__}:joined"


@pytest.mark.parametrize("seed", range(3))
def test_every_result_is_that_of_a_native_task(seed: int) -> None:
    native, found = in_turns(HERE, joined, TOPICS, (0, 0, 0, 20, 150), seed)
    assert len(native) > 100
    assert found == native
