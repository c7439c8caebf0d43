"""The status document has what members left out and wait for, what is exact, and violations."""

from __future__ import annotations

import attrs

from streamlet.admin.current import CurrentGroup
from streamlet.admin.status import document
from streamlet.assignor.values import Violation
from streamlet.control.values import TaskProgress
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


def test_a_task_that_waits_for_a_commit_names_the_instance_that_holds_it_up() -> None:
    live = group(member("h1", active=ids("1_0 0_1")), member("h2", 1, active=ids("0_3")))
    waits = TaskProgress("1_0", "active", "running", generation=12, waits_for="0_3", waits_s=4)
    lost = TaskProgress("0_1", "active", "running", generation=12, waits_for="0_2", waits_s=9)
    present = CurrentGroup(live, control(word("h1", waits, lost)))
    document_of = document(live, {}, control=present.control)
    tasks = {t["task"]: t for t in document_of["instances"][0]["members"][0]["tasks"]}
    assert tasks["1_0"]["problem"] == "waits for 0_3 of h2 since 4 s"
    assert tasks["1_0"]["waits_for"] == {"task": "0_3", "instance": "h2", "since_s": 4}
    assert tasks["0_1"]["problem"] == "waits for 0_2 that no instance has since 9 s"
    assert tasks["0_1"]["waits_for"] == {"task": "0_2", "instance": None, "since_s": 9}
    still = {one.text for one in present.violations() if one.rule == "T1"}
    assert still == {f"stands still: {t['problem']}" for t in tasks.values()}
