"""Every rule a plan can break is named, and a good plan breaks none."""

import attrs
import pytest

from streamlet.assignor.assign import assign
from streamlet.assignor.validate import MOST_METADATA_BYTES, validate
from streamlet.assignor.values import GroupState, MemberPlan, Plan
from tests.unit.assignor.groups import NOW, group, ids, member, task

T = task("0_0")
PAIR = group(member("A", active="0_0 0_1"), member("B", active="0_2"), tasks="0_0 0_1 0_2")


def part(
    active: str = "",
    learner: str = "",
    standby: str = "",
    revoke: str = "",
    release: dict[str, str] | None = None,
    pending: dict[str, str] | None = None,
    awaited: str = "",
) -> MemberPlan:
    return MemberPlan(
        active=frozenset(ids(active)),
        learner=frozenset(ids(learner)),
        standby=frozenset(ids(standby)),
        revoke=frozenset(ids(revoke)),
        release={task(name): next_owner for name, next_owner in (release or {}).items()},
        pending={task(name): owner for name, owner in (pending or {}).items()},
        awaited=frozenset(ids(awaited)),
    )


def rules(state: GroupState, parts: dict[str, MemberPlan], **plan: object) -> list[str]:
    """The rules the plan breaks, by name."""
    violations = validate(state, Plan(parts, **plan))  # type: ignore[arg-type]
    assert all(violation.text for violation in violations)
    return sorted({violation.rule for violation in violations})


def test_a_good_plan_breaks_no_rule() -> None:
    assert rules(PAIR, {"A": part("0_0 0_1"), "B": part("0_2")}) == []


@pytest.mark.parametrize(
    "b",
    [
        part("0_2 0_3"),  # beside the owner
        part("0_2", pending={"0_3": "A"}),  # without an order to the owner
    ],
)
def test_u1_a_task_given_out_twice(b: MemberPlan) -> None:
    state = group(member("A"), member("B", active="0_2"), tasks="0_3")
    assert "U1" in rules(state, {"A": part("0_3"), "B": b})


def test_u1_a_task_given_to_nobody() -> None:
    state = group(member("A", active="0_0"), tasks="0_1")
    assert rules(state, {"A": part("0_0")}) == ["U1"]
    assert rules(state, {"A": part("0_0")}, unassigned=frozenset(ids("0_1"))) == ["U1"]


def test_u1_a_task_may_wait_until_a_deadline() -> None:
    state = group(member("A", active="0_0"), tasks="0_1")
    waits = {"unassigned": frozenset(ids("0_1")), "deferral_deadline_ms": NOW + 1}
    assert rules(state, {"A": part("0_0")}, **waits) == []


def test_u1_a_task_may_wait_for_somebody_who_can_run_it() -> None:
    state = group(member("A", runs=frozenset({1})), tasks="0_0")
    assert rules(state, {"A": part()}, unassigned=frozenset([T])) == []
    assert rules(state, {"A": part("0_0")}) == ["U1"]


def test_u1_an_order_with_two_different_ends() -> None:
    state = group(member("A", active="0_0"), member("B", ready="0_0"), member("C"))
    parts = {
        "A": part(release={"0_0": "C"}),
        "B": part(pending={"0_0": "A"}),
        "C": part(),
    }
    assert rules(state, parts) == ["U1"]


@pytest.mark.parametrize(
    "parts",
    [
        {"A": part("0_1"), "B": part("0_0 0_2")},  # given outright
        {"A": part("0_1"), "B": part("0_2", revoke="0_0")},  # revoked by somebody else
        {"A": part("0_1", pending={"0_0": "B"}), "B": part("0_2", release={"0_0": "A"})},
    ],
)
def test_u2_a_claimed_task_given_to_somebody_else(parts: dict[str, MemberPlan]) -> None:
    assert "U2" in rules(PAIR, parts)


def test_u2_a_pending_member_passed_over() -> None:
    state = group(member("A", released="0_0"), member("B", pending="0_0"))
    assert rules(state, {"A": part("0_0"), "B": part()}) == ["U2"]
    assert rules(state, {"A": part(), "B": part("0_0")}) == []


