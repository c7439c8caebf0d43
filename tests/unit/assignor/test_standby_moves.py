"""Standbys that move warm: to share the load, and for the tags."""

import pytest

from streamlet.assignor.values import GroupState, MemberState, Plan, Role, Rules
from tests.unit.assignor.cluster import Cluster, stateful
from tests.unit.assignor.groups import group, member, planned, task, text

T = task("0_0")
RACK = {"standbys": 1, "rack_tags": ("rack",)}


def keepers(plan: Plan, name: str = "0_0") -> list[str]:
    return sorted(m for m, part in plan.members.items() if task(name) in part.standby)


def kept(plan: Plan) -> dict[str, str]:
    return {name: text(part.standby) for name, part in sorted(plan.members.items())}


def awaited(plan: Plan) -> dict[str, str]:
    return {name: text(part.awaited) for name, part in plan.members.items() if part.awaited}


def third(c: MemberState | None = None, **rules: object) -> GroupState:
    """Two instances with two active tasks and three standbys each, and one without standbys."""
    a = member("A", active="0_0 0_1", caught_up="0_2 0_3 0_4")
    b = member("B", active="0_2 0_3", caught_up="0_0 0_1 0_5")
    c = c or member("C", active="0_4 0_5")
    return group(a, b, c, **{"standbys": 1, **rules})


def test_a_third_instance_begins_standbys_beside_those_that_stand() -> None:
    plan = planned(third())
    assert kept(plan) == {"A": "0_2 0_3 0_4", "B": "0_0 0_1 0_5", "C": "0_0 0_2"}
    assert awaited(plan) == {"C": "0_0 0_2"}
    assert plan.follow_up_ms is None, "the member asks for the next round"


def test_the_old_standbys_go_when_their_successors_have_caught_up() -> None:
    plan = planned(third(member("C", active="0_4 0_5", caught_up="0_0 0_2")))
    assert kept(plan) == {"A": "0_3 0_4", "B": "0_1 0_5", "C": "0_0 0_2"}
    assert awaited(plan) == {}


def test_each_goes_on_its_own_as_soon_as_its_successor_has_caught_up() -> None:
    plan = planned(third(member("C", active="0_4 0_5", caught_up="0_0", standby="0_2")))
    assert kept(plan) == {"A": "0_2 0_3 0_4", "B": "0_1 0_5", "C": "0_0 0_2"}
    assert awaited(plan) == {"C": "0_2"}


def test_a_move_that_is_of_no_use_any_more_is_given_up() -> None:
    a = member("A", active="0_0", caught_up="0_1")
    b = member("B", active="0_1", caught_up="0_2", standby="0_0")
    plan = planned(group(a, b, member("C", active="0_2", caught_up="0_0"), standbys=1))
    assert kept(plan) == {"A": "0_1", "B": "0_2", "C": "0_0"}
    assert awaited(plan) == {}


@pytest.mark.parametrize("limits", [{"max_learners_member": 1}, {"max_learners_group": 1}])
def test_the_budgets_for_learners_bound_what_moves_at_a_time(limits: dict[str, int]) -> None:
    assert awaited(planned(third(**limits))) == {"C": "0_2"}
    begun = member("C", active="0_4 0_5", standby="0_0")
    assert awaited(planned(third(begun, **limits))) == {"C": "0_0"}


def test_another_member_of_the_instance_begins_where_the_budget_of_one_is_spent() -> None:
    crew = [
        member("A", active="0_0 0_1", caught_up="0_2 0_3 0_4"),
        member("B", active="0_2 0_3", caught_up="0_0 0_1 0_5"),
        member("C", active="0_4", instance="one"),
        member("D", active="0_5", instance="one"),
    ]
    plan = planned(group(*crew, standbys=1, max_learners_member=1))
    assert awaited(plan) == {"C": "0_2", "D": "0_0"}


def test_no_standby_begins_to_move_while_an_active_task_is_learned() -> None:
    a = member("A", active="0_0 0_1 0_4", caught_up="0_2 0_3")
    b = member("B", active="0_2 0_3 0_5", caught_up="0_0 0_1 0_4")
    plan = planned(group(a, b, member("C", learner="0_4 0_5"), standbys=1))
    assert text(plan.members["C"].learner) == "0_4 0_5"
    assert awaited(plan) == {}


def test_no_standby_begins_to_move_while_a_lost_task_waits_for_its_owner() -> None:
    plan = planned(third(tasks="0_9", deferral_ms=5_000))
    assert text(plan.unassigned) == "0_9"
    assert awaited(plan) == {}


def test_a_standby_that_has_not_caught_up_is_awaited_before_it_moves() -> None:
    a = member("A", active="0_0 0_1", standby="0_2 0_3 0_4")
    b = member("B", active="0_2 0_3", standby="0_0 0_1 0_5")
    plan = planned(group(a, b, member("C", active="0_4 0_5"), standbys=1))
    assert kept(plan)["C"] == ""
    assert set(awaited(plan)) == {"A", "B"}


