"""A heartbeat can be asked for before it is due."""

from __future__ import annotations

from streamlet.group.events import HeartbeatWanted
from streamlet.group.messages import Heartbeat


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
