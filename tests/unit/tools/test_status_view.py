"""The status document as people see it."""

from __future__ import annotations

from io import StringIO
from typing import Any

import attrs
from rich.console import Console

from streamlet.admin.status import document
from streamlet.control.values import Shutdown
from streamlet.control.view import ControlView
from streamlet.tools.status_view import view
from tests.unit.admin.test_status import ORDERED, RUNS, control, group, word


def shown(document: dict[str, Any]) -> str:
    """What people see of a document."""
    out = StringIO()
    Console(width=160, file=out).print(view(document, checked=False))
    return out.getvalue()


def test_late_records_of_active_tasks_are_shown_and_summed_up_for_people() -> None:
    live = group(*ORDERED)
    said = document(live, {}, control=control(word("h1", attrs.evolve(RUNS, late=1_234))))
    tasks = said["instances"][0]["members"][0]["tasks"]
    assert tasks[0]["late"] == 1_234
    assert "late for closed windows: 1,234 records (0_0:1,234)" in shown(said)
    none = document(live, {}, control=control(word("h1", RUNS)))
    assert none["instances"][0]["members"][0]["tasks"][0]["late"] == 0
    unsaid = document(live, {})
    assert unsaid["instances"][0]["members"][0]["tasks"][0]["late"] is None


def test_a_shutdown_everywhere_is_shown_with_who_decided_it_when_and_why() -> None:
    ended = ControlView(shutdown=Shutdown("p2", "h2", 1_790_000_000_000, "ValueError: poisoned"))
    said = document(group(state="Empty"), {}, control=ended)
    assert said["shutdown"] == {
        "by": "h2",
        "process_id": "p2",
        "at_ms": 1_790_000_000_000,
        "reason": "ValueError: poisoned",
    }
    line = "everywhere (exit code 7) by h2 at 2026-09-21 14:13:20 UTC: ValueError: poisoned"
    assert f"\nshut down {line}" in shown(said)
    running = document(group(*ORDERED), {}, control=ended)
    assert f"\nlast shut down {line}" in shown(running)
    assert document(group(*ORDERED), {})["shutdown"] is None


def test_instances_of_one_name_are_shown_with_the_beginning_of_their_process_ids() -> None:
    said = document(group(*ORDERED), {}, control=control())
    assert "(" not in shown(said).splitlines()[2]
    for number, one in enumerate(said["instances"]):
        one.update(name="laptop", process_id=f"{number}23456789")
    assert "\nlaptop (02345678)  h1-0" in shown(said)
    assert "\nlaptop (12345678)  h2-0" in shown(said)


def test_the_memory_of_members_is_shown_beside_its_bound() -> None:
    parts = (("caches", 12_000_000, 64_000_000), ("blocks", 3_500_000, 16_000_000))
    words = [attrs.evolve(word("h1"), memory=parts), word("h2")]
    said = document(group(*ORDERED), {}, control=control(*words))
    members = [member for one in said["instances"] for member in one["members"]]
    assert {one["member"]: one["memory"] for one in members if one["memory"]} == {
        "h1-0": {
            "caches": {"bytes": 12_000_000, "most": 64_000_000},
            "blocks": {"bytes": 3_500_000, "most": 16_000_000},
        }
    }
    assert "memory: h1-0 15.5 MB of 80.0 MB\n" in shown(said)
    assert "memory" not in shown(document(group(*ORDERED), {}))


def test_the_copies_of_global_tables_are_shown_with_what_they_lack() -> None:
    live = group(*ORDERED)
    words = [
        attrs.evolve(word("h1"), global_tables=(("rates", 0), ("towns", 3))),
        attrs.evolve(word("h2"), global_tables=(("rates", 1_234),)),
    ]
    said = document(live, {}, control=control(*words))
    members = [member for one in said["instances"] for member in one["members"]]
    assert {one["member"]: one["global_tables"] for one in members} == {
        "h1-0": {"rates": 0, "towns": 3},
        "h2-0": {"rates": 1_234},
    }
    lines = [line.split() for line in shown(said).splitlines()]
    assert ["rates", "2", "1234", "h2-0:1234"] in lines
    assert ["towns", "1", "3", "h1-0:3"] in lines
    unsaid = document(live, {})
    assert unsaid["instances"][0]["members"][0]["global_tables"] is None
    assert "GLOBAL TABLE" not in shown(unsaid)