def test_a_member_that_cannot_learn_begins_no_successor() -> None:
    plan = planned(third(member("C", active="0_4 0_5", learners=False)))
    assert kept(plan)["C"] == ""


def test_a_copy_that_a_member_without_learners_reads_is_not_awaited() -> None:
    reads = member("C", active="0_4 0_5", standby="0_0", learners=False)
    plan = planned(third(reads))
    assert keepers(plan) == ["B"]


def test_state_on_disk_goes_before_a_move_from_nothing() -> None:
    plan = planned(third(member("C", active="0_4 0_5", dormant="0_1 0_3")))
    assert awaited(plan) == {"C": "0_1 0_3"}


def test_standbys_that_move_warm_up_as_additional_copies() -> None:
    """Warm copies of a task are never fewer than before, from the first round to the last."""
    cluster = Cluster(stateful(12), Rules(standbys=1))
    for name in "AB":
        cluster.join(name)
    cluster.settle()
    cluster.round()
    cluster.join("C")
    for _ in range(60):
        cluster.round()
        for id_ in cluster.tasks:
            copies = [m.copies[id_] for m in cluster.members.values() if id_ in m.copies]
            roles = (Role.ACTIVE, Role.STANDBY)
            assert len([c for c in copies if c.role in roles and c.ready]) >= 2, cluster.story(
                "cold"
            )
        cluster.ready()
    counts = [len(m.holds(Role.STANDBY)) for m in cluster.members.values()]
    assert sum(counts) == 12
    assert max(counts) - min(counts) <= 2, "each has its share, give or take a fifth"


@pytest.mark.parametrize("instances", [3, 4, 6])
def test_instances_that_join_one_by_one_end_with_a_like_load(instances: int) -> None:
    cluster = Cluster(stateful(24), Rules(standbys=1))
    for number in range(instances):
        cluster.join(f"i{number}")
        cluster.settle()
    loads = [len(m.holds(Role.ACTIVE, Role.STANDBY)) for m in cluster.members.values()]
    share = 48 / instances
    assert all(0.8 * share - 1 <= load <= 1.2 * share + 1 for load in loads), loads


# -- tags ------------------------------------------------------------------------------------------


def racked(name: str, rack: str, **copies: str) -> MemberState:
    return member(name, tags={"rack": rack}, **copies)


def test_a_standby_that_moves_for_its_tags_stays_until_its_successor_is_warm() -> None:
    crew = [racked("A", "x", active="0_0"), racked("B", "x", caught_up="0_0")]
    plan = planned(group(*crew, racked("C", "y"), **RACK))
    assert keepers(plan) == ["B", "C"]
    assert awaited(plan) == {"C": "0_0"}
    plan = planned(group(*crew, racked("C", "y", standby="0_0"), **RACK))
    assert keepers(plan) == ["B", "C"]
    plan = planned(group(*crew, racked("C", "y", caught_up="0_0"), **RACK))
    assert keepers(plan) == ["C"]


def test_two_standbys_differ_from_the_active_before_they_differ_from_each_other() -> None:
    crew = [racked("A", "x", active="0_0"), racked("B", "x"), racked("C", "y"), racked("D", "y")]
    plan = planned(group(*crew, standbys=2, rack_tags=("rack",)))
    assert keepers(plan) == ["C", "D"]


def test_one_of_two_standbys_leaves_the_rack_of_the_active_for_that_of_the_other() -> None:
    crew = [
        racked("A", "x", active="0_0"),
        racked("B", "x", caught_up="0_0"),
        racked("C", "y", caught_up="0_0"),
        racked("D", "y"),
    ]
    plan = planned(group(*crew, standbys=2, rack_tags=("rack",)))
    assert keepers(plan) == ["B", "C", "D"]
    assert awaited(plan) == {"D": "0_0"}


def test_no_standby_moves_into_the_rack_of_its_active_to_even_out_the_load() -> None:
    a = racked("A", "x", active="0_0 0_1", caught_up="0_2 0_3")
    b = racked("B", "y", active="0_2 0_3", caught_up="0_0 0_1 0_4 0_5")
    plan = planned(group(a, b, racked("C", "x", active="0_4 0_5"), **RACK))
    assert kept(plan) == {"A": "0_2 0_3", "B": "0_0 0_1 0_4 0_5", "C": ""}


def test_where_a_move_for_the_tags_has_to_wait_for_the_budget_the_standby_stays() -> None:
    crew = [
        racked("A", "x", active="0_0 0_1"),
        racked("B", "x", caught_up="0_0 0_1", active="0_2"),
        racked("C", "y", active="0_3"),
    ]
    plan = planned(group(*crew, max_learners_member=1, **RACK))
    assert awaited(plan) == {"C": "0_0"}
    assert keepers(plan, "0_1") == ["B"]
