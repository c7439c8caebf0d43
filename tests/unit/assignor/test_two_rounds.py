"""Moving cold, in two rounds: stateless tasks always, all tasks where nobody learns."""

import pytest

from streamlet.assignor.values import Rules
from tests.unit.assignor.cluster import Cluster, stateful, stateless
from tests.unit.assignor.groups import active, group, member, planned, task, text

COLD = {"learners": False}


def test_what_moves_is_revoked_first_and_nobody_else_stops() -> None:
    plan = planned(
        group(member("A", active="0_0 0_1"), member("B", active="0_2"), member("C"), **COLD)
    )
    assert len(plan.members["A"].revoke) == 1
    assert len(plan.members["A"].active) == 1
    assert active(plan, "B") == "0_2"
    assert active(plan, "C") == ""
    assert plan.follow_up_ms == 0


def test_what_was_given_up_is_assigned_in_the_next_round() -> None:
    given_up = member("A", active="0_1", released="0_0")
    plan = planned(group(given_up, member("B", active="0_2"), member("C"), **COLD))
    assert active(plan, "C") == "0_0"
    assert plan.follow_up_ms is None


@pytest.mark.parametrize("tasks", [stateful(12), stateless(12)], ids=["stateful", "stateless"])
def test_a_fourth_member_takes_three_of_twelve_tasks(tasks: dict) -> None:
    cluster = Cluster(tasks, Rules(learners=False))
    for name in "ABC":
        cluster.join(name)
    cluster.settle()
    cluster.join("D")
    assert cluster.settle() == 2
    assert cluster.loads() == [3, 3, 3, 3]
    assert len(cluster.moved) == 3


def test_a_member_that_dies_is_replaced_in_one_round_and_nobody_else_stops() -> None:
    plan = planned(
        group(member("A", active="0_0"), member("B", active="0_1"), tasks="0_2 0_3", **COLD)
    )
    assert "0_0" in active(plan, "A")
    assert "0_1" in active(plan, "B")
    assert all(len(part.active) == 2 for part in plan.members.values())
    assert plan.follow_up_ms is None


def test_nothing_moves_inside_the_band() -> None:
    plan = planned(group(member("A", active="0_0 0_1 0_2"), member("B", active="0_3 0_4"), **COLD))
    assert active(plan, "A") == "0_0 0_1 0_2"
    assert plan.follow_up_ms is None


def test_capacity_decides_the_share() -> None:
    small, large = member("A", capacity=1.0), member("B", capacity=3.0)
    plan = planned(group(small, large, tasks="0_0 0_1 0_2 0_3 0_4 0_5 0_6 0_7", **COLD))
    assert len(plan.members["B"].active) == 6


def test_without_any_capacity_all_are_alike() -> None:
    pair = [member(name, capacity=0.0) for name in "AB"]
    plan = planned(group(*pair, tasks="0_0 0_1 0_2 0_3", **COLD))
    assert [len(part.active) for part in plan.members.values()] == [2, 2]


def test_an_instance_without_capacity_gets_nothing_beside_others() -> None:
    plan = planned(group(member("A", capacity=0.0), member("B"), tasks="0_0 0_1", **COLD))
    assert active(plan, "B") == "0_0 0_1"


def test_a_member_never_gets_what_it_cannot_run() -> None:
    picky = member("A", runs=frozenset({1}))
    plan = planned(group(picky, member("B"), tasks="0_0 0_1 0_2 1_0", **COLD))
    assert active(plan, "A") == "1_0"
    assert active(plan, "B") == "0_0 0_1 0_2"


def test_a_task_that_nobody_can_run_is_left_out() -> None:
    plan = planned(group(member("A", runs=frozenset({1})), tasks="0_0 1_0", **COLD))
    assert text(plan.unassigned) == "0_0"
    assert active(plan, "A") == "1_0"


def test_a_restarted_member_gets_the_tasks_back_whose_state_is_on_its_disk() -> None:
    back = member("A", dormant="0_3 0_4")
    plan = planned(group(back, member("B", active="0_0 0_1"), tasks="0_2", **COLD))
    assert {task("0_3"), task("0_4")} <= plan.members["A"].active


