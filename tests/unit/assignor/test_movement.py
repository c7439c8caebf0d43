"""How much moves, and how: the fewest moves, each once, each on warm state."""

import attrs
import pytest

from streamlet.assignor.values import Role, Rules
from streamlet.assignor.waits import RELEASE_MS
from tests.unit.assignor.cluster import Cluster, stateful
from tests.unit.assignor.groups import NOW, active, group, member, planned, task

HANDOVERS = ("release", "surrender")


def settled(tasks: int, instances: int, **rules: object) -> Cluster:
    cluster = Cluster(stateful(tasks), Rules(**rules))  # type: ignore[arg-type]
    for number in range(instances):
        cluster.join(f"i{number:02}")
    cluster.settle()
    cluster.moved.clear()
    return cluster


@pytest.mark.parametrize("handover", HANDOVERS)
@pytest.mark.parametrize(
    ("tasks", "instances", "imbalance", "moves"),
    [(100, 10, 0.2, 8), (100, 10, 0.0, 9), (12, 3, 0.2, 3), (80, 1, 0.2, 32), (3, 3, 0.2, 0)],
)
def test_a_newcomer_takes_the_fewest_tasks_that_bring_all_into_the_band(
    tasks: int, instances: int, imbalance: float, moves: int, handover: str
) -> None:
    cluster = settled(tasks, instances, imbalance=imbalance, handover=handover)
    cluster.join("newcomer")
    cluster.settle()
    assert len(cluster.moved) == len(set(cluster.moved)) == moves
    assert cluster.last is not None
    assert cluster.last.out_of_band == ()


@pytest.mark.parametrize("handover", HANDOVERS)
@pytest.mark.parametrize("standbys", [0, 1])
def test_when_eight_of_forty_leave_only_their_eighty_tasks_move(
    handover: str, standbys: int
) -> None:
    cluster = settled(400, 40, handover=handover, standbys=standbys)
    before = cluster.owners()
    for number in range(8):
        cluster.drain(f"i{number:02}")
    cluster.settle()
    after = cluster.owners()
    unassigned = {t for t, name in before.items() if name in {f"i{n:02}" for n in range(8)}}
    assert len(unassigned) == 80
    assert {t for t in before if before[t] != after[t]} == unassigned
    assert sorted(cluster.moved) == sorted(unassigned)
    assert len(set(cluster.exited)) == 8


def test_when_eight_of_forty_die_only_their_eighty_tasks_move() -> None:
    cluster = settled(400, 40)
    before = cluster.owners()
    for number in range(8):
        cluster.crash(f"i{number:02}")
    assert cluster.settle() == 1
    after = cluster.owners()
    assert sum(before[t] != after[t] for t in before) == 80


def test_unchanged_input_moves_nothing() -> None:
    cluster = settled(100, 7)
    first = cluster.round()
    second = cluster.round()
    assert first.members == second.members
    assert cluster.moved == []
    assert second.follow_up_ms is None


def test_eleven_tasks_reach_a_second_member_within_six_rounds() -> None:
    cluster = settled(11, 1, max_learners_group=2)
    cluster.join("newcomer")
    assert cluster.settle() <= 6
    assert cluster.loads() == [5, 6]


def test_eleven_tasks_reach_a_second_member_within_six_rounds_even_one_by_one() -> None:
    cluster = settled(11, 1, max_learners_group=2)
    cluster.join("newcomer")
    rounds = 1
    cluster.round()
    while learning := sorted(t for m in cluster.members.values() for t in m.holds(Role.LEARNER)):
        cluster.ready(learning[:1])
        cluster.round()
        rounds += 1
    assert rounds <= 6
    assert cluster.loads() == [5, 6]


def test_thirteen_tasks_leave_a_seventh_member_within_eight_rounds() -> None:
    cluster = settled(13, 7, max_learners_group=2)
    cluster.drain("i00")
    assert cluster.settle() <= 8
    assert cluster.loads() == [2, 2, 2, 2, 2, 3]


