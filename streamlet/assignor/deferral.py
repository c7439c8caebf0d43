"""Waiting for a lost member to come back before its tasks move (design II).

A task is lost when no member claims it and no member has given it up, though others of its kind are
claimed. Lost tasks wait until a deadline that every member repeats in its subscription, so that a
new leader knows it. A task waits only if no member has a copy of it that has caught up; a member
that has nothing ends the wait, for it is probably the one that was lost.

The same deadline, with nothing lost, is the pause between two bounded rounds of moves (design III).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from streamlet.assignor.claims import Ownership
from streamlet.assignor.copies import Worth, worth
from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.values import Role

_CAUGHT_UP = (Worth.READY_LEARNER, Worth.CAUGHT_UP_STANDBY)


@attrs.frozen
class Wait:
    """``tasks`` stay unassigned before ``deadline_ms``; ``pause``: nothing moves before it."""

    tasks: frozenset[int] = frozenset()
    deadline_ms: int | None = None
    pause: bool = False


def decide(view: View, claims: Sequence[Ownership]) -> Wait:
    """Decide which tasks wait, and until when."""
    rules, now = view.group.rules, view.group.now_ms
    running = _running_deadline(view)
    new = running is not None or all(m.joined_generation < 0 for m in view.members)
    if new and _is_first(view, claims):
        delay, waiting = rules.initial_delay_ms, frozenset(range(len(view.tasks)))
    else:
        delay, waiting = rules.deferral_ms, _lost(view, claims)
    if waiting and delay > 0:
        deadline = now + delay if running is None else min(running, now + delay)
        return Wait(waiting, deadline) if now < deadline else Wait()
    if rules.max_moves > 0 and running is not None and now < running:
        return Wait(deadline_ms=min(running, now + rules.move_interval_ms), pause=True)
    return Wait()


def _running_deadline(view: View) -> int | None:
    """The earliest that any member has read; none if no member knows of one."""
    known = [m.deferral_deadline_ms for m in view.members if m.deferral_deadline_ms is not None]
    return min(known, default=None)


def _is_first(view: View, claims: Sequence[Ownership]) -> bool:
    """True if the group is just being formed."""
    return all(claim.owner == ABSENT for claim in claims) and not any(
        copy.role is not Role.DORMANT for member in view.members for copy in member.copies.values()
    )


def _lost(view: View, claims: Sequence[Ownership]) -> frozenset[int]:
    unowned = [task for task, claim in enumerate(claims) if claim.owner == ABSENT]
    idle = [m for m in range(len(view.members)) if _has_nothing(view, m)]
    known = {
        view.tasks[task].task.subtopology for task, c in enumerate(claims) if c.owner != ABSENT
    }
    able = [m for m in range(len(view.members)) if view.instances[view.instance_of[m]].stays]
    lost: set[int] = set()
    for task in unowned:
        copies = [copy for _, copy in view.holders[task]]
        given_up = any(copy.role is Role.RELEASED and copy.ready for copy in copies)
        caught_up = any(copy.ready and worth(copy) in _CAUGHT_UP for copy in copies)
        new = view.tasks[task].task.subtopology not in known
        ended = given_up or caught_up or new or any(view.member_can_run(m, task) for m in idle)
        if not ended and any(view.member_can_run(m, task) for m in able):
            lost.add(task)
    return frozenset(lost)


def _has_nothing(view: View, member: int) -> bool:
    """True if the member reports no tasks; state on its disk does not count."""
    stays = view.instances[view.instance_of[member]].stays
    copies = view.members[member].copies.values()
    return stays and all(copy.role is Role.DORMANT for copy in copies)
