"""What claims bind the leader: the rules L1 to L7 of the hand-over protocol."""

import attrs
import pytest

from streamlet.assignor.values import Copy, MemberState, Role
from tests.unit.assignor.groups import GENERATION, NOW, active, group, member, planned, task

T = task("0_0")


def claiming(name: str, role: Role, generation: int, **traits: object) -> MemberState:
    return member(name, copies={T: Copy(role, generation, ready=True)}, **traits)


def test_l1_a_claimed_task_stays_or_is_released_even_when_the_time_to_leave_is_up() -> None:
    plan = planned(group(member("A", active="0_0", leaves=NOW - 1), member("B", learner="0_0")))
    assert plan.members["A"].release == {T: "B"}
    assert plan.members["B"].pending == {T: "A"}
    assert plan.members["B"].active == frozenset()


def test_l2_the_task_of_a_pending_member_is_its_own_whoever_else_is_better() -> None:
    plan = planned(
        group(member("A", released="0_0"), member("B", pending="0_0"), member("C", ready="0_0"))
    )
    assert active(plan, "B") == "0_0"


def test_l2_of_several_pending_members_the_newest_order_counts() -> None:
    older = claiming("A", Role.PENDING, GENERATION - 2)
    newer = claiming("B", Role.PENDING, GENERATION - 1)
    assert active(planned(group(older, newer)), "B") == "0_0"


def test_l2_of_several_orders_of_one_generation_the_lower_member_id_counts() -> None:
    pair = [claiming(name, Role.PENDING, GENERATION - 1) for name in ("B", "A")]
    plan = planned(group(*pair))
    assert active(plan, "A") == "0_0"
    assert plan.members["B"].pending == {}


def test_l2_binds_a_leaving_member_too() -> None:
    plan = planned(group(member("A", pending="0_0", leaves=True), member("B")))
    assert active(plan, "A") == "0_0"


def test_l3_what_was_released_goes_to_anyone_and_by_preference_back() -> None:
    plan = planned(group(member("A", released="0_0"), member("B")))
    assert active(plan, "A") == "0_0"


def test_l3_a_leaving_member_goes_on_with_what_nobody_else_is_ready_for() -> None:
    plan = planned(group(member("A", released="0_0", leaves=True), member("B", learner="0_0")))
    assert active(plan, "A") == "0_0"
    assert plan.members["B"].learner == {T}


def test_l3_a_leaving_member_whose_time_is_up_gets_nothing_back() -> None:
    plan = planned(group(member("A", released="0_0", leaves=NOW - 1), member("B")))
    assert active(plan, "B") == "0_0"


def test_l4_an_order_that_was_not_carried_out_is_given_again() -> None:
    plan = planned(group(member("A", active="0_0 0_1 0_2"), member("B", pending="0_0")))
    assert plan.members["A"].release == {T: "B"}


def test_l4_an_order_to_a_member_that_now_leaves_is_cancelled() -> None:
    plan = planned(group(member("A", active="0_0"), member("B", pending="0_0", leaves=True)))
    assert active(plan, "A") == "0_0"
    assert plan.members["B"].pending == {}


def test_l4_an_order_to_a_member_that_cannot_run_the_task_is_cancelled() -> None:
    other = member("B", pending="0_0", runs=frozenset({1}))
    plan = planned(group(member("A", active="0_0"), other))
    assert active(plan, "A") == "0_0"


def test_l5_the_newest_of_several_active_claims_counts_and_the_others_drop_the_task() -> None:
    older = claiming("A", Role.ACTIVE, GENERATION - 3)
    newer = claiming("B", Role.ACTIVE, GENERATION - 1)
    plan = planned(group(older, newer))
    assert active(plan, "B") == "0_0"
    assert T not in {*plan.members["A"].active, *plan.members["A"].revoke}


def test_l6_what_was_given_only_now_is_not_released_in_the_same_round() -> None:
    """The orphan goes to the disk of a full member; the ready standby gets it a round later."""
    full = member("A", active="0_1 0_2 0_3", ready="0_0")
    plan = planned(group(full, member("B", active="0_4"), tasks="0_5"))
    assert T in plan.members["A"].active
    assert all(not part.release for part in plan.members.values())


def test_l6_who_waits_for_a_task_is_given_it_before_it_is_to_release_it() -> None:
    """It leaves and another is ready, but whether it runs the task yet it has not said."""
    plan = planned(group(member("A", pending="0_0", leaves=True), member("B", ready="0_0")))
    assert plan.members["A"].active == {T}
    assert all(not part.release for part in plan.members.values())
    assert plan.follow_up_ms is not None


def test_l6_after_a_hand_over_nothing_more_is_asked_for() -> None:
    plan = planned(group(member("A", active="0_0 0_1 0_2"), member("B", ready="0_0")))
    assert plan.follow_up_ms is None


def test_l7_a_surrendered_task_comes_back_while_its_learner_is_not_ready() -> None:
    owner = member("A", released="0_0", active="0_1 0_2")
    plan = planned(group(owner, member("B", learner="0_0"), handover="surrender"))
    assert active(plan, "A") == "0_0 0_1 0_2"
    assert plan.members["A"].being_learned == {T}
    assert plan.members["B"].learner == {T}


def test_l7_a_surrendered_task_goes_to_a_ready_learner_outright() -> None:
    owner = member("A", released="0_0", active="0_1 0_2")
    plan = planned(group(owner, member("B", ready="0_0"), handover="surrender"))
    assert active(plan, "B") == "0_0"
    assert not plan.members["A"].release
    assert not plan.members["B"].pending


def test_a_ready_standby_is_made_a_learner_before_its_task_is_surrendered() -> None:
    owner = member("A", active="0_0 0_1 0_2")
    plan = planned(group(owner, member("B", caught_up="0_0"), handover="surrender"))
    assert plan.members["A"].being_learned == {T}
    assert plan.members["B"].learner == {T}
    assert plan.follow_up_ms == NOW


@pytest.mark.parametrize("learners", [True, False])
def test_an_owner_whose_topology_lost_the_task_gives_it_up_first(learners: bool) -> None:
    owner = member("A", active="0_0", runs=frozenset({1}))
    plan = planned(group(owner, member("B"), learners=learners))
    assert plan.members["A"].revoke == {T}
    assert plan.follow_up_ms == 0


def test_tasks_there_are_not_are_ignored() -> None:
    state = group(member("A", active="0_0 7_7"))
    state = attrs.evolve(state, tasks=tuple(info for info in state.tasks if info.task == T))
    assert active(planned(state), "A") == "0_0"
