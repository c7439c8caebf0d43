"""The pauses before a worker that failed starts again."""

from __future__ import annotations

from streamlet.hosting.restarts import RestartPolicy

POLICY = RestartPolicy()
QUICKLY = 1_000


def test_the_first_restart_follows_at_once_and_then_the_pauses_double() -> None:
    pauses = [POLICY.pause_ms(failures, QUICKLY, passing=False) for failures in range(1, 6)]
    assert pauses == [0, 500, 1_000, 2_000, 4_000]
    assert POLICY.pause_ms(20, QUICKLY, passing=False) == POLICY.longest_ms


def test_a_worker_that_ran_for_a_while_starts_again_at_once() -> None:
    assert POLICY.pause_ms(5, POLICY.calm_ms - 1, passing=False) > 0
    assert POLICY.pause_ms(5, POLICY.calm_ms, passing=False) == 0


def test_where_the_broker_is_away_no_restart_follows_at_once() -> None:
    assert POLICY.pause_ms(0, POLICY.calm_ms, passing=True) == POLICY.first_ms


def test_old_failures_do_not_count() -> None:
    now = POLICY.within_ms + 5
    assert POLICY.recent([4, 5, 6, now], now) == [6, now]
