"""Members whose disk fails run tasks with state only if no other member can."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from streamlet.assignor.assign import assign
from streamlet.assignor.validate import validate
from streamlet.assignor.values import Copy, GroupState, Leaving, Plan, Role, Rules, TaskInfo
from streamlet.rebalance import wire
from streamlet.rebalance.values import Subscription, member_states
from streamlet.types import TaskId

STATEFUL, STATELESS = b"counting", b"mapping-"
LEADERS = (STATEFUL, STATELESS)
TASKS = tuple(TaskInfo(TaskId(part, n), part == 0) for part in (0, 1) for n in range(4))
ACTIVE = Copy(Role.ACTIVE, 6)


def member(name: str, active: Iterable[str] = (), **said: object) -> Subscription:
    copies = {TaskId.parse(task): ACTIVE for task in active}
    subscription = Subscription(name, name, subtopologies=LEADERS, copies=copies)
    changed = attrs.evolve(subscription, stateful=frozenset({0}), joined_generation=5)
    return attrs.evolve(changed, **said)  # type: ignore[arg-type]


def planned(*members: Subscription) -> Plan:
    states = member_states({one.name: one for one in members}, LEADERS)
    state = GroupState(TASKS, states, 7, 0, Rules())
    plan = assign(state)
    assert validate(state, plan) == []
    return plan


def runs(plan: Plan, name: str) -> set[str]:
    return {str(task) for task in plan.members[name].active}


def test_tasks_that_it_gave_up_go_to_others_and_those_without_state_may_stay() -> None:
    a = member("a", ["1_0", "1_1"], disk_fails=True)
    b = member("b", ["0_2", "0_3", "1_2", "1_3"])
    plan = planned(a, b)
    assert runs(plan, "b") >= {"0_0", "0_1", "0_2", "0_3"}
    assert runs(plan, "a") == {"1_0", "1_1"}
    assert not plan.unassigned


def test_tasks_that_it_still_runs_are_taken_from_it() -> None:
    a = member("a", ["0_0", "0_1", "1_0"], disk_fails=True)
    b = member("b", ["0_2", "0_3", "1_1", "1_2", "1_3"])
    plan = planned(a, b)
    assert {str(task) for task in plan.members["a"].revoke} == {"0_0", "0_1"}
    assert runs(plan, "a") == {"1_0"}
    assert plan.follow_up_ms == 0, "they are given in the next round"


def test_where_no_other_can_run_them_it_keeps_them() -> None:
    """Alone, beside others like it, beside one that leaves, or that has another topology."""
    alone = member("a", disk_fails=True)
    other = (b"othercnt", STATELESS)
    for beside in (
        [],
        [member("b", disk_fails=True)],
        [member("b", leaving=Leaving(1))],
        [member("b", subtopologies=other)],
    ):
        plan = planned(alone, *beside)
        assert not plan.unassigned, beside
        assert any(task.startswith("0_") for task in runs(plan, "a")), beside


def test_it_travels_with_the_subscription_and_older_versions_do_not_know_it() -> None:
    said = member("a", disk_fails=True)
    assert wire.decode_subscription(wire.encode_subscription(said)) == said
    older = wire.encode_subscription(said, version=7)
    assert not wire.decode_subscription(older).disk_fails
