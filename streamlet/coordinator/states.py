"""The states of a member, the moves between them, and the two errors for breaking them.

::

            Start                 no commit in flight,              MetadataReady
      NEW ────────▶ PREPARING ───────────────────────▶ DESCRIBING ───────────────▶ JOINING
                      ▲  ▲ ▲    coordinator known          │                       │  │
                      │  │ └──── coordinator lost ─────────┘     we lead: ASSIGNING◀┘  │ follow
                      │  └────── join or sync failed ◀──────────────┬─────────┬───────┤
                      │                                             │         ▼       ▼
                      └── rejoin, rebalance, member id lost ──── STABLE ◀──── SYNCING

    STABLE ── ordered into a group of another type ──▶ PREPARING ──▶ MIGRATING ──▶ PREPARING
    any of them ── no progress for max.poll.interval ──▶ STALLED ── progress ──▶ PREPARING
    any of them ── LeaveWanted ──▶ LEAVING ──▶ LEFT       any of them ── fatal answer ──▶ FAILED

Whether the coordinator is known is a machine of its own (``link``); both are driven to a fixed
point by each event.
"""

from __future__ import annotations

import enum

import attrs


class MembershipState(enum.StrEnum):
    """The states of a member."""

    NEW = "new"
    PREPARING = "preparing"  # wants to join; waits for a commit, the coordinator or a back-off
    DESCRIBING = "describing"  # waits for the metadata to join with
    JOINING = "joining"  # JoinGroup sent, perhaps parked until all members have joined
    ASSIGNING = "assigning"  # we lead and the assignor runs
    SYNCING = "syncing"  # SyncGroup sent
    STABLE = "stable"  # has an assignment of the newest generation it knows of
    MIGRATING = "migrating"  # LeaveGroup sent, to join a group of another type with what we hold
    STALLED = "stalled"  # left because the worker makes no progress
    LEAVING = "leaving"
    LEFT = "left"
    FAILED = "failed"


#: Left or failed: nothing happens any more.
ENDED = frozenset({MembershipState.LEFT, MembershipState.FAILED})

#: A JoinGroup is out, or answered and its SyncGroup is not: the commit gate is shut.
BETWEEN = frozenset(
    {
        MembershipState.DESCRIBING,
        MembershipState.JOINING,
        MembershipState.ASSIGNING,
        MembershipState.SYNCING,
    }
)

#: Takes part in the life of the group, or is about to.
LIVE = BETWEEN | {MembershipState.PREPARING, MembershipState.STABLE, MembershipState.MIGRATING}

_FROM_ANYWHERE = frozenset(
    {MembershipState.STALLED, MembershipState.LEAVING, MembershipState.FAILED}
)

#: Every legal move.
MOVES: dict[MembershipState, frozenset[MembershipState]] = {
    MembershipState.NEW: frozenset({MembershipState.PREPARING}),
    MembershipState.PREPARING: _FROM_ANYWHERE
    | {MembershipState.DESCRIBING, MembershipState.MIGRATING},
    MembershipState.DESCRIBING: _FROM_ANYWHERE
    | {MembershipState.JOINING, MembershipState.PREPARING},
    MembershipState.JOINING: _FROM_ANYWHERE
    | {
        MembershipState.JOINING,
        MembershipState.ASSIGNING,
        MembershipState.SYNCING,
        MembershipState.PREPARING,
    },
    MembershipState.ASSIGNING: _FROM_ANYWHERE
    | {MembershipState.SYNCING, MembershipState.PREPARING},
    MembershipState.SYNCING: _FROM_ANYWHERE | {MembershipState.STABLE, MembershipState.PREPARING},
    MembershipState.STABLE: _FROM_ANYWHERE | {MembershipState.PREPARING},
    MembershipState.MIGRATING: _FROM_ANYWHERE | {MembershipState.PREPARING},
    MembershipState.STALLED: frozenset(
        {MembershipState.PREPARING, MembershipState.LEAVING, MembershipState.FAILED}
    ),
    MembershipState.LEAVING: frozenset({MembershipState.LEFT, MembershipState.FAILED}),
    MembershipState.LEFT: frozenset(),
    MembershipState.FAILED: frozenset(),
}


@attrs.frozen
class MembershipView:
    """An immutable view of a membership after its last event.

    ``generation`` is that of the last assignment delivered under this id, -1 for none;
    ``last_heartbeat_ms`` when the last heartbeat known to have arrived was sent;
    ``commits_from_ms`` from when on a commit gets through, None: not as things are. ``linked``: the
    coordinator is known and answers, as far as we know. ``last_problem`` is for people.
    """

    state: MembershipState = MembershipState.NEW
    member_id: str = ""
    generation: int = -1
    last_heartbeat_ms: int = 0
    last_problem: str = ""
    commits_from_ms: int | None = None
    linked: bool = False


class IllegalEventError(AssertionError):
    """The shell did what it must not; the machine is as it was. A bug of ours."""


class IllegalMoveError(AssertionError):
    """The machine wanted a move that the table does not have. A bug of ours."""
