"""The assignor makes no plan that the model has not checked.

The model lets a leader choose any plan that the claims allow. What members say of the task in any
of its states is given to the real assignor here, under each hand-over mode, and its plan must be
one of those.
"""

from __future__ import annotations

from collections import deque

import pytest

from streamlet.assignor.assign import assign
from streamlet.assignor.validate import validate
from streamlet.assignor.values import Plan as RealPlan
from streamlet.assignor.values import Rules as Settings
from tests.simulation.model.leader import TASK, Descriptions, descriptions_of, group_of, plans
from tests.simulation.model.rules import Rules, budget
from tests.simulation.model.steps import HandOver
from tests.simulation.model.values import COMPLETING, HAND_OVER, KEEP, REVOKE, Broker

FAULTS = budget(2, ready=1, expire=1)


def leaders_views(rules: Rules) -> list[Broker]:
    """Every group that a leader may have to plan for, once for each set of descriptions."""
    system = HandOver(rules, FAULTS)
    start = system.start()
    seen, queue = {start}, deque([start])
    found: dict[Descriptions, Broker] = {}
    while queue:
        world = queue.popleft()
        if world.broker.phase == COMPLETING:
            found.setdefault(descriptions_of(world.broker, rules), world.broker)
        for _, _, after in system.moves(world):
            if after not in seen:
                seen.add(after)
                queue.append(after)
    return list(found.values())


def in_short(plan: RealPlan) -> tuple[str, str, str]:
    """Kind, owner and next_owner of a plan for the one task there is."""
    for member, part in plan.members.items():
        if TASK in part.active:
            return KEEP, member, ""
        if TASK in part.release:
            return HAND_OVER, member, part.release[TASK]
        if TASK in part.revoke:
            return REVOKE, member, ""
    return "nobody", "", ""


@pytest.mark.parametrize("mode", ["release", "surrender"])
def test_every_plan_is_one_that_the_claims_allow(mode: str) -> None:
    rules = Rules(mode=mode)
    views = leaders_views(rules)
    assert len(views) > 10
    for broker in views:
        descriptions = descriptions_of(broker, rules)
        group = group_of(descriptions, broker.generation, Settings(handover=mode))
        decided = assign(group)
        assert validate(group, decided) == []
        ids = {slot: seat.member for slot, seat in enumerate(broker.seats) if seat}
        allowed = {
            (plan.kind, ids[plan.owner], plan.heir_id) for plan, _ in plans(broker, rules, FAULTS)
        }
        assert in_short(decided) in allowed, (descriptions, decided)
