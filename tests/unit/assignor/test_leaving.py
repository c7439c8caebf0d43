"""Members on their way out: they gain nothing, hand over warm, and go when it is done or late."""

import pytest

from streamlet.assignor.values import Role, Rules
from tests.unit.assignor.cluster import Cluster, stateful, stateless
from tests.unit.assignor.groups import NOW, active, group, member, planned, task, text

LATER = NOW + 60_000
LATE = NOW - 1


def test_a_leaving_member_runs_on_until_others_have_learned() -> None:
    leaver = member("A", active="0_0 0_1", leaves=True)
    plan = planned(group(leaver, member("B", active="0_2"), member("C", active="0_3")))
    assert active(plan, "A") == "0_0 0_1"
    assert [len(plan.members[name].learner) for name in "BC"] == [1, 1]
    assert not plan.members["A"].leave
    assert plan.follow_up_ms is None


def test_a_leaving_member_gives_up_stateless_tasks_at_once() -> None:
    leaver = member("A", active="0_0", leaves=True)
    plan = planned(group(leaver, member("B"), stateless="0_0"))
    assert plan.members["A"].revoke == {task("0_0")}


def test_a_leaving_member_learns_no_more() -> None:
    owner = member("A", active="0_0 0_1 0_2")
    plan = planned(group(owner, member("B", learner="0_0", leaves=True), member("C")))
    assert plan.members["B"].learner == frozenset()


def test_its_deadline_is_the_next_follow_up() -> None:
    leaver = member("A", active="0_0", leaves=LATER)
    assert planned(group(leaver, member("B"))).follow_up_ms == LATER


def test_a_leaving_member_with_nothing_left_needs_no_follow_up() -> None:
    leaver = member("A", released="0_0", leaves=LATER)
    plan = planned(group(leaver, member("B", ready="0_0")))
    assert active(plan, "B") == "0_0"
    assert plan.follow_up_ms is None


def test_at_the_deadline_its_tasks_go_to_the_most_caught_up_ready_or_not() -> None:
    leaver = member("A", active="0_0 0_1 0_2", leaves=LATE)
    learning = member("B", learner="0_0", standby="0_1", active="0_9")
    plan = planned(group(leaver, learning, member("C", caught_up="0_0"), member("D")))
    assert plan.members["A"].release == {task("0_0"): "C", task("0_1"): "B", task("0_2"): "D"}
    assert plan.members["A"].leave
    assert active(plan, "A") == ""


def test_at_the_deadline_an_order_that_is_open_stays_as_it_is() -> None:
    leaver = member("A", active="0_0", leaves=LATE)
    plan = planned(group(leaver, member("B", pending="0_0"), member("C", caught_up="0_0")))
    assert plan.members["A"].release == {task("0_0"): "B"}


@pytest.mark.parametrize("case", ["surrender", "old member"])
def test_at_the_deadline_who_cannot_be_ordered_to_release_revokes(case: str) -> None:
    leaver = member("A", active="0_0", leaves=LATE, learners=case != "old member")
    handover = "surrender" if case == "surrender" else "release"
    plan = planned(group(leaver, member("B"), handover=handover))
    assert plan.members["A"].revoke == {task("0_0")}
    assert plan.follow_up_ms == 0


def test_at_the_deadline_a_task_goes_to_members_that_cannot_learn_in_two_rounds() -> None:
    leaver = member("A", active="0_0", leaves=LATE)
    plan = planned(group(leaver, member("B", learners=False)))
    assert plan.members["A"].revoke == {task("0_0")}


def test_at_the_deadline_what_was_given_back_only_now_follows_in_another_round() -> None:
    leaver = member("A", pending="0_0", leaves=LATE)
    plan = planned(group(leaver, member("B")))
    assert active(plan, "A") == "0_0"
    assert plan.follow_up_ms == NOW


def test_a_leaving_member_that_cannot_learn_revokes_once_another_is_ready() -> None:
    leaver = member("A", active="0_0", leaves=True, learners=False)
    first = planned(group(leaver, member("B")))
    assert first.members["B"].learner == {task("0_0")}
    then = planned(group(leaver, member("B", ready="0_0")))
    assert then.members["A"].revoke == {task("0_0")}
    assert then.members["B"].learner == {task("0_0")}


