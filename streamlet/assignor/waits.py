"""The waits of a round: lost tasks, moves beyond the allowance, the time of the next round.

A task is lost when no member claims it and no member has given it up, though others of its kind are
claimed. It waits for its member to come back before it moves (design II), until a deadline that
every member repeats in its subscription, so that a new leader knows it. A task waits only if no
member has a copy of it that has caught up; a member that has nothing ends the wait, for it is
probably the one that was lost.

The same deadline, with nothing lost, is the pause between two bounded rounds of moves (design III):
so many, at every so often.

The next rebalance comes at the time of the follow-up if no member asks for one before: a learner
that has caught up does, and so does a member that has something to revoke.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from streamlet.assignor.claims import Ownership, Worth, worth
from streamlet.assignor.draft import Draft
from streamlet.assignor.order import ABSENT, View
from streamlet.assignor.values import Role, Rules

_CAUGHT_UP = (Worth.READY_LEARNER, Worth.CAUGHT_UP_STANDBY)
#: How long an ordered hand-over is left alone before the plan is looked at again, if it must be.
#: A round begun earlier would find the order not carried out yet, and could only repeat it.
RELEASE_MS = 1000


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


@attrs.define
class Allowance:
    """Moves left in this round, None without a limit; ``refused`` counts moves that must wait."""

    left: int | None
    refused: int = 0

    @classmethod
    def of(cls, rules: Rules, *, paused: bool = False) -> Allowance:
        """A full allowance, or none at all between two bounded rounds."""
        return cls(0 if paused else rules.max_moves or None)

    def take(self) -> bool:
        """Begin one move, if there is one left."""
        if self.left is None:
            return True
        if self.left == 0:
            self.refused += 1
            return False
        self.left -= 1
        return True

    def spend(self) -> None:
        """Count a move that cannot be put off, so that fewer others begin beside it."""
        if self.left:
            self.left -= 1


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
