"""A topic whose keys lie elsewhere violates T2 once, however many tasks and members read it."""

from __future__ import annotations

import attrs

from streamlet.admin.current import CurrentGroup
from tests.unit.admin.test_status import RUNS, control, group, member, task, word


def test_keys_of_one_topic_that_lie_elsewhere_are_one_violation() -> None:
    said = ("rows: 15 of 20 records", "rows: 12 of 20 records", "names: 10 of 20 records")
    tasks = tuple(
        attrs.evolve(RUNS, task=f"0_{number}", misplaced=text) for number, text in enumerate(said)
    )
    live = group(member("h1"), member("h2"))
    present = CurrentGroup(live, control(word("h1", *tasks[:1]), word("h2", *tasks[1:])))
    found = [one for one in present.violations() if one.rule == "T2"]
    assert [(one.text, one.tasks, one.members) for one in found] == [
        (said[0], (task("0_0"), task("0_1")), ("id-h1-0", "id-h2-0")),
        (said[2], (task("0_2"),), ("id-h2-0",)),
    ]