def test_far_fewer_tasks_than_members_are_not_shuffled() -> None:
    cluster = settled(3, 3)
    for number in range(7):
        cluster.join(f"late{number}")
    assert cluster.settle() == 1
    assert cluster.moved == []


def test_twelve_of_an_expected_ten_are_inside_a_band_of_a_fifth() -> None:
    sizes = {"A": (5.0, 12), "B": (10.0, 18), "C": (10.0, 23), "D": (15.0, 27)}
    members, first = [], 0
    for name, (capacity, count) in sizes.items():
        names = " ".join(f"0_{number}" for number in range(first, first + count))
        members.append(member(name, active=names, capacity=capacity))
        first += count
    plan = planned(group(*members))
    assert all(not part.learner for part in plan.members.values())


def test_learning_goes_on_until_the_copy_is_ready_and_the_owner_runs_on() -> None:
    owner = member("A", active="0_0 0_1 0_2 0_3")
    plan = planned(group(owner, member("B", learner="0_2 0_3")))
    assert active(plan, "A") == "0_0 0_1 0_2 0_3"
    assert plan.members["B"].learner == {task("0_2"), task("0_3")}
    assert plan.members["A"].being_learned == {task("0_2"), task("0_3")}
    assert plan.follow_up_ms is None


def test_hand_overs_do_not_wait_for_each_other() -> None:
    owner = member("A", active="0_0 0_1 0_2 0_3")
    plan = planned(group(owner, member("B", ready="0_2", learner="0_3")))
    assert plan.members["B"].pending == {task("0_2"): "A"}
    assert plan.members["B"].learner == {task("0_3")}


def test_a_learner_target_is_the_holder_of_a_standby_first() -> None:
    owner = member("A", active="0_0 0_1 0_2 0_3 0_4 0_5", leaves=True)
    plan = planned(group(owner, member("B"), member("C", standby="0_0 0_1 0_2", active="0_9")))
    assert {task("0_0"), task("0_1"), task("0_2")} <= plan.members["C"].learner


def test_the_task_of_a_caught_up_standby_moves_without_a_learner() -> None:
    owner = member("A", active="0_0 0_1 0_2 0_3")
    plan = planned(group(owner, member("B", caught_up="0_3")))
    assert plan.members["A"].release == {task("0_3"): "B"}


def test_learners_are_taken_from_the_fullest() -> None:
    plan = planned(
        group(
            member("A", active="0_0 0_1 0_2 0_3 0_4"),
            member("B", active="0_5 0_6 0_7"),
            member("C", active="0_8"),
            imbalance=0.0,
        )
    )
    assert len(plan.members["A"].being_learned) == 2
    assert plan.members["B"].being_learned == frozenset()


def test_a_newcomer_with_room_goes_before_another_stayer_with_room() -> None:
    """Nobody is below its band, so the only question is who takes what A has too much."""
    crowded = member("A", active="0_0 0_1 0_2 0_3 0_7", capacity=2.0)
    settled_members = [member(n, active=f"0_{k}") for n, k in (("B", 4), ("C", 5), ("D", 6))]
    newcomer = member("E")
    older = member("BB", joined_generation=3)
    plan = planned(group(crowded, *settled_members, older, newcomer, imbalance=1.0))
    assert plan.members["BB"].learner == frozenset()
    assert len(plan.members["E"].learner) == 1


def test_the_holder_of_a_standby_goes_before_a_newcomer() -> None:
    """Nobody is below its band, and the newcomer is the emptiest; but B has a copy already."""
    crowded = member("A", active="0_0 0_1 0_2 0_3 0_7 0_9", capacity=2.0)
    others = [member(n, active=f"0_{k}") for n, k in (("C", 5), ("D", 6), ("F", 8))]
    holder = member("B", active="0_4", standby="0_2")
    plan = planned(group(crowded, *others, holder, member("E"), imbalance=1.0))
    assert plan.members["B"].learner == {task("0_2")}
    assert plan.members["E"].learner == frozenset()


