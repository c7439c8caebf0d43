"""Who becomes active: one test for each adjacent pair of the order of preference."""

from streamlet.assignor.values import Copy, Role
from tests.unit.assignor.groups import BEHIND, active, group, member, planned, task, text


def test_a_ready_learner_goes_before_the_owner() -> None:
    plan = planned(group(member("A", active="0_0 0_1 0_2"), member("B", ready="0_0")))
    assert plan.members["A"].release == {task("0_0"): "B"}
    assert plan.members["B"].pending == {task("0_0"): "A"}
    assert active(plan, "A") == "0_1 0_2"


def test_a_ready_learner_goes_before_the_previous_owner() -> None:
    plan = planned(group(member("A", released="0_0"), member("B", ready="0_0")))
    assert active(plan, "B") == "0_0"


def test_the_owner_goes_before_a_standby_that_has_caught_up() -> None:
    plan = planned(group(member("A", active="0_0"), member("B", caught_up="0_0")))
    assert active(plan, "A") == "0_0"


def test_the_previous_owner_goes_before_a_standby_that_has_caught_up() -> None:
    plan = planned(group(member("A", caught_up="0_0"), member("B", released="0_0")))
    assert active(plan, "B") == "0_0"


def test_a_standby_that_has_caught_up_goes_before_a_learner_that_has_not() -> None:
    plan = planned(group(member("A", learner="0_0"), member("B", caught_up="0_0")))
    assert active(plan, "B") == "0_0"


def test_a_learner_goes_before_a_standby_when_neither_has_caught_up() -> None:
    plan = planned(group(member("A", standby="0_0"), member("B", learner="0_0")))
    assert active(plan, "B") == "0_0"


def test_a_standby_that_has_not_caught_up_goes_before_state_on_disk() -> None:
    plan = planned(group(member("A", dormant="0_0"), member("B", standby="0_0")))
    assert active(plan, "B") == "0_0"


def test_state_on_disk_goes_before_nothing() -> None:
    plan = planned(group(member("A"), member("B", dormant="0_0")))
    assert active(plan, "B") == "0_0"


def test_state_on_disk_of_a_leaving_member_does_not_count() -> None:
    plan = planned(group(member("A"), member("B", dormant="0_0", leaves=True)))
    assert active(plan, "A") == "0_0"


def test_a_member_that_stays_goes_before_one_that_leaves() -> None:
    plan = planned(group(member("A", leaves=True), member("B", active="0_1"), tasks="0_0"))
    assert active(plan, "B") == "0_0 0_1"


def test_a_member_with_room_goes_before_one_without() -> None:
    plan = planned(group(member("A", active="0_1 0_2"), member("B"), tasks="0_0"))
    assert active(plan, "B") == "0_0"


def test_among_ready_copies_the_one_with_room_wins_over_a_smaller_lag() -> None:
    busy = member("A", active="0_1 0_2 0_3", caught_up="0_0")
    plan = planned(group(busy, member("B", caught_up="0_0")))
    assert active(plan, "B") == "0_0"


def test_among_copies_that_lag_the_smallest_lag_wins() -> None:
    far, near = Copy(Role.DORMANT, lag=BEHIND), Copy(Role.DORMANT, lag=BEHIND - 1)
    plan = planned(
        group(member("A", copies={task("0_0"): far}), member("B", copies={task("0_0"): near}))
    )
    assert active(plan, "B") == "0_0"


def test_a_known_lag_goes_before_an_unknown_one() -> None:
    unknown = member("A", copies={task("0_0"): Copy(Role.DORMANT)})
    plan = planned(group(unknown, member("B", dormant="0_0")))
    assert active(plan, "B") == "0_0"


def test_a_copy_released_long_ago_is_no_more_than_state_on_disk() -> None:
    stale = member("A", copies={task("0_0"): Copy(Role.RELEASED, lag=BEHIND)})
    plan = planned(group(stale, member("B", standby="0_0")))
    assert active(plan, "B") == "0_0"


def test_an_orphan_without_any_copy_goes_where_least_is_run_whatever_is_learned() -> None:
    """B learns much but runs little: what it learns does not count."""
    busy = member("A", active="0_0 0_1 0_2 0_3 0_4 0_5 0_6")
    learning = member("B", active="0_7", learner="0_0 0_1 0_2")
    plan = planned(group(busy, learning, tasks="0_8"))
    assert active(plan, "B") == "0_7 0_8"


def test_without_copies_all_are_given_at_once_and_evenly() -> None:
    plan = planned(group(member("A"), member("B"), member("C"), tasks="0_0 0_1 0_2 0_3 0_4"))
    assert sorted(len(part.active) for part in plan.members.values()) == [1, 2, 2]
    assert all(not part.learner for part in plan.members.values())
    assert plan.follow_up_ms is None


def test_subtopologies_are_spread_when_loads_are_alike() -> None:
    plan = planned(group(member("A"), member("B"), tasks="0_0 0_1 1_0 1_1"))
    assert [text(part.active).split()[0][0] for part in plan.members.values()] == ["0", "0"]
    assert [len({t.subtopology for t in p.active}) for p in plan.members.values()] == [2, 2]
