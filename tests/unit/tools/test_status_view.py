"""The status document as people see it."""

from __future__ import annotations

from io import StringIO

import attrs
from rich.console import Console

from streamlet.group.status import document
from streamlet.tools.status_view import view
from tests.unit.group.test_status import ORDERED, RUNS, control, group, word


def test_late_records_of_active_tasks_are_shown_and_summed_up_for_people() -> None:
    live = group(*ORDERED)
    said = document(live, {}, control=control(word("h1", attrs.evolve(RUNS, late=1_234))))
    tasks = said["instances"][0]["members"][0]["tasks"]
    assert tasks[0]["late"] == 1_234
    shown = StringIO()
    console = Console(width=120, file=shown)
    console.print(view(said, checked=False))
    assert "late for closed windows: 1,234 records (0_0:1,234)" in shown.getvalue()
    none = document(live, {}, control=control(word("h1", RUNS)))
    assert none["instances"][0]["members"][0]["tasks"][0]["late"] == 0
    unsaid = document(live, {})
    assert unsaid["instances"][0]["members"][0]["tasks"][0]["late"] is None
