"""How long a commit waits, and how long it may be refused."""

from __future__ import annotations

import logging

import pytest

from streamlet.clock import ManualClock
from streamlet.errors import BrokerError, UnreachableError
from streamlet.tasks.commit_loop import AGAIN_MS, PostponedCommit

PATIENCE_MS = 5_000
AWAY, REFUSED = UnreachableError("nobody answers"), BrokerError("no such changelog")


@pytest.fixture
def clock() -> ManualClock:
    """It stands still."""
    return ManualClock()


@pytest.fixture
def postponed(clock: ManualClock) -> PostponedCommit:
    """Nothing was postponed yet."""
    return PostponedCommit(clock, PATIENCE_MS)


def test_a_postponed_commit_waits_a_little(clock: ManualClock, postponed: PostponedCommit) -> None:
    assert not postponed.waits
    postponed.take(AWAY)
    assert postponed.waits
    clock.advance(AGAIN_MS)
    assert not postponed.waits


def test_a_broker_that_is_away_is_awaited_for_ever(
    clock: ManualClock, postponed: PostponedCommit
) -> None:
    for _ in range(3):
        postponed.take(AWAY)
        clock.advance(2 * PATIENCE_MS)


def test_a_refusal_that_lasts_is_the_end(clock: ManualClock, postponed: PostponedCommit) -> None:
    postponed.take(REFUSED)
    clock.advance(PATIENCE_MS - 1)
    postponed.take(REFUSED)
    clock.advance(1)
    with pytest.raises(BrokerError, match="no such changelog"):
        postponed.take(REFUSED)


@pytest.mark.parametrize("between", ["taken", "away"])
def test_patience_begins_anew_when_something_else_came_between(
    clock: ManualClock, postponed: PostponedCommit, between: str
) -> None:
    postponed.take(REFUSED)
    clock.advance(PATIENCE_MS)
    if between == "taken":
        postponed.over()
    else:
        postponed.take(AWAY)
    postponed.take(REFUSED)


def test_the_same_reason_is_told_once(
    postponed: PostponedCommit, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for error in (AWAY, AWAY, REFUSED, AWAY):
            postponed.take(error)
        postponed.over()
        postponed.take(AWAY)
    told = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert told == [str(error) for error in (AWAY, REFUSED, AWAY, AWAY)]
