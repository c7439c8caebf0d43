"""Compares what a member runs with an assignment: what changes for each task. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from streamlet.rebalance.values import Assignment
from streamlet.types import TaskId


@attrs.frozen
class TaskChanges:
    """The changes for each task, given what runs and an assignment.

    ``keep`` go on untouched. ``stop`` are to be stopped and committed, then given up, then joined
    without. ``lose`` were given away without asking us (after a break of our membership): write
    nothing. ``rejoin``: when all of ``stop`` are given up.
    """

    start: tuple[TaskId, ...]
    keep: tuple[TaskId, ...]
    stop: tuple[TaskId, ...]
    lose: tuple[TaskId, ...]
    rejoin: bool

    @classmethod
    def of(cls, owned: Iterable[TaskId], assignment: Assignment) -> TaskChanges:
        """Compare what we run with what we are to run; each owned task is in one part."""
        mine = frozenset(owned)
        known = assignment.active | assignment.revoke | assignment.release.keys()
        return cls(
            start=tuple(sorted(assignment.active - mine)),
            keep=tuple(sorted(mine & (assignment.active | assignment.release.keys()))),
            stop=tuple(sorted(mine & assignment.revoke - assignment.active)),
            lose=tuple(sorted(mine - known)),
            rejoin=bool(assignment.revoke),
        )
