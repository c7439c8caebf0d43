"""The states of a member, the moves between them, and the two errors for breaking them.

::

            Start                 no commit in flight,              MetadataReady
      NEW ────────▶ PREPARING ───────────────────────▶ DESCRIBING ───────────────▶ JOINING
                      ▲  ▲ ▲    coordinator known          │                       │  │
                      │  │ └──── coordinator lost ─────────┘     we lead: ASSIGNING◀┘  │ follow
                      │  └────── join or sync failed ◀──────────────┬─────────┬───────┤
                      │                                             │         ▼       ▼
                      └── rebalance, own wish, member id lost ── STABLE ◀──── SYNCING

    STABLE ── ordered into a group of another type ──▶ PREPARING ──▶ FLIPPING ──▶ PREPARING
    any of them ── no progress for max.poll.interval ──▶ STALLED ── progress ──▶ PREPARING
    any of them ── LeaveWanted ──▶ LEAVING ──▶ LEFT       any of them ── fatal answer ──▶ FAILED

Whether the coordinator is known is a machine of its own (``link``); both are driven to a fixed
point by each event.
"""

from __future__ import annotations

import enum


class State(enum.StrEnum):
    """Where a member stands."""

    NEW = "new"
    PREPARING = "preparing"  # wants to join; waits for a commit, the coordinator or a back-off
    DESCRIBING = "describing"  # waits for the metadata to join with
    JOINING = "joining"  # JoinGroup sent, perhaps parked until everybody has joined
    ASSIGNING = "assigning"  # we lead and the assignor runs
    SYNCING = "syncing"  # SyncGroup sent
    STABLE = "stable"  # has an assignment of the newest generation it knows of
    FLIPPING = "flipping"  # LeaveGroup sent, to join a group of another type with what we hold
    STALLED = "stalled"  # left because the worker makes no progress
    LEAVING = "leaving"
    LEFT = "left"
    FAILED = "failed"


#: Left or failed: nothing happens any more.
ENDED = frozenset({State.LEFT, State.FAILED})

#: A JoinGroup is out, or answered and its SyncGroup is not: the commit gate is shut.
BETWEEN = frozenset({State.DESCRIBING, State.JOINING, State.ASSIGNING, State.SYNCING})

#: Takes part in the life of the group, or is about to.
LIVE = BETWEEN | {State.PREPARING, State.STABLE, State.FLIPPING}

_FROM_ANYWHERE = frozenset({State.STALLED, State.LEAVING, State.FAILED})

#: Every legal move.
MOVES: dict[State, frozenset[State]] = {
    State.NEW: frozenset({State.PREPARING}),
    State.PREPARING: _FROM_ANYWHERE | {State.DESCRIBING, State.FLIPPING},
    State.DESCRIBING: _FROM_ANYWHERE | {State.JOINING, State.PREPARING},
    State.JOINING: _FROM_ANYWHERE
    | {State.JOINING, State.ASSIGNING, State.SYNCING, State.PREPARING},
    State.ASSIGNING: _FROM_ANYWHERE | {State.SYNCING, State.PREPARING},
    State.SYNCING: _FROM_ANYWHERE | {State.STABLE, State.PREPARING},
    State.STABLE: _FROM_ANYWHERE | {State.PREPARING},
    State.FLIPPING: _FROM_ANYWHERE | {State.PREPARING},
    State.STALLED: frozenset({State.PREPARING, State.LEAVING, State.FAILED}),
    State.LEAVING: frozenset({State.LEFT, State.FAILED}),
    State.LEFT: frozenset(),
    State.FAILED: frozenset(),
}


class IllegalEventError(AssertionError):
    """The shell did what it must not; the machine is as it was. A bug of ours."""


class IllegalMoveError(AssertionError):
    """The machine wanted a move that the table does not have. A bug of ours."""
