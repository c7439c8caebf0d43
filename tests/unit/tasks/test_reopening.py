"""A running task that is closed and brought up again here, as the hand-over rules see it."""

from __future__ import annotations

from streamlet.coordinator.events import BlockJoin, UnblockJoin
from streamlet.tasks.handover_values import ClaimStage
from tests.unit.tasks.test_handover_rules import NOTHING, T, U, member, owner


def test_it_claims_again_before_it_can_be_given_up() -> None:
    by = owner(T, U)
    by.rules.reopening(T, by.now_ms)
    by.assigned(active=frozenset({U}), release={T: "other"})
    assert by.rules.claims[T].stage is ClaimStage.OPENING
    by.rules.running(T, by.now_ms)
    assert not any(isinstance(one, BlockJoin) for one in by.take()), "not before its claim (M4)"
    by.rules.claimed(T, by.now_ms)
    assert [one.tasks for one in by.take() if isinstance(one, BlockJoin)] == [(T,)]


def test_a_hold_that_was_asked_for_is_ended_unused() -> None:
    by = owner(T, U)
    (asked,) = (
        one
        for one in by.assigned(active=frozenset({U}), release={T: "other"})
        if isinstance(one, BlockJoin)
    )
    by.rules.reopening(T, by.now_ms)
    by.rules.hold(asked.token, True, by.now_ms)
    assert by.take() == [UnblockJoin(asked.token)]


def test_a_task_that_does_not_run_here_is_none_of_its_business() -> None:
    by = member()
    by.assigned(active=frozenset({T}))
    by.rules.reopening(T, by.now_ms)
    by.rules.reopening(U, by.now_ms)
    assert by.rules.claims[T].stage is ClaimStage.OPENING
    assert by.assigned(active=NOTHING) != [], "it is closed as ever"