def test_u2_the_older_of_two_claims_does_not_count() -> None:
    newer = member("B", active="0_0")
    older = attrs.evolve(newer, member_id="A", instance="i-A")
    copy = attrs.evolve(older.copies[T], generation=2)
    state = group(attrs.evolve(older, copies={T: copy}), newer)
    assert rules(state, {"A": part(), "B": part("0_0")}) == []
    assert rules(state, {"A": part("0_0"), "B": part()}) == ["U2"]


@pytest.mark.parametrize("b", [part(learner="0_0"), part(standby="0_0")])
def test_u3_two_copies_in_one_instance(b: MemberPlan) -> None:
    crew = (member("A", active="0_0", instance="x"), member("B", instance="x"))
    assert rules(group(*crew), {"A": part("0_0"), "B": b}) == ["U3"]


def test_u3_a_hand_over_inside_an_instance_is_no_second_copy() -> None:
    crew = (member("A", active="0_0", instance="x"), member("B", instance="x"))
    parts = {"A": part(release={"0_0": "B"}), "B": part(pending={"0_0": "A"})}
    assert rules(group(*crew), parts) == []


@pytest.mark.parametrize("role", ["learner", "ready", "standby", "caught_up"])
def test_u3_an_heir_that_reads_the_folder_keeps_its_owner_out_of_it(role: str) -> None:
    next_owner = member("B", instance="x", **{role: "0_0"})  # type: ignore[arg-type]
    crew = (member("A", active="0_0", instance="x"), next_owner)
    parts = {"A": part(release={"0_0": "B"}), "B": part(pending={"0_0": "A"})}
    assert rules(group(*crew), parts) == ["U3"]


def test_u3_two_roles_in_one_member() -> None:
    state = group(member("A", active="0_0"))
    assert "U3" in rules(state, {"A": part("0_0", standby="0_0")})
    assert "U3" in rules(state, {"A": part("0_0", release={"0_0": "A"})})


def test_u3_whoever_releases_may_go_on_as_a_standby() -> None:
    state = group(member("A", active="0_0"), member("B", ready="0_0"))
    parts = {"A": part(standby="0_0", release={"0_0": "B"}), "B": part(pending={"0_0": "A"})}
    assert rules(state, parts) == []


@pytest.mark.parametrize("b", [part(learner="0_0"), part(standby="0_0")])
def test_u4_a_copy_of_a_task_without_state(b: MemberPlan) -> None:
    state = group(member("A", active="0_0"), member("B"), stateless="0_0")
    assert rules(state, {"A": part("0_0"), "B": b}) == ["U4"]


def test_u4_a_hand_over_of_a_task_without_state() -> None:
    state = group(member("A", active="0_0"), member("B"), stateless="0_0")
    parts = {"A": part(release={"0_0": "B"}), "B": part(pending={"0_0": "A"})}
    assert "U4" in rules(state, parts)


def test_u5_an_unready_member_takes_over_from_a_live_owner() -> None:
    order = {"A": part(release={"0_0": "B"}), "B": part(pending={"0_0": "A"})}
    owner = member("A", active="0_0")
    assert rules(group(owner, member("B", learner="0_0")), order) == ["U5"]
    assert rules(group(owner, member("B")), order) == ["U5"]
    assert rules(group(owner, member("B", ready="0_0")), order) == []
    late = member("A", active="0_0", leaves=NOW - 1)
    assert rules(group(late, member("B")), order) == []
    unhurried = member("A", active="0_0", leaves=NOW + 1)
    assert rules(group(unhurried, member("B")), order) == ["U5"]


LEARNING = group(member("A", active="0_0 0_1 0_2 0_3"), member("B", learner="0_0 0_1"), member("C"))


def test_u6_a_useful_learner_loses_its_task() -> None:
    kept = part("0_0 0_1 0_2 0_3")
    assert rules(LEARNING, {"A": kept, "B": part(learner="0_0"), "C": part()}) == ["U6"]