def test_a_learner_is_dropped_when_its_move_would_do_harm() -> None:
    """The drain was cancelled: B may keep what C was learning."""
    state = group(member("B", active="0_0 0_1"), member("C", active="0_2 0_3", learner="0_0 0_1"))
    plan = planned(state)
    assert plan.members["C"].learner == frozenset()
    assert active(plan, "B") == "0_0 0_1"


def test_a_useful_learner_keeps_its_task_whoever_else_arrives() -> None:
    owner = member("A", active="0_0 0_1 0_2 0_3")
    plan = planned(group(owner, member("B", learner="0_3"), member("C")))
    assert plan.members["B"].learner == {task("0_3")}
    assert len(plan.members["C"].learner) == 1


def test_a_learner_that_does_no_harm_goes_on() -> None:
    """Both are in their band with and without the move; what was begun is finished."""
    crew = (member("A", active="0_0 0_1 0_2"), member("B", active="0_3 0_4", learner="0_0"))
    plan = planned(group(*crew))
    assert plan.members["B"].learner == {task("0_0")}
    assert plan.members["A"].being_learned == {task("0_0")}


def test_of_two_learners_of_one_task_the_more_advanced_goes_on() -> None:
    owner = member("A", active="0_0 0_1 0_2")
    plan = planned(group(owner, member("B", learner="0_0"), member("C", ready="0_0")))
    assert plan.members["C"].pending == {task("0_0"): "A"}
    assert task("0_0") not in plan.members["B"].learner


def test_a_member_that_cannot_learn_gets_no_learner_and_keeps_what_it_has() -> None:
    old = member("A", active="0_0 0_1 0_2 0_3", learners=False)
    plan = planned(group(old, member("B"), member("C", active="0_4 0_5 0_6 0_7")))
    assert active(plan, "A") == "0_0 0_1 0_2 0_3"
    assert plan.members["A"].being_learned == frozenset()
    plan = planned(group(member("A", learners=False), member("B", active="0_0 0_1 0_2 0_3")))
    assert plan.members["A"].learner == frozenset()
    assert plan.out_of_band == ("i-A", "i-B")


def test_a_member_that_cannot_learn_still_gets_what_nobody_runs() -> None:
    plan = planned(group(member("A", learners=False), member("B"), tasks="0_0 0_1"))
    assert len(plan.members["A"].active) == 1


def test_a_band_that_cannot_be_reached_is_approached_and_reported() -> None:
    owner = member("A", active="0_0 0_1")
    plan = planned(group(owner, member("B"), weights={"0_0": 100, "0_1": 3}))
    assert len(plan.members["B"].learner) == 1
    assert plan.out_of_band == ("i-A", "i-B")


def test_heavy_tasks_go_where_they_fit() -> None:
    owner = member("A", active="0_0 0_1 0_2 0_3")
    weights = {"0_0": 6, "0_1": 1, "0_2": 1, "0_3": 4}
    plan = planned(group(owner, member("B"), weights=weights, imbalance=0.0))
    assert plan.members["B"].learner == {task("0_0")}


def test_an_orphan_with_a_warm_copy_on_a_full_member_is_learned_away_at_once() -> None:
    full = member("A", active="0_1 0_2", caught_up="0_0")
    plan = planned(group(full, member("B")))
    assert task("0_0") in plan.members["A"].active
    assert len(plan.members["B"].learner) == 1
    assert plan.follow_up_ms is None


def test_a_move_within_an_instance_needs_no_learner() -> None:
    full = member("A", active="0_0 0_1 0_2", instance="one")
    plan = planned(group(full, member("B", instance="one")))
    assert list(plan.members["A"].release.values()) == ["B"]
    assert plan.follow_up_ms is None


def test_a_move_within_an_instance_is_ordered_again_until_it_is_done() -> None:
    full = member("A", active="0_0 0_1", instance="one")
    plan = planned(group(full, member("B", pending="0_0", instance="one")))
    assert plan.members["A"].release == {task("0_0"): "B"}


