"""Ranks the copies of a task whose owner is gone.

The order, best first: a ready learner; the previous owner, whose copy is still warm; a standby that
has caught up; a learner that has not; a standby that has not; state on disk. Among equals the one
with the smallest lag.
"""

from __future__ import annotations

import enum

from streamlet.assignor.order import View
from streamlet.assignor.values import Copy, Role

#: Stands for an unknown lag; larger than any that is known.
_UNKNOWN_LAG = 1 << 62


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