def test_u6_a_learner_loses_its_task_to_one_that_begins() -> None:
    state = group(
        member("A", active="0_0 0_1 0_2 0_3"), member("B", learner="0_0"), member("C", active="0_4")
    )
    kept = part("0_0 0_1 0_2 0_3")
    assert rules(state, {"A": kept, "B": part(), "C": part("0_4", learner="0_0")}) == ["U6"]


def test_u6_a_leaving_owners_task_must_be_learned_on() -> None:
    state = group(member("A", active="0_0", leaves=True), member("B", learner="0_0"))
    assert rules(state, {"A": part("0_0"), "B": part()}) == ["U6"]


def test_u6_a_learner_that_would_do_harm_may_be_dropped() -> None:
    state = group(member("A", active="0_0 0_1"), member("B", active="0_2 0_3", learner="0_0"))
    assert rules(state, {"A": part("0_0 0_1"), "B": part("0_2 0_3")}) == []


def test_u6_a_learner_may_lose_its_task_to_one_that_is_ready() -> None:
    state = group(
        member("A", active="0_0 0_1 0_2"), member("B", learner="0_0"), member("C", ready="0_0")
    )
    parts = {
        "A": part("0_1 0_2", release={"0_0": "C"}),
        "B": part(),
        "C": part(pending={"0_0": "A"}),
    }
    assert rules(state, parts) == []


@pytest.mark.parametrize(
    "learner",
    [
        member("B", learner="0_0 0_1", leaves=True),
        member("B", learner="0_0 0_1", learners=False),
        member("B", learner="0_0 0_1", runs=frozenset({7})),
    ],
)
def test_u6_one_that_may_not_learn_must_stop(learner) -> None:
    state = group(member("A", active="0_0 0_1 0_2 0_3"), learner)
    assert rules(state, {"A": part("0_0 0_1 0_2 0_3"), "B": part()}) == []


@pytest.mark.parametrize("settings", [{"learners": False}, {"mode": "eager"}])
def test_u6_where_nobody_learns_there_is_no_useful_learner(settings: dict) -> None:
    state = attrs.evolve(LEARNING, rules=attrs.evolve(LEARNING.rules, **settings))
    assert rules(state, {"A": part("0_0 0_1 0_2 0_3"), "B": part(), "C": part()}) == []


def test_u6_a_member_that_cannot_learn_is_made_a_learner() -> None:
    state = group(member("A", active="0_0"), member("B", learners=False))
    assert rules(state, {"A": part("0_0"), "B": part(learner="0_0")}) == ["U6"]


@pytest.mark.parametrize(
    "b", [part("0_2 0_9"), part("0_2", learner="0_0"), part("0_2", standby="0_0")]
)
def test_u7_a_leaving_member_gains_something(b: MemberPlan) -> None:
    state = group(
        member("A", active="0_0 0_1"), member("B", active="0_2", leaves=True), tasks="0_9"
    )
    a = part("0_0 0_1" if task("0_9") in b.active else "0_0 0_1 0_9")
    assert rules(state, {"A": a, "B": b}) == ["U7"]


def test_u7_what_a_leaving_member_has_it_may_keep() -> None:
    leaver = member("B", released="0_2", learner="0_0", caught_up="0_1", leaves=True)
    state = group(member("A", active="0_0 0_1"), leaver)
    kept = part("0_2", learner="0_0", standby="0_1")
    assert rules(state, {"A": part("0_0 0_1"), "B": kept}) == []


def test_u7_when_its_time_is_up_it_gets_nothing_back() -> None:
    state = group(member("A"), member("B", released="0_2", leaves=NOW - 1))
    assert rules(state, {"A": part(), "B": part("0_2")}) == ["U7"]


def test_u9_a_plan_that_changes_nothing_asks_for_another_round() -> None:
    parts = {"A": part("0_0 0_1"), "B": part("0_2")}
    assert rules(PAIR, parts, follow_up_ms=NOW) == ["U9"]


def test_u9_who_waits_or_leaves_or_is_ready_may_ask_for_another_round() -> None:
    parts = {"A": part("0_0 0_1"), "B": part("0_2")}
    assert rules(PAIR, parts, follow_up_ms=NOW, deferral_deadline_ms=NOW) == []
    leaving = group(member("A", active="0_0 0_1", leaves=NOW + 9), member("B", active="0_2"))
    assert rules(leaving, parts, follow_up_ms=NOW + 9) == []