@pytest.mark.parametrize("members", [2, 3])
def test_under_surrender_a_move_within_an_instance_takes_two_rounds(members: int) -> None:
    full = member("A", active="0_0 0_1 0_2", instance="one")
    others = [member(name, instance="one") for name in "BCD"[: members - 1]]
    plan = planned(group(full, *others, handover="surrender"))
    assert len(plan.members["A"].revoke) == members - 1
    assert plan.follow_up_ms == 0


def test_a_member_that_still_reads_the_copy_lets_go_of_it_before_it_takes_the_task_over() -> None:
    """The owner waits for the folder, so it could not release the task, and both would wait."""
    owner = member("A", active="0_0 0_1 0_2", instance="one")
    reader = member("B", ready="0_0", instance="one")
    plan = planned(group(owner, reader))
    assert task("0_0") in plan.members["A"].active
    assert plan.members["B"].learner == frozenset()
    others = [moved for moved in plan.members["A"].release if moved != task("0_0")]
    assert others or plan.follow_up_ms is not None

    later = planned(group(owner, attrs.evolve(reader, copies={})))
    assert later.members["A"].release == {task("0_0"): "B"}


def test_members_that_become_uneven_by_a_hand_over_are_looked_at_again() -> None:
    """B gets two tasks by open orders; only when it has them can one go on to C."""
    owner = member("A", active="0_0 0_1 0_2 0_3 0_4 0_5")
    crew = [member("B", active="0_6", pending="0_0 0_1", instance="one", capacity=2.0)]
    crew.append(member("C", instance="one", capacity=2.0, joined_generation=3))
    plan = planned(group(owner, *crew, imbalance=0.5))
    assert plan.follow_up_ms is not None
    assert plan.follow_up_ms > NOW


def test_the_busier_member_of_an_instance_gives_first() -> None:
    crew = (
        member("A", active="0_0 0_1", instance="one", capacity=2.0),
        member("B", active="0_2 0_3 0_4", instance="one", capacity=2.0),
    )
    plan = planned(group(*crew, member("C"), imbalance=0.0))
    assert len(plan.members["B"].being_learned) == 1
    assert plan.members["A"].being_learned == frozenset()


def test_who_joins_amid_hand_overs_has_its_share_planned_once_they_are_over() -> None:
    """C was to have three of eight among three; nobody would ask again when it has them."""
    tasks = "0_0 0_1 0_2 0_3 0_4 0_5 0_6 0_7"
    giver, next_owner = member("A", active=tasks), member("C", pending="0_1 0_4 0_5")
    early = planned(group(giver, member("B", pending="0_0 0_6"), next_owner, member("D")))
    assert len(early.members["D"].learner) == 1
    assert early.follow_up_ms == NOW + RELEASE_MS
    assert early.out_of_band == ("i-C", "i-D")

    over = group(
        member("A", active="0_2 0_3"),
        member("B", active="0_0 0_6"),
        member("C", active="0_1 0_4 0_5"),
        member("D", active="0_7"),
    )
    late = planned(over)
    assert len(late.members["D"].learner & {task("0_1"), task("0_4"), task("0_5")}) == 1
    assert late.follow_up_ms is None


def test_hand_overs_that_end_where_they_should_need_no_further_round() -> None:
    giver, next_owner = member("A", active="0_0 0_1 0_2 0_3"), member("B", pending="0_0 0_1")
    assert planned(group(giver, next_owner)).follow_up_ms is None


def test_nor_do_those_that_end_as_near_as_they_can() -> None:
    """The heavy one is too much for either."""
    heavy = {task("0_0"): 9, task("0_1"): 1}
    giver, next_owner = member("A", active="0_0 0_1"), member("B", pending="0_1")
    state = group(giver, next_owner)
    weighted = tuple(attrs.evolve(one, weight=heavy[one.task]) for one in state.tasks)
    plan = planned(attrs.evolve(state, tasks=weighted))
    assert plan.out_of_band == ("i-A", "i-B")
    assert plan.follow_up_ms is None
