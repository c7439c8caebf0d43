"""Copies kept for good: how many, where, and what becomes of them when a task moves."""

from streamlet.assignor.values import Plan, Role, Rules
from tests.unit.assignor.cluster import Cluster, stateful
from tests.unit.assignor.groups import group, member, planned, task, text

T = task("0_0")


def keepers(plan: Plan, name: str = "0_0") -> list[str]:
    return sorted(m for m, part in plan.members.items() if task(name) in part.standby)


def test_a_standby_is_never_beside_its_active() -> None:
    crew = [member(n, instance="one") for n in "AB"]
    plan = planned(group(*crew, member("C"), tasks="0_0 0_1 0_2", standbys=1))
    for part in plan.members.values():
        assert not part.standby & part.active
    for name in ("0_0", "0_1", "0_2"):
        assert len(keepers(plan, name)) == 1


def test_there_are_no_more_standbys_than_other_instances() -> None:
    plan = planned(group(member("A"), member("B"), tasks="0_0", standbys=3))
    assert len(keepers(plan)) == 1


def test_standbys_are_spread_by_load() -> None:
    cluster = Cluster(stateful(12), Rules(standbys=1))
    for name in "ABC":
        cluster.join(name)
    cluster.settle()
    assert [len(m.holds(Role.STANDBY)) for m in cluster.members.values()] == [4, 4, 4]


def test_a_standby_stays_where_it_is() -> None:
    owner = member("A", active="0_0")
    plan = planned(group(owner, member("B"), member("C", standby="0_0"), standbys=1))
    assert keepers(plan) == ["C"]


def test_of_too_many_standbys_those_that_have_caught_up_stay() -> None:
    owner = member("A", active="0_0")
    pair = (member("B", standby="0_0"), member("C", caught_up="0_0"))
    assert keepers(planned(group(owner, *pair, standbys=1))) == ["C"]


def test_whoever_hands_a_task_over_keeps_its_copy_as_a_standby() -> None:
    owner = member("A", active="0_0 0_1 0_2", caught_up="0_3")
    plan = planned(group(owner, member("B", ready="0_0", active="0_3"), member("C"), standbys=1))
    assert plan.members["A"].release == {T: "B"}
    assert "A" in keepers(plan)


def test_the_releasers_copy_goes_before_a_standby_that_has_not_caught_up() -> None:
    owner = member("A", active="0_0 0_1 0_2")
    behind = member("C", standby="0_0", active="0_4")
    plan = planned(group(owner, member("B", ready="0_0"), behind, standbys=1))
    assert plan.members["A"].release == {T: "B"}
    assert keepers(plan) == ["A"]


def test_a_standby_that_has_caught_up_goes_before_the_releasers_copy() -> None:
    owner = member("A", active="0_0 0_1 0_2")
    kept = member("C", caught_up="0_0", active="0_4")
    plan = planned(group(owner, member("B", ready="0_0"), kept, standbys=1))
    assert plan.members["A"].release == {T: "B"}
    assert keepers(plan) == ["C"]


def test_a_leaving_member_keeps_no_standby_of_what_it_hands_over() -> None:
    owner = member("A", active="0_0", leaves=True)
    plan = planned(group(owner, member("B", ready="0_0"), member("C"), standbys=1))
    assert plan.members["A"].release == {T: "B"}
    assert keepers(plan) == ["C"]


def test_none_is_begun_while_the_task_is_learned_for_its_owners_copy_will_be_one() -> None:
    owner = member("A", active="0_0 0_1")
    plan = planned(group(owner, member("B", learner="0_0"), member("C", active="0_2"), standbys=1))
    assert plan.members["B"].learner == {T}
    assert keepers(plan) == []


def test_one_is_begun_while_the_task_is_learned_if_its_owner_leaves() -> None:
    owner = member("A", active="0_0", leaves=True)
    others = (member("B", learner="0_0"), member("C", active="0_2", caught_up="0_9"))
    assert keepers(planned(group(owner, *others, tasks="0_9", standbys=1))) == ["C"]


