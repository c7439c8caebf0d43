"""How often a commit goes before tasks are stopped."""

from __future__ import annotations

import pytest

from streamlet.assignor.path import RELEASES_MS
from streamlet.tasks.commit_loop import (
    LEAST_MS,
    LITTLE_ENTRIES,
    MOST_MS,
    MOST_ROUNDS,
    SHARE_OF_TIMEOUT,
    Precopy,
)
from streamlet.tasks.task_events import HandoverRules
from streamlet.types import TaskId

TIMEOUT_MS = 10_000
A, B, C = (TaskId(0, partition) for partition in (0, 1, 2))


def begun(*commits: int) -> Precopy:
    """After these commits, of so many entries each, at time 0."""
    rounds = Precopy(TIMEOUT_MS)
    rounds.begin(0)
    for entries in commits:
        rounds.committing(0)
        rounds.committed(entries, 0)
    return rounds


def test_whoever_waits_for_its_turn_goes_on_as_usual_until_then() -> None:
    rounds = Precopy(TIMEOUT_MS)
    rounds.begin(1_000, 300)
    assert (rounds.due(1_299), rounds.over) == (False, False)
    rounds.committing(1_200)
    rounds.committed(0, 1_250)
    assert not rounds.over, "a usual commit is not what the turn was waited for"
    assert rounds.due(1_300)
    rounds.committing(1_300)
    rounds.committed(0, 1_310)
    assert rounds.over


def test_a_turn_leaves_time_for_the_rounds() -> None:
    rounds = Precopy(400)
    rounds.begin(0, RELEASES_MS)
    assert (rounds.due(49), rounds.due(50)) == (False, True)


def test_whoever_leaves_asks_for_a_rebalance_when_all_turns_are_over() -> None:
    assert HandoverRules().confirm_delay_ms > RELEASES_MS + 2 * LEAST_MS


def test_a_turn_comes_so_long_after_the_plan() -> None:
    turns = Precopy(TIMEOUT_MS)
    turns.ordered({A, B, C}, 450, 1_000)
    assert turns.wait_ms({C, B}, 1_000) == 450
    assert turns.wait_ms({C, B}, 1_100) == 350
    assert turns.wait_ms({C, B}, 9_000) == 0


def test_tasks_that_nobody_takes_over_wait_for_no_turn() -> None:
    turns = Precopy(TIMEOUT_MS)
    turns.ordered({C}, 450, 0)
    assert turns.wait_ms({B}, 0) == 0
    assert turns.wait_ms({B, C}, 0) == 450


def test_plans_that_follow_each_other_do_not_put_a_turn_off() -> None:
    turns = Precopy(TIMEOUT_MS)
    for now_ms in (0, 100, 200):
        turns.ordered({B, C}, 450, now_ms)
    assert turns.wait_ms({B}, 200) == 250


def test_a_task_that_is_not_to_go_any_more_has_no_turn() -> None:
    turns = Precopy(TIMEOUT_MS)
    turns.ordered({B}, 450, 0)
    turns.ordered({C}, 450, 100)
    assert turns.wait_ms({B}, 100) == 0
    turns.ordered({B}, 450, 200)
    assert turns.wait_ms({B}, 200) == 450


def test_the_first_commit_is_due_at_once() -> None:
    rounds = begun()
    assert (rounds.due(0), rounds.over) == (True, False)
    rounds.committing(0)
    assert (rounds.due(0), rounds.over) == (False, True)


@pytest.mark.parametrize(
    ("commits", "over"),
    [
        ([0], True),
        ([1], False),
        ([5_000, LITTLE_ENTRIES], True),
        ([5_000, LITTLE_ENTRIES + 1], False),
    ],
)
def test_a_commit_of_little_is_the_last(commits: list[int], over: bool) -> None:
    assert begun(*commits).over is over


@pytest.mark.parametrize(
    ("entries", "pause_ms"), [(101, LEAST_MS), (4_000, 100), (10_000_000, MOST_MS)]
)
def test_after_much_the_copy_is_given_time_and_another_follows(entries: int, pause_ms: int) -> None:
    rounds = begun(entries)
    assert (rounds.due(pause_ms - 1), rounds.due(pause_ms)) == (False, True)


def test_the_rounds_are_bounded_however_much_is_written() -> None:
    assert not begun(*[1_000_000] * (MOST_ROUNDS - 1)).over
    assert begun(*[1_000_000] * MOST_ROUNDS).over


def test_a_commit_that_began_before_the_order_is_none_of_its_rounds() -> None:
    rounds = begun()
    rounds.committed(10_000, 100)
    assert rounds.due(100)


def test_a_commit_when_nothing_is_to_be_stopped_begins_nothing() -> None:
    rounds = Precopy(TIMEOUT_MS)
    rounds.committing(0)
    rounds.committed(10_000, 0)
    assert rounds.over


def test_no_commit_is_begun_that_the_new_owner_may_not_wait_for() -> None:
    """It would give up and be given the same order again, for ever, with a short time-out."""
    limit_ms = int(TIMEOUT_MS * SHARE_OF_TIMEOUT)
    rounds = begun()
    rounds.committing(0)
    rounds.committed(1_000_000, limit_ms - MOST_MS - 1)
    assert not rounds.over
    rounds.committing(0)
    rounds.committed(1_000_000, limit_ms - MOST_MS)
    assert rounds.over


def test_rounds_that_were_ended_do_not_go_on() -> None:
    rounds = begun()
    rounds.end()
    assert (rounds.due(0), rounds.over) == (False, True)
    rounds.committing(0)
    rounds.committed(1_000_000, 0)
    assert rounds.over


def test_each_order_has_its_own_rounds() -> None:
    rounds = begun(*[1_000_000] * MOST_ROUNDS)
    rounds.begin(0)
    rounds.committing(0)
    rounds.committed(1_000_000, 0)
    assert not rounds.over
