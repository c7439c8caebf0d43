"""The status document has what members left out, what is exact, and violations."""

from __future__ import annotations

import attrs

from streamlet.admin.status import document
from streamlet.assignor.values import Violation
from tests.unit.admin.test_status import RUNS, control, group, ids, member, task, word


def test_running_tasks_show_what_they_left_out() -> None:
    live = group(member("h1", active=ids("0_0 0_1")), member("h2", active=ids("0_2")))
    left_out = attrs.evolve(RUNS, late=3, dropped=2)
    said = control(word("h1", left_out, attrs.evolve(RUNS, task="0_1")))
    [h1, h2] = document(live, {}, control=said)["instances"]
    found = [(t["task"], t["late"], t["dropped"]) for t in h1["members"][0]["tasks"]]
    assert found == [("0_0", 3, 2), ("0_1", 0, 0)]
    assert [(t["late"], t["dropped"]) for t in h2["members"][0]["tasks"]] == [(None, None)]


def test_a_repartition_topic_is_exact_if_no_member_knows_better() -> None:
    live = group(member("h1", active=ids("0_0")), member("h2", active=ids("0_1")))
    off = "repartition.exact is false"
    said = control(
        attrs.evolve(word("h1"), repartitions=(("a", ""), ("b", ""))),
        attrs.evolve(word("h2"), repartitions=(("a", ""), ("b", off))),
    )
    assert document(live, {}, control=said)["repartitions"] == [
        {"topic": "a", "exact": True, "reason": None},
        {"topic": "b", "exact": False, "reason": off},
    ]


def test_violations_are_shown_with_tasks_and_members() -> None:
    violation = Violation("U1", "nobody runs it", (task("0_1"),), ("h1-0",))
    assert document(group(), {}, [violation])["violations"] == [
        {"rule": "U1", "tasks": ["0_1"], "members": ["h1-0"], "text": "nobody runs it"}
    ]
