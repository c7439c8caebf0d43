"""Changing the protocol type of a live group: whether it is time to, and whether all have come.

A broker does not change the type of a group that has members. So the leader orders all of them to
leave and to join as the other type, and they hold their tasks open meanwhile (``handover``). Who
comes first finds an empty group, and must not be given what the others still hold: until all have
come, or it takes too long, everybody is given what it claims and nothing else.

Pure, and without memory: everything is in the members' own words. Rules are numbered as in the
hand-over protocol.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamlet.assignor.values import Plan, Role
from streamlet.group.values import Flip, Subscription

#: The first version of our bytes that can tell of a flip.
FLIP_VERSION = 2
#: When to look again whether a flip that is wanted can be ordered, ms.
LOOK_AGAIN_MS = 1_000
#: How long to leave it after a flip that failed, ms.
PAUSE_MS = 600_000


def wanted(
    said: Mapping[str, Subscription], protocol_type: str, now_ms: int, timeout_ms: int
) -> Flip | None:
    """The flip that every member wants (F1), None if one of them would rather stay."""
    types = {one.wants_type for one in said.values()}
    if len(types) != 1 or protocol_type in types:
        return None
    return Flip(types.pop(), len(said), now_ms + timeout_ms)


def not_before_ms(
    said: Mapping[str, Subscription], plan: Plan, flip: Flip, now_ms: int
) -> int | None:
    """When to look again whether a flip that is wanted can be ordered; None: it can."""
    pause_ms = _pause_until_ms(said, flip)
    if pause_ms > now_ms:
        return pause_ms
    return now_ms + LOOK_AGAIN_MS if _moves(said, plan) else None


def _pause_until_ms(said: Mapping[str, Subscription], flip: Flip) -> int:
    """Until when to leave it after a flip that all tried and came back from; 0 if there was none.

    Somebody could not go, a member with very long batches perhaps, and everybody stood still for
    nothing. Who was merely left behind by the others is fewer than they were: it is to follow.
    """
    tried = [
        one.flip
        for one in said.values()
        if one.flip is not None and one.flip.protocol_type == flip.protocol_type
    ]
    last = max(tried, key=lambda one: one.until_ms, default=None)
    return 0 if last is None or len(said) < last.members else last.until_ms + PAUSE_MS


def _moves(said: Mapping[str, Subscription], plan: Plan) -> bool:
    """Whether a task is on its way from one member to another (F1)."""
    parts = plan.members.values()
    ordered = any(part.release or part.pending or part.revoke for part in parts)
    return ordered or any(
        copy.role is Role.PENDING for one in said.values() for copy in one.copies.values()
    )


def gathering(said: Mapping[str, Subscription], protocol_type: str, now_ms: int) -> Flip | None:
    """The flip into this group that somebody has yet to come over for; None if there is none.

    Who missed the order was left alone in the old group and ordered to go by itself, so the flip
    of the most members counts. A process that was restarted on the way does not know of it: by
    their number all count.
    """
    came = [
        one.flip
        for one in said.values()
        if one.flip is not None and one.flip.protocol_type == protocol_type
    ]
    flip = max(came, key=lambda one: (one.members, one.until_ms), default=None)
    if flip is None or len(said) >= flip.members or now_ms >= flip.until_ms:
        return None
    return flip
