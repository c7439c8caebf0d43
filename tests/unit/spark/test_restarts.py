"""A query that failed by chance begins again, so many times in a row."""

from __future__ import annotations

import pytest

from streamlet.errors import SparkFailedError
from streamlet.spark.restarts import Restarts

LOST = SparkFailedError("a worker is lost", by_chance=True)


def test_pauses_double_up_to_a_minute_and_then_the_error_stands() -> None:
    restarts = Restarts(8)
    assert [restarts.pause_s(LOST) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    with pytest.raises(SparkFailedError, match="a worker is lost"):
        restarts.pause_s(LOST)


def test_a_batch_that_succeeds_gives_all_restarts_back() -> None:
    restarts = Restarts(1)
    for _ in range(3):
        assert restarts.pause_s(LOST) == 1
        restarts.succeeded()
    assert (restarts.total, restarts.in_a_row) == (3, 0)


def test_an_error_that_would_come_again_is_not_tried_again() -> None:
    wrong = SparkFailedError("a record fails", by_chance=False)
    with pytest.raises(SparkFailedError, match="a record fails"):
        Restarts(5).pause_s(wrong)


def test_none_are_allowed() -> None:
    with pytest.raises(SparkFailedError):
        Restarts(0).pause_s(LOST)