@pytest.mark.parametrize("budget", ["member", "source", "group"])
def test_u11_too_many_begin_to_learn(budget: str) -> None:
    state = group(
        member("A", active="0_0 0_1 0_2 0_3"), member("B"), **{f"max_learners_{budget}": 1}
    )
    parts = {"A": part("0_0 0_1 0_2 0_3"), "B": part(learner="0_0 0_1")}
    assert rules(state, parts) == ["U11"]
    parts = {"A": part("0_0 0_1 0_2 0_3"), "B": part(learner="0_0")}
    assert rules(state, parts) == []


def test_u6_a_member_that_cannot_learn_is_waited_for_in_vain() -> None:
    state = group(member("A", active="0_0"), member("B", standby="0_0", learners=False), standbys=1)
    assert rules(state, {"A": part("0_0"), "B": part(standby="0_0", awaited="0_0")}) == ["U6"]


@pytest.mark.parametrize("limits", [{"max_learners_member": 1}, {"max_learners_group": 1}])
def test_u11_standbys_begin_to_move_within_the_budgets_for_learners(limits: dict[str, int]) -> None:
    owner = member("A", active="0_0 0_1")
    keeper = member("B", active="0_2", caught_up="0_0 0_1")
    state = group(owner, keeper, member("C", active="0_3"), standbys=1, **limits)
    parts = {"A": part("0_0 0_1"), "B": part("0_2", standby="0_0 0_1")}
    assert rules(state, parts | {"C": part("0_3", standby="0_0", awaited="0_0")}) == []
    assert rules(state, parts | {"C": part("0_3", standby="0_0 0_1")}) == ["U11"]
    begun = group(owner, keeper, member("C", active="0_3", standby="0_0 0_1"), standbys=1, **limits)
    assert rules(begun, parts | {"C": part("0_3", standby="0_0 0_1")}) == [], "they go on"


def test_u11_too_many_moves_begin() -> None:
    state = group(
        member("A", active="0_0 0_1 0_2"), member("B"), stateless="0_0 0_1 0_2", max_moves=1
    )
    assert rules(state, {"A": part("0_2", revoke="0_0 0_1"), "B": part()}) == ["U11"]
    assert rules(state, {"A": part("0_1 0_2", revoke="0_0"), "B": part()}) == []


def test_u11_orders_given_again_do_not_count() -> None:
    state = group(member("A", active="0_0 0_1"), member("B", pending="0_0 0_1"), max_moves=1)
    parts = {
        "A": part(release={"0_0": "B", "0_1": "B"}),
        "B": part(pending={"0_0": "A", "0_1": "A"}),
    }
    assert rules(state, parts) == []


def test_u12_the_metadata_are_too_many_bytes() -> None:
    plan = Plan({"A": part("0_0 0_1"), "B": part("0_2")})
    assert validate(PAIR, plan, metadata_bytes=MOST_METADATA_BYTES - 1) == []
    (violation,) = validate(PAIR, plan, metadata_bytes=MOST_METADATA_BYTES)
    assert violation.rule == "U12"


def test_u13_a_plan_for_other_members_or_tasks() -> None:
    assert rules(PAIR, {"A": part("0_0 0_1 0_2")}) == ["U13"]
    assert rules(PAIR, {"A": part("0_0 0_1"), "B": part("0_2"), "C": part()}) == ["U13"]
    assert rules(PAIR, {"A": part("0_0 0_1"), "B": part("0_2", standby="5_5")}) == ["U13"]


def test_a_violation_names_tasks_and_members() -> None:
    plan = Plan({"A": part("0_1"), "B": part("0_0 0_2")})
    (violation,) = validate(PAIR, plan)
    assert violation.tasks == (T,)
    assert violation.members == ("A", "B")
    assert "A runs 0_0" in violation.text


def test_the_assignors_own_plan_is_good() -> None:
    assert validate(LEARNING, assign(LEARNING)) == []
