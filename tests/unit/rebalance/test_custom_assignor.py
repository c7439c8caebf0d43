"""An application's own assignor decides, unless its plan would break a rule."""

from __future__ import annotations

import sys
from collections.abc import Callable

import attrs
import pytest

from streamlet.assignor.assign import assign
from streamlet.assignor.validate import validate
from streamlet.assignor.values import GroupState, MemberPlan, Plan
from streamlet.rebalance.custom_assignor import CustomAssignor
from streamlet.types import TaskId
from tests.unit.assignor.groups import group, member

T0, T1 = TaskId(0, 0), TaskId(0, 1)


def two() -> GroupState:
    """a runs both tasks, b has just come."""
    return group(member("a", active="0_0 0_1"), member("b"))


def backwards(state: GroupState) -> Plan:
    """A plan of its own that may be carried out: b learns the other task than ``assign`` would."""
    (ours,) = assign(state).members["b"].learner
    (other,) = {T0, T1} - {ours}
    mine = MemberPlan(active=frozenset({T0, T1}), being_learned=frozenset({other}))
    return Plan({"a": mine, "b": MemberPlan(learner=frozenset({other}))})


def test_a_plan_that_holds_is_used() -> None:
    own = CustomAssignor(backwards)
    assert own(two()) == backwards(two()) != assign(two())
    assert own.refused is None


def outright(state: GroupState) -> Plan:
    return Plan({"a": MemberPlan(), "b": MemberPlan(active=frozenset({T0, T1}))})


def for_nobody(state: GroupState) -> Plan:
    return Plan({"a": MemberPlan(active=frozenset({T0, T1})), "z": MemberPlan()})


def raising(state: GroupState) -> Plan:
    raise LookupError("no lags today")


def exiting(state: GroupState) -> Plan:
    sys.exit(0)


def nothing(state: GroupState) -> Plan:
    return None  # type: ignore[return-value]


def rubbish(state: GroupState) -> Plan:
    return Plan({"a": "0_0", "b": "0_1"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        (outright, "it broke U2: a runs 0_0, but it is with ['b'] (and 1 more)"),
        (for_nobody, "it broke U13: the plan is not for exactly the members there are"),
        (raising, "LookupError: no lags today"),
        (exiting, "in exiting, `sys.exit(0)`: SystemExit: 0"),
        (nothing, "expected a Plan, it returned NoneType"),
        (rubbish, "it failed: AttributeError: 'str' object has no attribute"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_by_name_and_streamlets_own_is_used(
    own: Callable[[GroupState], Plan], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    guarded = CustomAssignor(own)
    assert guarded(two()) == assign(two())
    assert guarded.refused is not None
    assert reason in guarded.refused
    assert reason in caplog.text
    assert "generation 8" in caplog.text


def test_one_refusal_does_not_bar_the_next_plan() -> None:
    plans = iter([outright(two()), backwards(two())])
    guarded = CustomAssignor(lambda state: next(plans))
    guarded(two())
    assert guarded(two()) == backwards(two())
    assert guarded.refused is None


def test_what_an_assignor_does_to_the_facts_is_not_seen_by_streamlets_own() -> None:
    def spoiling(state: GroupState) -> Plan:
        for one in state.members:
            one.copies.clear()
            one.tags.clear()
        return Plan({})

    state = group(member("a", active="0_0 0_1", tags={"zone": "z"}), member("b"))
    before = attrs.evolve(
        state, members=tuple(attrs.evolve(m, copies=dict(m.copies)) for m in state.members)
    )
    assert CustomAssignor(spoiling)(state) == assign(before)
    assert state == before


def test_which_learners_are_useful_is_the_assignors_own_affair() -> None:
    """What ``assign`` would call useful hangs on where it wants tasks to end."""
    state = group(member("a", active="0_0 0_1 0_2 0_3"), member("b", learner="0_0 0_1"))
    stays = MemberPlan(active=frozenset(state.members[0].copies))
    plan = Plan({"a": stays, "b": MemberPlan()})
    assert [one.rule for one in validate(state, plan)] == ["U6", "U6"]
    assert CustomAssignor(lambda _: plan)(state) == plan


def test_a_member_that_cannot_learn_gets_no_learner_from_anybody() -> None:
    state = group(member("a", active="0_0 0_1"), member("b", learners=False))
    guarded = CustomAssignor(
        lambda _: Plan(
            {
                "a": MemberPlan(active=frozenset({T0, T1}), being_learned=frozenset({T0})),
                "b": MemberPlan(learner=frozenset({T0})),
            }
        )
    )
    guarded(state)
    assert guarded.refused is not None
    assert "U6: b does not know how to learn" in guarded.refused