def test_a_caught_up_standby_of_such_a_member_becomes_a_learner_first() -> None:
    leaver = member("A", active="0_0", leaves=True, learners=False)
    plan = planned(group(leaver, member("B", caught_up="0_0")))
    assert active(plan, "A") == "0_0"
    assert plan.members["B"].learner == {task("0_0")}
    assert plan.follow_up_ms == NOW


def test_one_mark_speaks_for_the_whole_instance() -> None:
    told = member("A", active="0_0", instance="one", leaves=LATER)
    untold = member("B", active="0_1", instance="one")
    plan = planned(group(told, untold, member("C")))
    assert plan.members["C"].learner == {task("0_0"), task("0_1")}


def test_the_soonest_of_several_marks_counts() -> None:
    early = member("A", active="0_0", instance="one", leaves=LATER)
    late = member("B", active="0_1", instance="one", leaves=LATER + 5)
    assert planned(group(early, late, member("C"))).follow_up_ms == LATER


def test_who_leaves_first_is_learned_from_first() -> None:
    names = "0_0 0_1 0_2 0_3"
    unhurried = member("A", active=names, leaves=True)
    hurried = member("B", active="0_4 0_5", leaves=LATER)
    plan = planned(group(unhurried, hurried, member("C"), max_learners_group=2))
    assert text(plan.members["C"].learner) == "0_4 0_5"


def test_who_leaves_is_learned_from_before_one_with_too_much() -> None:
    crowded = member("A", active="0_0 0_1 0_2 0_3 0_4 0_5")
    leaver = member("B", active="0_6", leaves=True)
    plan = planned(group(crowded, leaver, member("C"), max_learners_group=1))
    assert text(plan.members["C"].learner) == "0_6"


def test_when_all_leave_everything_stops() -> None:
    plan = planned(
        group(member("A", active="0_0", leaves=True), member("B", leaves=True), tasks="0_1")
    )
    assert plan.members["A"].revoke == {task("0_0")}
    assert all(part.leave for part in plan.members.values())
    assert text(plan.unassigned) == "0_1"
    assert plan.follow_up_ms is None


def test_an_empty_group_has_an_empty_plan() -> None:
    plan = planned(group(tasks="0_0"))
    assert plan.members == {}
    assert text(plan.unassigned) == "0_0"


def test_no_task_of_a_leaving_member_that_was_cancelled_moves() -> None:
    cluster = Cluster({**stateful(9), **stateless(4)}, Rules(imbalance=0.0))
    for name in ("A", "B", "C"):
        cluster.join(name)
    cluster.settle()
    before = cluster.owners()
    cluster.drain("A")
    cluster.round()
    cluster.cancel_drain("A")
    cluster.settle()
    after = cluster.owners()
    learned = {t for t in before if cluster.tasks[t].stateful}
    assert {t: before[t] for t in learned} == {t: after[t] for t in learned}


def test_all_instances_can_be_swapped_for_new_ones() -> None:
    cluster = Cluster(stateful(12), Rules(standbys=1))
    for name in ("A", "B"):
        cluster.join(name)
    cluster.settle()
    for name in ("C", "D"):
        cluster.join(name)
    cluster.round()
    cluster.drain("A")
    cluster.drain("B")
    cluster.settle()
    assert sorted(cluster.exited) == ["A", "B"]
    assert cluster.loads() == [6, 6]
    kept = [model.holds(Role.STANDBY) for model in cluster.members.values()]
    assert sorted(map(len, kept)) == [6, 6]


@pytest.mark.parametrize("copy", ["learner", "ready", "standby", "caught_up"])
def test_a_leaving_member_gains_nothing_of_what_it_was_catching_up_with(copy: str) -> None:
    leaver = member("A", leaves=True, **{copy: "0_2"})  # type: ignore[arg-type]
    plan = planned(group(leaver, member("B", active="0_0 0_1 0_2 0_3"), member("C")))
    mine = plan.members["A"]
    assert not mine.active
    assert not mine.pending
    assert not mine.learner - {task("0_2")}
    assert len(plan.members["C"].learner) == 2