def test_state_on_disk_does_not_bring_a_member_out_of_its_band() -> None:
    """All ten are on A's disk; without learners B has to begin with nothing all the same."""
    names = "0_0 0_1 0_2 0_3 0_4 0_5 0_6 0_7 0_8 0_9"
    plan = planned(group(member("A", dormant=names), member("B"), **COLD))
    assert len(plan.members["A"].active) == 6
    assert plan.follow_up_ms is None


def test_the_members_of_one_instance_share_its_tasks() -> None:
    crew = [member(name, instance="one", capacity=2.0) for name in ("A", "B")]
    plan = planned(group(*crew, tasks="0_0 0_1 0_2", **COLD))
    assert sorted(len(part.active) for part in plan.members.values()) == [1, 2]


def test_uneven_members_of_one_instance_are_evened_out() -> None:
    full = member("A", active="0_0 0_1 0_2", instance="one")
    plan = planned(group(full, member("B", instance="one"), **COLD))
    assert len(plan.members["A"].revoke) == 1


def test_a_difference_of_one_between_members_is_left_alone() -> None:
    full = member("A", active="0_0 0_1", instance="one")
    plan = planned(group(full, member("B", active="0_2", instance="one"), **COLD))
    assert plan.follow_up_ms is None


def test_weighted_members_of_one_instance_may_differ_by_the_heaviest_task() -> None:
    pair = (member("A", active="0_0 0_1", instance="x"), member("B", active="0_2", instance="x"))
    weights = {"0_0": 5, "0_1": 1, "0_2": 2}
    assert planned(group(*pair, weights=weights, **COLD)).follow_up_ms is None


def test_what_only_one_member_can_run_is_not_evened_out() -> None:
    full = member("A", active="0_0 0_1 0_2", instance="one")
    picky = member("B", instance="one", runs=frozenset({1}))
    assert planned(group(full, picky, **COLD)).follow_up_ms is None


def test_stateful_and_stateless_tasks_are_balanced_apart() -> None:
    left = member("A", active="0_0 0_1 0_2 0_3")
    plan = planned(group(left, member("B", active="1_0 1_1 1_2 1_3"), stateless="1_0 1_1 1_2 1_3"))
    assert len(plan.members["A"].being_learned) == 2
    assert len(plan.members["B"].revoke) == 2


@pytest.mark.parametrize("kind", [stateful, stateless])
def test_in_mode_eager_everybody_stops_and_each_move_takes_one_round(kind) -> None:
    cluster = Cluster(kind(12), Rules(mode="eager"))
    for name in "ABC":
        cluster.join(name)
    cluster.settle()
    cluster.join("D")
    assert cluster.settle() == 1
    assert cluster.loads() == [3, 3, 3, 3]
    assert len(cluster.moved) == 3


def test_in_mode_eager_a_member_that_did_not_stop_is_asked_to() -> None:
    plan = planned(group(member("A", active="0_0 0_1 0_2 0_3"), member("B"), mode="eager"))
    assert len(plan.members["A"].revoke) == 2


def test_in_mode_eager_what_a_leaving_member_stopped_goes_elsewhere() -> None:
    plan = planned(group(member("A", released="0_0", leaves=True), member("B"), mode="eager"))
    assert active(plan, "B") == "0_0"


def test_a_pending_claim_binds_where_nobody_learns_too() -> None:
    plan = planned(group(member("A", released="0_0"), member("B", pending="0_0"), **COLD))
    assert active(plan, "B") == "0_0"


def test_in_mode_eager_nothing_moves_that_would_not_help() -> None:
    """Three tasks of weight 5 cannot be shared by two: B has one too many wherever it is."""
    weights = {"0_0": 5, "0_1": 5, "0_2": 5}
    pair = (member("A", released="0_0"), member("B", released="0_1 0_2"))
    plan = planned(group(*pair, weights=weights, mode="eager"))
    assert active(plan, "A") == "0_0"
    assert active(plan, "B") == "0_1 0_2"


def test_subtopologies_are_spread_when_loads_are_alike() -> None:
    plan = planned(
        group(member("A", active="0_0"), member("B", active="1_0"), tasks="0_1 1_1", **COLD)
    )
    assert active(plan, "A") == "0_0 1_1"
    assert active(plan, "B") == "0_1 1_0"
