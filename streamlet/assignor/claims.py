"""The claims on a task, and its copies: who may be running it, and who is to go on with it.

Both come from this generation's metadata only. These are the rules L1 to L7 of the hand-over
protocol, which were checked by a model. What a claim binds is not a matter of taste: a plan that
gives a claimed task to another member can make two members run it at once.

* one ``active`` claim: the task stays there, or is ordered to be released, or (two rounds) to be
  revoked (L1)
* no ``active``, a member ``pending``: it is that member's outright, the newest order first (L2)
* neither: any member's, the best copy first (L3); a ``released`` one is warm but claims nothing
  (L6, L7)
* ``active`` here and ``pending`` there: the first has not released, its claim counts (L4)
* several ``active``: the newest generation counts and the others drop the task (L5)

Copies of a task whose owner is gone, best first: a ready learner; the previous owner, whose copy is
still warm; a standby that has caught up; a learner that has not; a standby that has not; state on
disk. Among equals the one with the smallest lag.
"""

from __future__ import annotations

import enum

import attrs

from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.values import Copy, Role

#: Stands for an unknown lag; larger than any that is known.
_UNKNOWN_LAG = 1 << 62


@attrs.frozen
class Ownership:
    """The claims on one task; ``owner`` is the member that may be running it, or absent.

    ``outright`` says that the owner's claim is only a pending one: it is to be made active without
    an order to another member. ``pending`` lists the members that hold an order for a task that its
    owner has not released.
    """

    owner: int = ABSENT
    outright: bool = False
    pending: tuple[int, ...] = ()


def resolve(view: View) -> list[Ownership]:
    """The claim on each task."""
    return [_resolve(view, task) for task in range(len(view.tasks))]


def _resolve(view: View, task: int) -> Ownership:
    active = _newest_first(view, task, Role.ACTIVE)
    pending = _newest_first(view, task, Role.PENDING)
    if active:
        return Ownership(active[0], pending=tuple(m for m in pending if m != active[0]))
    if pending:
        return Ownership(pending[0], outright=True)
    return Ownership()


def _newest_first(view: View, task: int, role: Role) -> list[int]:
    """Members that claim the role: the newest generation first, then by member id (L2, L5)."""
    claims = [(member, copy) for member, copy in view.holders[task] if copy.role is role]
    claims.sort(key=lambda claim: (-claim[1].generation, view.member_id(claim[0])))
    return [member for member, _ in claims]


class Worth(enum.IntEnum):
    """The worth of a copy to a task without an owner; lower is better."""

    READY_LEARNER = 0
    PREVIOUS_OWNER = 1
    CAUGHT_UP_STANDBY = 2
    LEARNER = 3
    STANDBY = 4
    ON_DISK = 5


def worth(copy: Copy) -> Worth:
    """The place of a copy in the order of preference."""
    match copy.role:
        case Role.LEARNER:
            return Worth.READY_LEARNER if copy.ready else Worth.LEARNER
        case Role.STANDBY:
            return Worth.CAUGHT_UP_STANDBY if copy.ready else Worth.STANDBY
        case Role.RELEASED:
            # Released long ago and fallen behind since, it is no more than state on disk.
            current = copy.ready or copy.lag is None
            return Worth.PREVIOUS_OWNER if current else Worth.ON_DISK
        case Role.DORMANT:
            return Worth.ON_DISK
        case Role.ACTIVE | Role.PENDING:
            # Claims are dealt with before copies; what is left of one is as good as a learner.
            return Worth.READY_LEARNER if copy.ready else Worth.LEARNER


def best_first(view: View, task: int) -> list[tuple[int, Copy]]:
    """Members that hold a copy of the task and can run it, the best copy first."""
    able = [held for held in view.holders[task] if view.member_can_run(held[0], task)]
    return sorted(able, key=lambda held: (worth(held[1]), known_lag(held[1]), held[0]))


def known_lag(copy: Copy) -> int:
    """The lag to compare by."""
    if copy.lag is not None:
        return copy.lag
    return 0 if copy.ready else _UNKNOWN_LAG
