"""What failed is tried again: the pauses, their limit, and the errors that end the tries."""

from __future__ import annotations

import pytest

from streamlet.clock import ManualClock
from streamlet.errors import NotFoundError, StreamletError, TimedOutError
from streamlet.retries import Retries


def test_waits_double_up_to_their_bound_and_are_spread_the_same_way_each_run() -> None:
    waits = [Retries(100, 1_000, spread=3), Retries(100, 1_000, spread=3)]
    rows = [[one.next_ms() for _ in range(8)] for one in waits]
    assert rows[0] == rows[1]
    for wait, plain in zip(rows[0], [100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000], strict=True):
        assert plain * 0.8 <= wait <= plain * 1.2
    assert rows[0] != [Retries(100, 1_000, spread=4).next_ms() for _ in range(8)]
    waits[0].reset()
    assert waits[0].next_ms() == rows[0][0]


def test_pauses_are_exact_where_none_is_spread() -> None:
    tries = Retries(100, 1_000)
    assert [tries.next_ms() for _ in range(6)] == [100, 200, 400, 800, 1_000, 1_000]
    assert tries.pause_ms(10_000) == 1_000


def test_the_limit_cuts_the_last_pause_short_and_ends_the_tries() -> None:
    clock = ManualClock()
    tries = Retries(100, 1_000, clock=clock, limit_ms=250)
    for pause_ms in (100, 150):
        assert not tries.over
        assert tries.next_ms() == pause_ms
        clock.advance(pause_ms)
    assert tries.over


class Failing:
    """A step that fails so often, and the clock that its pauses move."""

    def __init__(self, *errors: StreamletError) -> None:
        self.errors = list(errors)
        self.clock = ManualClock()
        self.failed: list[StreamletError] = []

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    def wait(self, pause_s: float) -> None:
        self.clock.advance(int(pause_s * 1000))


LATE = TimedOutError("not yet")


def test_a_step_is_carried_out_until_it_succeeds() -> None:
    step = Failing(LATE, LATE, LATE)
    assert Retries(10, 20).until_done(step, wait=step.wait, failed=step.failed.append) == "done"
    assert step.failed == [LATE] * 3
    assert step.clock.now_ms() == 10 + 20 + 20


def test_an_error_that_does_not_pass_ends_the_tries() -> None:
    step = Failing(LATE, NotFoundError("no such group"), LATE)
    with pytest.raises(NotFoundError):
        Retries(10, 10).until_done(step, wait=step.wait, failed=step.failed.append)
    assert step.errors == [LATE]


def test_the_last_error_stands_when_the_time_is_over() -> None:
    step = Failing(*[LATE] * 9)
    tries = Retries(10, 10, clock=step.clock, limit_ms=25)
    with pytest.raises(TimedOutError):
        tries.until_done(step, wait=step.wait, failed=step.failed.append)
    assert step.clock.now_ms() == 25


def test_a_wait_that_is_ended_ends_the_tries() -> None:
    step = Failing(LATE, LATE)
    with pytest.raises(TimedOutError):
        Retries(10, 10).until_done(step, wait=lambda pause_s: True, failed=step.failed.append)
    assert len(step.failed) == 1
