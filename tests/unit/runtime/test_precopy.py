"""How often a commit goes before tasks are stopped."""

from __future__ import annotations

import pytest

from streamlet.runtime.precopy import (
    LEAST_MS,
    LITTLE_AT_FIRST,
    LITTLE_ENTRIES,
    MOST_MS,
    MOST_ROUNDS,
    SHARE_OF_TIMEOUT,
    Precopy,
)

TIMEOUT_MS = 10_000


def begun(*commits: int) -> Precopy:
    """After these commits, of so many entries each, at time 0."""
    rounds = Precopy(TIMEOUT_MS)
    rounds.begin(0)
    for entries in commits:
        rounds.committing()
        rounds.committed(entries, 0)
    return rounds


def test_the_first_commit_is_due_at_once() -> None:
    rounds = begun()
    assert (rounds.due(0), rounds.over) == (True, False)
    rounds.committing()
    assert (rounds.due(0), rounds.over) == (False, True)


@pytest.mark.parametrize(
    ("commits", "over"),
    [
        ([LITTLE_AT_FIRST], True),
        ([LITTLE_AT_FIRST + 1], False),
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
    rounds.committing()
    rounds.committed(10_000, 0)
    assert rounds.over


def test_no_commit_is_begun_that_the_new_owner_may_not_wait_for() -> None:
    """It would give up and be given the same order again, for ever, with a short time-out."""
    limit_ms = int(TIMEOUT_MS * SHARE_OF_TIMEOUT)
    rounds = begun()
    rounds.committing()
    rounds.committed(1_000_000, limit_ms - MOST_MS - 1)
    assert not rounds.over
    rounds.committing()
    rounds.committed(1_000_000, limit_ms - MOST_MS)
    assert rounds.over


def test_rounds_that_were_ended_do_not_go_on() -> None:
    rounds = begun()
    rounds.end()
    assert (rounds.due(0), rounds.over) == (False, True)
    rounds.committing()
    rounds.committed(1_000_000, 0)
    assert rounds.over


def test_each_order_has_its_own_rounds() -> None:
    rounds = begun(*[1_000_000] * MOST_ROUNDS)
    rounds.begin(0)
    rounds.committing()
    rounds.committed(1_000_000, 0)
    assert not rounds.over
