"""Commits of positions in topics that were deleted meanwhile."""

from __future__ import annotations

import pytest

from streamlet.coordinator.events import CommitOutcome


@pytest.mark.parametrize("code", [3, 100])
def test_a_commit_of_a_topic_that_was_deleted_is_accepted_without_it(by_hand, code):
    """Each partition is answered for itself, so the positions of the others are kept."""
    member = by_hand().join()
    member.commit()
    (done,) = member.commit_answer(code)
    assert (done.outcome, done.code, done.whole) == (CommitOutcome.ACCEPTED, code, False)
    assert done.gone, "the partitions are named"
