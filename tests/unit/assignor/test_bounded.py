"""A bounded part per round (design III), and the budgets for learners."""

import attrs
import pytest

from streamlet.assignor.values import Plan, Role, Rules
from tests.unit.assignor.cluster import Cluster, stateful, stateless
from tests.unit.assignor.groups import NOW, active, group, member, planned, task, text

EIGHT = "0_0 0_1 0_2 0_3 0_4 0_5 0_6 0_7"


def begun(plan: Plan) -> int:
    return sum(len(part.revoke) + len(part.release) for part in plan.members.values())


@pytest.mark.parametrize("interval", [0, 5_000])
@pytest.mark.parametrize("kind", [stateless, stateful])
@pytest.mark.parametrize("most", [1, 3])
def test_no_round_begins_more_moves_than_allowed_and_all_are_made(kind, interval, most) -> None:
    rules = Rules(max_moves=most, move_interval_ms=interval)
    cluster = Cluster(kind(8), rules)
    cluster.join("A")
    cluster.settle()
    cluster.join("B")
    cluster.settle()
    assert cluster.loads() == [4, 4]
    assert len(cluster.moved) == 4
    plans = [event for event in cluster.history if isinstance(event, Plan)]
    assert max(map(begun, plans)) == most


def test_what_is_left_follows_at_once_when_there_is_no_interval() -> None:
    owner = member("A", released="0_0", active="0_1 0_2 0_3")
    plan = planned(group(owner, member("B"), stateless="0_0 0_1 0_2 0_3", max_moves=1))
    assert begun(plan) == 1
    assert plan.follow_up_ms == 0
    assert plan.deferral_deadline_ms is None


def test_the_pause_is_told_to_all_and_kept() -> None:
    names = "0_0 0_1 0_2 0_3 0_4 0_5"
    rules = {"stateless": names, "max_moves": 1, "move_interval_ms": 5_000}
    plan = planned(group(member("A", active=names), member("B"), **rules))
    assert begun(plan) == 1
    assert plan.deferral_deadline_ms == NOW + 5_000
    owner = member("A", active="0_1 0_2 0_3 0_4 0_5", released="0_0")
    told = attrs.evolve(owner, deferral_deadline_ms=NOW + 5_000)
    again = planned(group(told, member("B"), **rules))
    assert begun(again) == 0
    assert active(again, "B") == "0_0"
    assert again.follow_up_ms == again.deferral_deadline_ms == NOW + 5_000
    over = attrs.evolve(owner, deferral_deadline_ms=NOW)
    assert begun(planned(group(over, member("B", active="0_6"), tasks="0_6", **rules))) == 1


def test_the_next_hand_over_leaves_the_last_one_time() -> None:
    owner = member("A", active=EIGHT)
    plan = planned(group(owner, member("B", ready="0_0 0_1"), max_moves=1))
    assert begun(plan) == 1
    assert text(plan.members["B"].learner).count("0_") == 3
    assert plan.follow_up_ms == NOW + 1_000


def test_an_order_that_is_still_open_counts() -> None:
    owner = member("A", active=EIGHT)
    plan = planned(group(owner, member("B", pending="0_0", ready="0_1"), max_moves=1))
    assert plan.members["A"].release == {task("0_0"): "B"}


def test_a_deadline_knows_no_bound() -> None:
    leaver = member("A", active="0_0 0_1 0_2", leaves=NOW - 1)
    plan = planned(group(leaver, member("B"), max_moves=1))
    assert len(plan.members["A"].release) == 3


def test_a_bound_holds_within_an_instance_too() -> None:
    full = member("A", active="0_0 0_1 0_2 0_3 0_4", instance="one")
    for stateless_names in ("", "0_0 0_1 0_2 0_3 0_4"):
        plan = planned(
            group(full, member("B", instance="one"), stateless=stateless_names, max_moves=1)
        )
        assert begun(plan) == 1


def test_a_leaving_member_that_cannot_learn_keeps_to_the_bound() -> None:
    leaver = member("A", active="0_0 0_1", leaves=True, learners=False)
    plan = planned(group(leaver, member("B", ready="0_0 0_1"), max_moves=1))
    assert begun(plan) == 1
    assert len(plan.members["B"].learner) == 2


def test_no_member_learns_more_than_its_budget() -> None:
    plan = planned(group(member("A", active=EIGHT), member("B"), max_learners_member=2))
    assert len(plan.members["B"].learner) == 2


def test_another_member_of_the_instance_learns_what_the_first_may_not() -> None:
    crew = [member(n, instance="one", capacity=2.0) for n in "BC"]
    plan = planned(group(member("A", active=EIGHT), *crew, max_learners_member=2))
    assert [len(plan.members[n].learner) for n in "BC"] == [2, 2]


def test_no_member_is_learned_from_in_more_than_its_budget() -> None:
    plan = planned(group(member("A", active=EIGHT), member("B"), max_learners_source=3))
    assert len(plan.members["A"].being_learned) == 3


def test_the_group_learns_no_more_than_its_budget() -> None:
    crew = (member("B"), member("C"))
    plan = planned(group(member("A", active=EIGHT), *crew, max_learners_group=3))
    assert sum(len(part.learner) for part in plan.members.values()) == 3


def test_learners_go_on_when_a_budget_has_become_smaller() -> None:
    owner = member("A", active=EIGHT)
    plan = planned(group(owner, member("B", learner="0_0 0_1 0_2"), max_learners_group=2))
    assert text(plan.members["B"].learner) == "0_0 0_1 0_2"


def test_budgets_of_one_still_bring_all_over() -> None:
    cluster = Cluster(stateful(20), Rules(max_learners_group=1))
    cluster.join("A")
    cluster.settle()
    for name in ("B", "C"):
        cluster.join(name)
    cluster.settle()
    assert cluster.last is not None
    assert cluster.last.out_of_band == ()
    assert len(cluster.moved) == len(set(cluster.moved))
    assert all(not m.holds(Role.LEARNER) for m in cluster.members.values())
