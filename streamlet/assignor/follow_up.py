"""The time at which the next rebalance must come if no member asks for one; none once settled.

A learner that has caught up asks by itself, and so does a member that has something to revoke.
"""

from __future__ import annotations

from streamlet.assignor.allowance import RELEASE_MS, Allowance
from streamlet.assignor.deferral import Wait
from streamlet.assignor.draft import Draft
from streamlet.assignor.order import View


def follow_up(draft: Draft, wait: Wait, allowance: Allowance, next_ms: int | None) -> int | None:
    """Wall-clock time of the next round the plan needs: 0 at once, None if it needs none.

    ``next_ms`` is what the moves of stateful tasks themselves ask for, from now on.
    """
    view = draft.view
    if any(part.revoke for part in draft.members):
        return 0
    times = _leave_deadlines(draft)
    if next_ms is not None:
        times.append(view.group.now_ms + next_ms)
    if wait.tasks and wait.deadline_ms is not None:
        times.append(wait.deadline_ms)
    if allowance.refused:
        times.append(_next_moves(draft, wait))
    return min(times, default=None)


def next_deadline(view: View, wait: Wait, allowance: Allowance) -> int | None:
    """The deadline all members repeat until it has passed: of a wait, or of a pause in moving."""
    if wait.tasks or not allowance.refused:
        return wait.deadline_ms if wait.tasks else None
    interval = view.group.rules.move_interval_ms
    return wait.deadline_ms if wait.pause else (view.group.now_ms + interval if interval else None)


def _next_moves(draft: Draft, wait: Wait) -> int:
    rules, now = draft.view.group.rules, draft.view.group.now_ms
    if wait.pause and wait.deadline_ms is not None:
        return wait.deadline_ms
    releasing = any(part.release for part in draft.members)
    return now + max(rules.move_interval_ms, RELEASE_MS if releasing else 0)


def _leave_deadlines(draft: Draft) -> list[int]:
    """Deadlines still ahead of members that have something to hand over."""
    view = draft.view
    deadlines: list[int] = []
    for number, part in enumerate(draft.members):
        leaving = view.instances[view.instance_of[number]].leaving
        if leaving is None or leaving.deadline_ms is None or not (part.active or part.release):
            continue
        if leaving.deadline_ms > view.group.now_ms:
            deadlines.append(leaving.deadline_ms)
    return deadlines
