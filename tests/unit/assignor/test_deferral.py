"""Waiting for lost members (design II), and for the first ones."""

import attrs

from streamlet.assignor.values import GroupState
from tests.unit.assignor.groups import NOW, active, group, member, planned, text

DELAY = 30_000
#: Two members with work; 0_2 is nobody's.
PAIR = (member("A", active="0_0"), member("B", active="0_1"))


def at(state: GroupState, now_ms: int) -> GroupState:
    return attrs.evolve(state, now_ms=now_ms)


def told(deadline_ms: int | None) -> tuple:
    """The pair after it has heard of a deadline."""
    return tuple(attrs.evolve(m, deferral_deadline_ms=deadline_ms) for m in PAIR)


def test_a_lost_task_waits_and_all_are_told_until_when() -> None:
    plan = planned(group(*PAIR, tasks="0_2", stateless="0_2", deferral_ms=DELAY))
    assert text(plan.unassigned) == "0_2"
    assert plan.follow_up_ms == plan.deferral_deadline_ms == NOW + DELAY


def test_a_running_deadline_is_kept() -> None:
    plan = planned(group(*told(NOW + 7), tasks="0_2", deferral_ms=DELAY))
    assert plan.follow_up_ms == plan.deferral_deadline_ms == NOW + 7


def test_a_leader_new_to_the_group_takes_the_earliest_deadline_it_reads() -> None:
    fresh = member("C", joined_generation=3, learner="0_0")
    early, late = told(NOW + 7)[0], told(NOW + 9)[1]
    plan = planned(group(early, late, fresh, tasks="0_2", deferral_ms=DELAY))
    assert plan.deferral_deadline_ms == NOW + 7


def test_no_deadline_is_further_away_than_the_delay_by_the_leaders_clock() -> None:
    plan = planned(group(*told(NOW + 10 * DELAY), tasks="0_2", deferral_ms=DELAY))
    assert plan.deferral_deadline_ms == NOW + DELAY


def test_at_the_deadline_the_task_is_given() -> None:
    plan = planned(group(*told(NOW), tasks="0_2", deferral_ms=DELAY))
    assert sorted(len(part.active) for part in plan.members.values()) == [1, 2]
    assert plan.deferral_deadline_ms is None
    assert plan.follow_up_ms is None


def test_without_a_delay_nothing_waits() -> None:
    assert planned(group(*PAIR, tasks="0_2")).unassigned == frozenset()


def test_a_member_with_nothing_ends_the_wait() -> None:
    plan = planned(group(*told(NOW + 7), member("C"), tasks="0_2", deferral_ms=DELAY))
    assert active(plan, "C") == "0_2"
    assert plan.deferral_deadline_ms is None


def test_one_that_comes_back_with_its_disk_ends_the_wait_too() -> None:
    plan = planned(group(*told(NOW + 7), member("C", dormant="0_2"), deferral_ms=DELAY))
    assert active(plan, "C") == "0_2"


def test_a_member_that_leaves_or_cannot_run_it_does_not_end_the_wait() -> None:
    crew = (member("C", leaves=True), member("D", runs=frozenset({1})))
    plan = planned(group(*PAIR, *crew, tasks="0_2", deferral_ms=DELAY))
    assert text(plan.unassigned) == "0_2"


def test_a_task_with_a_caught_up_copy_does_not_wait() -> None:
    ready = member("A", active="0_0", caught_up="0_2")
    plan = planned(group(ready, PAIR[1], deferral_ms=DELAY))
    assert active(plan, "A") == "0_0 0_2"


def test_a_copy_that_lags_does_not_end_the_wait() -> None:
    plan = planned(group(member("A", active="0_0", standby="0_2"), PAIR[1], deferral_ms=DELAY))
    assert text(plan.unassigned) == "0_2"


def test_what_was_given_up_on_purpose_does_not_wait() -> None:
    giving = member("A", active="0_0", released="0_2")
    plan = planned(group(giving, PAIR[1], stateless="0_0 0_1 0_2", deferral_ms=DELAY))
    assert plan.unassigned == frozenset()


def test_a_subtopology_that_nobody_claims_is_new_and_given_at_once() -> None:
    plan = planned(group(*PAIR, tasks="1_0 1_1", deferral_ms=DELAY))
    assert plan.unassigned == frozenset()


def test_while_something_waits_nothing_else_moves() -> None:
    full = member("A", active="0_0 0_3 0_4 0_5")
    stateless = "1_0 1_1 1_2 1_3"
    owners = (full, member("B", active="0_1", learner="0_9"), member("C", active=stateless))
    plan = planned(group(*owners, tasks="0_2", stateless=stateless, deferral_ms=DELAY))
    assert text(plan.unassigned) == "0_2 0_9"
    assert all(not part.revoke for part in plan.members.values())
    assert active(plan, "A") == "0_0 0_3 0_4 0_5"
    assert not plan.members["A"].being_learned


def test_what_is_being_learned_goes_on_while_its_owner_is_waited_for() -> None:
    plan = planned(group(PAIR[0], member("B", active="0_1", learner="0_2"), deferral_ms=DELAY))
    assert text(plan.unassigned) == "0_2"
    assert text(plan.members["B"].learner) == "0_2"


def test_a_wait_does_not_keep_a_leaving_member_from_handing_over() -> None:
    leaver = member("A", active="0_0", leaves=True)
    plan = planned(
        group(leaver, member("B", active="0_1", ready="0_0"), tasks="0_2", deferral_ms=DELAY)
    )
    assert text(plan.members["A"].release) == "0_0"


def test_a_task_that_nobody_can_run_is_not_waited_for() -> None:
    leaver = member("A", active="0_0", leaves=True)
    plan = planned(group(leaver, member("B", runs=frozenset({1})), tasks="0_1", deferral_ms=DELAY))
    assert text(plan.unassigned) == "0_1"
    assert plan.deferral_deadline_ms is None
    assert plan.follow_up_ms is None


def test_the_first_members_are_held_back() -> None:
    state = group(member("A"), tasks="0_0 0_1", initial_delay_ms=3_000)
    plan = planned(state)
    assert text(plan.unassigned) == "0_0 0_1"
    assert plan.follow_up_ms == NOW + 3_000


def test_the_first_members_wait_no_longer_for_the_second() -> None:
    first = member("A", deferral_deadline_ms=NOW + 5, joined_generation=7)
    state = group(first, member("B"), tasks="0_0 0_1", initial_delay_ms=3_000)
    assert planned(state).follow_up_ms == NOW + 5
    plan = planned(at(state, NOW + 5))
    assert [len(part.active) for part in plan.members.values()] == [1, 1]
    assert plan.follow_up_ms is None


def test_a_group_of_which_nobody_can_run_anything_does_not_wait_for_ever() -> None:
    old = member("A", runs=frozenset({3}), joined_generation=7)
    plan = planned(group(old, tasks="0_0", initial_delay_ms=3_000))
    assert plan.follow_up_ms is None


def test_a_group_that_works_is_not_held_back() -> None:
    plan = planned(group(*PAIR, tasks="0_2", initial_delay_ms=3_000))
    assert plan.unassigned == frozenset()
