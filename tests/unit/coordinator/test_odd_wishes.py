"""What is wanted of a membership at an odd moment: a heartbeat now, a rebalance while joining."""

from __future__ import annotations

from streamlet.coordinator.events import (
    Assigned,
    BlockJoin,
    CoordinatorFound,
    HeartbeatWanted,
    LeaveWanted,
    Rejoin,
    Send,
    StartMembership,
)
from streamlet.coordinator.membership import MembershipState
from streamlet.coordinator.messages import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.rebalance.values import NeedMetadata
from tests.unit.coordinator.conftest import join_ok


def test_a_member_asked_for_a_heartbeat_sends_it_at_once_but_never_two(by_hand):
    member = by_hand(heartbeat_interval_ms=1_000).join("a", 4)
    assert not [r for r in member.requests() if isinstance(r, Heartbeat)]
    (send,) = member.tell(HeartbeatWanted())
    assert isinstance(send.request, Heartbeat)
    assert member.tell(HeartbeatWanted()) == []


def test_without_a_membership_there_is_nothing_to_send(by_hand):
    member = by_hand()
    member.start()
    assert member.tell(HeartbeatWanted()) == []


def test_a_rebalance_wanted_while_a_static_successor_joins_still_comes(by_hand):
    """It may be handed what its predecessor was given; nobody else has joined for that."""
    member = by_hand(instance_id="i")
    member.tell(StartMembership())
    member.tell(Rejoin("there are other partitions"))
    member.tell(CoordinatorFound("one"))
    first = member.need
    member.describe()
    member.answer(join_ok("a", 4), JoinGroup)
    commands = member.answer(SyncGroupAnswer(0, b"x"), SyncGroup)
    (again,) = [c for c in commands if isinstance(c, NeedMetadata)]
    assert first is not None
    assert again.nonce > first.nonce


def test_a_wish_that_the_join_under_way_tells_of_is_carried_out_by_it(by_hand):
    """One more join would take the assignment back before the worker has seen it."""
    member = by_hand().join()
    member.beat(27)
    member.describe()
    assert not member.tell(Rejoin("learner ready", descriptions=0))
    member.answer(join_ok("a", 2))
    member.answer(SyncGroupAnswer(0, b"x"))
    assert [type(c) for c in member.commands if not isinstance(c, Send)] == [Assigned]
    assert member.machine.view.state is MembershipState.STABLE


def test_such_a_wish_is_carried_out_after_a_join_that_was_no_rebalance(by_hand):
    """An answer was lost, and the same bytes again were given the same generation again."""
    member = by_hand().join()
    member.beat(27)
    member.describe()
    assert not member.tell(Rejoin("learner ready", descriptions=0))
    member.answer(join_ok("a", 1))
    deliver, need = member.answer(SyncGroupAnswer(0, b"x"))
    assert (deliver.generation, need.nonce) == (1, 1)
    member.rejoin(generation=2)
    assert member.machine.view.state is MembershipState.STABLE, "it is done"


def test_a_wish_that_was_told_of_in_a_join_that_is_over_needs_another(by_hand):
    """Whether that one's leader knew is not known any more."""
    member = by_hand().join()
    (need,) = member.tell(Rejoin("learner ready", descriptions=0))
    assert need.reason == "learner ready"


def test_a_member_that_leaves_waits_for_no_unit_of_stopping_and_committing(by_hand):
    """Its worker stopped amid the unit, and has one second for its farewell if it failed."""
    member = by_hand().join()
    member.tell(BlockJoin(1, 1))
    member.tell(LeaveWanted("failed", quietly=False))
    assert [type(r) for r in member.requests() if not isinstance(r, Heartbeat)] == [LeaveGroup]
