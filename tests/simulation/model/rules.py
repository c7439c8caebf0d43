"""The rules of the protocol as switches, and the faults a search may spend."""

from __future__ import annotations

from typing import Final

import attrs


@attrs.frozen
class Rules:
    """Which rules hold, and which protocol is run; the defaults are the protocol.

    Modes: ``release`` (hand over by a mark), ``surrender`` (stop and commit before each JoinGroup),
    ``revoke`` (two rounds: stop, commit, rejoin without the task). ``leader`` is the slot of the
    first leader; A owns the task then, B learns it.
    """

    exactly_once: bool = False
    mode: str = "release"
    inputs: int = 2
    leader: int = 0
    #: N1, N3: records bear a commit number and a restore stops at the commit's.
    numbers: bool = True

    # The member.
    drop_on_loss: bool = True  # M1: tasks go with the member id
    gate: bool = True  # M2: no commit is begun or in flight between JoinGroup and SyncGroup
    hold: bool = True  # M2: no JoinGroup between the stop for a release and the mark's answer
    claim: bool = True  # M4: nothing goes to the changelog before the claim was accepted
    #: M2, M6: how a stopped task is described when its hold runs out before the answer is taken.
    overdue: str = "released"  # or "active"
    poison: bool = True  # M6: after an unknown outcome no other commit in that generation
    next_txn_waits: bool = True  # M10: a transaction begins after the last one's markers
    restore_to: str = "ends"  # M3, exactly-once: "ends", "high watermark", "last stable offset"
    cached_orders_void: bool = True  # M9: a static restart executes no cached hand-over
    refetch: bool = False  # M3: a restore begun in an older generation starts over
    pending_waits_for_join: bool = False  # (not needed) pending activates only while not joining

    # The gate's exemption under at-least-once: JoinGroup sent, commits go on.
    parked: bool = True
    switched_keeps: bool = True  # ILLEGAL_GENERATION is then no loss
    parked_claims: bool = True  # claims are begun meanwhile too
    parked_releases: bool = False  # releases are begun meanwhile too
    parked_poison: bool = True  # M6 holds meanwhile too

    # The mark.
    mark_generation: bool = True  # M7: of the very order that is held
    mark_to: str = "member id"  # or "slot" (an instance's name), "anybody"

    # The leader.
    newest_active: bool = True  # L5
    pending_binds: bool = True  # L2
    newest_pending: bool = True  # L2
    deadline: str = "none"  # when time is up: "none", "release" (L1), "outright"

    # The changelog.
    epochs: bool = True  # C1: records below the highest epoch met are skipped

    # What to look at.
    owners_own_late_commit: bool = True  # S1: also when only the owner's own offset goes back
    able_to_commit_only: bool = False  # S2: count only those that could commit right now


#: What may happen and need not. ``slow``: a worker does not take the answer to the last commit of a
#: stopped task, and the hold that keeps JoinGroup back runs out. ``move``: the leader revokes a
#: task without being asked to.
FAULTS: Final = (
    "start",
    "crash",
    "expire",
    "lose",
    "cut",
    "slow",
    "ready",
    "static",
    "force",
    "move",
    "compact",
)
_INDEX: Final = {fault: number for number, fault in enumerate(FAULTS)}


def budget(total: int, **faults: int) -> tuple[int, ...]:
    """How often each fault may happen, and how often all together."""
    unknown = faults.keys() - _INDEX.keys()
    assert not unknown, unknown
    return (*(faults.get(fault, 0) for fault in FAULTS), total)


def affords(left: tuple[int, ...], fault: str) -> bool:
    """Whether the fault may still happen."""
    return left[-1] > 0 and left[_INDEX[fault]] > 0


def spend(left: tuple[int, ...], fault: str) -> tuple[int, ...]:
    """The budget after the fault."""
    after = list(left)
    after[_INDEX[fault]] -= 1
    after[-1] -= 1
    return tuple(after)
