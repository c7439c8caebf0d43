"""Finds the member that may be running a task right now, from this generation's metadata only.

These are the rules L1 to L7 of the hand-over protocol, which were checked by a model. What a claim
binds is not a matter of taste: a plan that gives a claimed task to another member can make two
members run it at once.

* one ``active`` claim: the task stays there, or is ordered to be released, or (two rounds) to be
  revoked (L1)
* no ``active``, a member ``pending``: it is that member's outright, the newest order first (L2)
* neither: any member's, by preference (L3); a ``released`` copy is warm but claims nothing (L6, L7)
* ``active`` here and ``pending`` there: the first has not released, its claim counts (L4)
* several ``active``: the newest generation counts and the others drop the task (L5)
"""

from __future__ import annotations

import attrs

from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.values import Role


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
