"""The assignor: from what the members say of themselves to who does what in this generation.

A pure function without clock, input, output or chance: whichever member leads, with whatever order
of members and tasks, comes to the same plan. What must be known from earlier rounds is in the
members' own words.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamlet.assignor.claims import Ownership, resolve
from streamlet.assignor.draft import Draft, close_down, order_to_leave
from streamlet.assignor.learners import Budget
from streamlet.assignor.order import View
from streamlet.assignor.path import PlanningOutcome, move_warm
from streamlet.assignor.standbys import keep_standbys
from streamlet.assignor.stateless import move_in_two_rounds
from streamlet.assignor.values import GroupState, Plan
from streamlet.assignor.waits import Allowance, Wait, decide, follow_up, next_deadline


def assign(group: GroupState) -> Plan:
    """Decide who runs what, who learns what and who gives up what in this generation.

    A stateful task moves only to a member that has caught up with it, as long as its owner lives
    and has time; a stateless one is revoked in one round and assigned in the next. Under
    ``Rules(learners=False)`` and in mode ``eager`` stateful tasks move like stateless ones.
    What is not to be moved is not touched.
    """
    view = View.of(group)
    claims = resolve(view)
    draft = Draft.of(view)
    if not any(instance.stays for instance in view.instances):
        close_down(draft, claims)
        return Plan(draft.freeze(), unassigned=draft.ids(draft.unassigned))
    wait = decide(view, claims)
    draft.unassigned |= wait.tasks
    allowance, budget = Allowance.of(group.rules, paused=wait.pause), Budget(view)
    stateful = _move_stateful(draft, claims, wait, allowance, budget)
    stateless = _move_plain(draft, claims, wait, allowance, stateful=False)
    keep_standbys(
        draft, stateful.assignment, _of_kind(view, stateful=True), budget, calm=bool(wait.tasks)
    )
    order_to_leave(draft)
    outside = sorted({*stateful.assignment.outside(), *stateless.assignment.outside()})
    return Plan(
        members=draft.freeze(),
        follow_up_ms=follow_up(draft, wait, allowance, stateful.next_ms),
        deferral_deadline_ms=next_deadline(view, wait, allowance),
        unassigned=draft.ids(draft.unassigned),
        out_of_band=tuple(view.instances[instance].name for instance in outside),
    )


def _move_stateful(
    draft: Draft, claims: Sequence[Ownership], wait: Wait, allowance: Allowance, budget: Budget
) -> PlanningOutcome:
    rules = draft.view.group.rules
    if not rules.learners or rules.mode == "eager":
        return _move_plain(draft, claims, wait, allowance, stateful=True)
    tasks = [task for task in _of_kind(draft.view, stateful=True) if task not in wait.tasks]
    return move_warm(draft, claims, tasks, allowance, budget, wait.tasks)


def _move_plain(
    draft: Draft, claims: Sequence[Ownership], wait: Wait, allowance: Allowance, *, stateful: bool
) -> PlanningOutcome:
    tasks = [task for task in _of_kind(draft.view, stateful=stateful) if task not in wait.tasks]
    return PlanningOutcome(
        move_in_two_rounds(draft, claims, tasks, allowance, calm=bool(wait.tasks))
    )


def _of_kind(view: View, *, stateful: bool) -> list[int]:
    return [number for number, info in enumerate(view.tasks) if info.stateful == stateful]