def test_a_learner_is_no_standby_of_the_same_task() -> None:
    owner = member("A", active="0_0 0_1 0_2")
    plan = planned(group(owner, member("B", caught_up="0_0"), standbys=1, handover="surrender"))
    assert plan.members["B"].learner == {T}
    assert keepers(plan) == []


def test_a_leaving_standby_goes_on_until_its_replacement_has_caught_up() -> None:
    owner = member("A", active="0_0")
    leaver = member("B", caught_up="0_0", leaves=True)
    assert keepers(planned(group(owner, leaver, member("C"), standbys=1))) == ["B", "C"]
    done = member("C", caught_up="0_0")
    assert keepers(planned(group(owner, leaver, done, standbys=1))) == ["C"]


def test_state_on_disk_is_taken_up_again_before_a_standby_begins_from_nothing() -> None:
    owner = member("A", active="0_0")
    plan = planned(group(owner, member("B"), member("C", dormant="0_0"), standbys=1))
    assert keepers(plan) == ["C"]


def test_a_copy_just_released_is_taken_up_before_one_on_disk() -> None:
    pair = (member("B", dormant="0_0"), member("C", released="0_0", leaves=False))
    plan = planned(group(member("A", ready="0_0"), *pair, standbys=1, handover="surrender"))
    assert keepers(plan) == ["C"]


def test_standbys_keep_away_from_the_rack_of_the_active() -> None:
    racks = {"A": "x", "B": "x", "C": "y"}
    crew = [member(n, tags={"rack": rack}) for n, rack in racks.items()]
    crew[0] = member("A", active="0_0", tags={"rack": "x"})
    plan = planned(group(*crew, standbys=1, rack_tags=("rack",)))
    assert keepers(plan) == ["C"]


def test_standbys_stand_in_different_racks_and_the_first_tag_counts_most() -> None:
    tags = {
        "A": {"zone": "1", "rack": "x"},
        "B": {"zone": "1", "rack": "y"},
        "C": {"zone": "2", "rack": "x"},
        "D": {"zone": "3", "rack": "x"},
        "E": {"zone": "2", "rack": "y"},
    }
    crew = [member(n, tags=tags[n], active="0_0" if n == "A" else "") for n in tags]
    plan = planned(group(*crew, standbys=2, rack_tags=("zone", "rack")))
    assert keepers(plan) == ["D", "E"]


def test_an_instance_without_the_tag_clashes_with_nobody() -> None:
    crew = [member("A", active="0_0", tags={"rack": "x"}), member("B", tags={"rack": "x"})]
    plan = planned(group(*crew, member("C"), standbys=1, rack_tags=("rack",)))
    assert keepers(plan) == ["C"]


def test_tags_are_still_satisfied_after_the_hand_over() -> None:
    crew = [
        member("A", active="0_0 0_1 0_2", tags={"rack": "x"}),
        member("B", ready="0_0", tags={"rack": "y"}),
        member("C", caught_up="0_0", active="0_3", tags={"rack": "y"}),
    ]
    plan = planned(group(*crew, standbys=1, rack_tags=("rack",)))
    assert plan.members["A"].release == {T: "B"}
    assert keepers(plan) == ["A"]


def test_a_standby_goes_only_to_members_that_can_run_the_task() -> None:
    crew = (member("A", active="0_0"), member("B", runs=frozenset({1})), member("C"))
    assert keepers(planned(group(*crew, standbys=1))) == ["C"]


def test_while_a_lost_task_waits_its_standbys_go_on_and_none_is_begun() -> None:
    crew = (member("A", active="0_1", standby="0_0"), member("B", active="0_2"))
    plan = planned(group(*crew, standbys=2, deferral_ms=5_000))
    assert text(plan.unassigned) == "0_0"
    assert keepers(plan) == ["A"]


def test_stateless_tasks_have_no_standby() -> None:
    plan = planned(group(member("A"), member("B"), stateless="0_0", standbys=1))
    assert keepers(plan) == []


def test_a_standby_lands_on_the_member_of_the_instance_with_the_fewest_copies() -> None:
    owner = member("A", active="0_0 0_1", capacity=2.0)
    crew = [member("B", active="0_2", instance="one"), member("C", instance="one")]
    plan = planned(group(owner, *crew, standbys=1))
    assert len(plan.members["C"].standby) >= 1
