"""Joins wait for a commit that is prepared, where nothing is processed before its answer."""

from __future__ import annotations

from streamlet.coordinator.events import (
    COMMIT_TOKEN,
    CommitDone,
    CommitOutcome,
    CommitSoon,
    UnblockJoin,
)
from streamlet.coordinator.membership import MembershipState
from streamlet.rebalance.values import NeedMetadata


def test_a_join_waits_for_a_commit_that_is_prepared(by_hand):
    """Its shares were taken: nothing more may be processed, so it must not wait for others."""
    member = by_hand().join("a", 4)
    member.tell(CommitSoon())
    assert not member.beat(27)
    (send,) = member.commit(hold=COMMIT_TOKEN)
    assert send.request.generation == 4
    member.commit_answer(0)
    assert member.machine.view.state is MembershipState.PREPARING
    (need,) = member.tell(UnblockJoin(COMMIT_TOKEN))
    assert isinstance(need, NeedMetadata)


def test_a_commit_is_turned_away_if_a_join_was_due_before_it_was_prepared(by_hand):
    member = by_hand().join("a", 4)
    member.beat(27)
    member.tell(CommitSoon())
    assert member.commit(hold=COMMIT_TOKEN) == [CommitDone(1, CommitOutcome.GATED)]
