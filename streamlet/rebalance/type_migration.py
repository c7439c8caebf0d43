"""Migrates a live group to another protocol type: when it may begin, and when it is over.

A broker does not change the type of a group that has members. So the leader orders all of them to
leave and to join as the other type, and they hold their tasks open meanwhile (``handover``). The
member that comes first finds an empty group, and must not be given what the others still hold:
until all have come, or it takes too long, each member is given what it claims and nothing else.

Pure, and without memory: everything is in the members' own words. Rules are numbered as in the
hand-over protocol.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from streamlet.assignor.values import Plan, Role
from streamlet.rebalance.values import Subscription, TypeMigration

#: The first version of our bytes that carries a migration.
MIGRATION_VERSION = 2
#: When to look again whether a wanted migration can be ordered, ms.
LOOK_AGAIN_MS = 1_000
#: How long to wait after a migration that failed, ms.
PAUSE_MS = 600_000
#: How much later than by this leader's time-out and clock another one's migration may end, ms.
_AHEAD_MS = 600_000


def credible(
    subscriptions: Mapping[str, Subscription], now_ms: int, timeout_ms: int
) -> dict[str, Subscription]:
    """The descriptions without migrations that end later than a leader could have ordered.

    A forged one would have each member keep what it claims for ever, and all would repeat it.
    """
    latest_ms = now_ms + timeout_ms + _AHEAD_MS
    return {
        member: attrs.evolve(one, migration=None) if _ends_after(one, latest_ms) else one
        for member, one in subscriptions.items()
    }


def _ends_after(subscription: Subscription, latest_ms: int) -> bool:
    return subscription.migration is not None and subscription.migration.until_ms > latest_ms


def wanted(
    subscriptions: Mapping[str, Subscription], protocol_type: str, now_ms: int, timeout_ms: int
) -> TypeMigration | None:
    """The migration that every member wants (F1), None if one of them would rather stay."""
    types = {one.wants_type for one in subscriptions.values()}
    if len(types) != 1 or protocol_type in types:
        return None
    return TypeMigration(types.pop(), len(subscriptions), now_ms + timeout_ms)


def not_before_ms(
    subscriptions: Mapping[str, Subscription], plan: Plan, migration: TypeMigration, now_ms: int
) -> int | None:
    """The time to look again whether a wanted migration can be ordered; None: it can."""
    pause_ms = _pause_until_ms(subscriptions, migration)
    if pause_ms > now_ms:
        return pause_ms
    return now_ms + LOOK_AGAIN_MS if _moves(subscriptions, plan) else None


def _pause_until_ms(subscriptions: Mapping[str, Subscription], migration: TypeMigration) -> int:
    """The end of the pause after a migration that all tried and came back from; 0 without one.

    A member could not go, perhaps one with very long batches, and all members stood still for
    nothing. Members that were merely left behind are fewer than they were: they follow.
    """
    tried = [
        one.migration
        for one in subscriptions.values()
        if one.migration is not None and one.migration.protocol_type == migration.protocol_type
    ]
    last = max(tried, key=lambda one: one.until_ms, default=None)
    return 0 if last is None or len(subscriptions) < last.members else last.until_ms + PAUSE_MS


def _moves(subscriptions: Mapping[str, Subscription], plan: Plan) -> bool:
    """True if a task is moving from one member to another (F1)."""
    parts = plan.members.values()
    ordered = any(part.release or part.pending or part.revoke for part in parts)
    return ordered or any(
        copy.role is Role.PENDING for one in subscriptions.values() for copy in one.copies.values()
    )


def gathering(
    subscriptions: Mapping[str, Subscription], protocol_type: str, now_ms: int
) -> TypeMigration | None:
    """The migration into this group that some member has not followed yet; None if there is none.

    A member that missed the order was left alone in the old group and ordered to go by itself, so
    the migration of the most members counts. A process that was restarted on the way does not know
    of it: by their number all count.
    """
    came = [
        one.migration
        for one in subscriptions.values()
        if one.migration is not None and one.migration.protocol_type == protocol_type
    ]
    migration = max(came, key=lambda one: (one.members, one.until_ms), default=None)
    if migration is None or len(subscriptions) >= migration.members or now_ms >= migration.until_ms:
        return None
    return migration
