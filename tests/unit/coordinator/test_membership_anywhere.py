"""What may happen to a member whatever it is doing: it leaves, stalls, is refused for good."""

from __future__ import annotations

import attrs
import pytest

from streamlet.coordinator.events import (
    CoordinatorNotFound,
    FailureKind,
    FindCoordinator,
    JoinSoon,
    LeaveWanted,
    Lost,
    MigrationOrdered,
    ProgressMade,
    Rejoin,
    UnblockJoin,
)
from streamlet.coordinator.messages import Heartbeat, HeartbeatAnswer, JoinGroup, JoinGroupAnswer
from streamlet.coordinator.states import LIVE, MembershipState


def joined(member_id, generation, leader="boss"):
    return JoinGroupAnswer(0, generation, "stream", "p", leader, member_id, False, ())


def reach(by_hand, state):
    """A member that has been in the group and is now in a state of its next join."""
    if state is MembershipState.MIGRATING:
        member = by_hand(protocol_types=("stream", "consumer"))
        member.start()
        member.describe()
        member.answer(JoinGroupAnswer(23))
        member.rejoin("a", 4)
        (due,) = (c for c in member.tell(MigrationOrdered("stream", 4)) if isinstance(c, JoinSoon))
        member.tell(UnblockJoin(due.token))
        return member
    member = by_hand().join()
    if state is MembershipState.PREPARING:
        member.commit()  # which the join waits for
    if state is not MembershipState.STABLE:
        member.tell(Rejoin("changed"))
    if state not in (MembershipState.STABLE, MembershipState.PREPARING, MembershipState.DESCRIBING):
        member.describe()
    if state is MembershipState.ASSIGNING:
        member.answer(joined("a", 2, leader="a"), JoinGroup)
    if state is MembershipState.SYNCING:
        member.answer(joined("a", 2), JoinGroup)
    return member


ANYWHERE = [state for state in MembershipState if state in LIVE]


@pytest.mark.parametrize("state", ANYWHERE)
def test_a_member_may_leave_whatever_it_is_doing(by_hand, state):
    member = reach(by_hand, state)
    assert member.machine.view.state is state
    member.tell(LeaveWanted("enough"))
    assert member.machine.view.state is MembershipState.LEAVING


@pytest.mark.parametrize("state", ANYWHERE)
def test_a_worker_may_stand_still_whatever_its_member_is_doing(by_hand, state):
    member = reach(by_hand, state)
    member.machine._member.config = attrs.evolve(member.config, max_poll_interval_ms=1)
    commands = member.wait(1)
    assert member.machine.view.state is MembershipState.STALLED
    assert any(isinstance(c, Lost) for c in commands) or state is MembershipState.MIGRATING
    member.tell(ProgressMade())
    assert member.machine.view.state in (MembershipState.PREPARING, MembershipState.DESCRIBING)


@pytest.mark.parametrize(
    "state", [state for state in ANYWHERE if state is not MembershipState.MIGRATING]
)
def test_a_member_may_be_refused_for_good_whatever_it_is_doing(by_hand, state):
    member = reach(by_hand, state)
    member.wait(member.config.heartbeat_interval_ms)
    member.answer(HeartbeatAnswer(30), Heartbeat)
    assert member.machine.view.state is MembershipState.FAILED


def cut_off(member):
    """The connection breaks and the coordinator is being looked for."""
    member.fail(FailureKind.DISCONNECTED)
    member.until(FindCoordinator)
    return member


def stall(member):
    member.machine._member.config = attrs.evolve(member.config, max_poll_interval_ms=1)
    member.wait(1)
    assert member.machine.view.state is MembershipState.STALLED
    return member


@pytest.mark.parametrize("state", [MembershipState.STABLE, MembershipState.MIGRATING])
def test_a_look_up_may_be_refused_for_good_in_between(by_hand, state):
    member = reach(by_hand, state)
    if state is MembershipState.STABLE:
        member.wait(member.config.heartbeat_interval_ms)
    cut_off(member)
    if state is MembershipState.STABLE:
        stall(member)
    member.tell(CoordinatorNotFound(30))
    assert member.machine.view.state is MembershipState.FAILED


def test_a_stalled_member_may_leave(by_hand):
    member = stall(reach(by_hand, MembershipState.STABLE))
    member.tell(LeaveWanted("enough"))
    assert member.machine.view.state is MembershipState.LEFT


def test_a_member_may_be_fenced_while_it_waits_to_leave(by_hand):
    member = reach(by_hand, MembershipState.STABLE)
    member.commit()
    member.tell(LeaveWanted("enough"))
    assert member.machine.view.state is MembershipState.LEAVING
    member.commit_answer(82)
    assert member.machine.view.state is MembershipState.FAILED
