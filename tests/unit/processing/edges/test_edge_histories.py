"""Each record that was accepted is processed once, in thousands of random histories of an edge."""

from __future__ import annotations

from itertools import groupby

import pytest

from tests.unit.processing.edges.edge_histories import EdgeHistory

#: Histories of one test, and steps of each.
_COUNT, _STEPS = 200, 120


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("first", range(0, 800, _COUNT))
def test_each_accepted_record_is_processed_once(first: int, ordered: bool) -> None:
    for seed in range(first, first + _COUNT):
        history = EdgeHistory(seed, ordered=ordered)
        history.run(_STEPS)
        assert history.differences() == ({}, {}), f"seed {seed}, ordered={ordered}"


@pytest.mark.parametrize("ordered", [False, True])
def test_where_no_delivery_is_late_records_of_a_task_keep_their_order(ordered: bool) -> None:
    for seed in range(_COUNT):
        history = EdgeHistory(seed, ordered=ordered, repeats=False)
        history.run(_STEPS)
        for task, ones in groupby(sorted(history.found, key=lambda one: one[0]), lambda o: o[0]):
            numbers = [number for _, number in ones]
            assert numbers == sorted(numbers), f"seed {seed}, task {task}, ordered={ordered}"
