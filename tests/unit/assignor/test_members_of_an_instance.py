"""Which member of an instance gets a task: ``run --processes 2`` with few tasks."""

from __future__ import annotations

import pytest

from tests.unit.assignor.groups import active, group, member, planned, text

PAIR = member("A", instance="one"), member("B", instance="one")


def test_a_stateful_and_a_stateless_task_are_not_on_the_same_member() -> None:
    """One processor did all the work, and the other nothing."""
    plan = planned(group(*PAIR, tasks="1_0", stateless="0_0"))
    assert (active(plan, "A"), active(plan, "B")) == ("1_0", "0_0")


@pytest.mark.parametrize("mode", ["learners", "without"])
def test_odd_tasks_of_both_kinds_even_out(mode: str) -> None:
    state = group(*PAIR, tasks="1_0 1_1 1_2", stateless="0_0 0_1 0_2", learners=mode == "learners")
    plan = planned(state)
    assert sorted(len(plan.members[name].active) for name in "AB") == [3, 3]


def test_a_member_that_comes_later_gets_the_stateless_task() -> None:
    both = member("A", active="0_0 1_0", instance="one")
    plan = planned(group(both, member("B", instance="one"), stateless="0_0"))
    assert (active(plan, "A"), text(plan.members["A"].revoke)) == ("1_0", "0_0")
    without = member("A", active="1_0", released="0_0", instance="one")
    plan = planned(group(without, member("B", instance="one"), stateless="0_0"))
    assert (active(plan, "A"), active(plan, "B")) == ("1_0", "0_0")


@pytest.mark.parametrize(
    ("a", "b"),
    [("1_0", "0_0"), ("1_0 0_0", "0_1"), ("1_0 1_1 0_0", "1_2 0_1"), ("1_0 0_0 0_1", "1_1 0_2")],
)
def test_what_is_even_stays_where_it_is(a: str, b: str) -> None:
    pair = member("A", active=a, instance="one"), member("B", active=b, instance="one")
    plan = planned(group(*pair, stateless=" ".join(t for t in f"{a} {b}".split() if t[0] == "0")))
    assert [set(active(plan, name).split()) for name in "AB"] == [set(a.split()), set(b.split())]
