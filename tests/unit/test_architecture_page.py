"""The page of the architecture is short and true, and the map of the assignor is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.traced_files import handover

ROOT = Path(__file__).resolve().parents[2]


def test_every_file_of_the_assignor_has_its_row() -> None:
    page = (ROOT / "docs" / "internals" / "assignor.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", page, re.M)
    there = {path.stem for path in (ROOT / "streamlet" / "assignor").glob("*.py")} - {"__init__"}
    assert sorted(rows) == sorted(there)


def test_the_page_of_the_architecture_stays_short() -> None:
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
    assert len(page.splitlines()) <= 250


@pytest.mark.parametrize("flow", ["hand-over", "commit"])
def test_the_files_of_a_flow_exist_and_those_that_tell_it_are_as_many_as_it_says(flow: str) -> None:
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
    section = page.partition(f"## Files of one {flow}\n")[2].partition("\n## ")[0]
    files = re.findall(r"`(\w+/\w+)`", section)
    assert [file for file in files if not (ROOT / "streamlet" / f"{file}.py").exists()] == []
    assert len(set(files)) == len(files), "a file is named twice"
    columns = [row.split("|")[2] for row in section.splitlines() if row.startswith("| ")]
    telling = re.findall(r"`(\w+/\w+)`", " ".join(columns))
    assert len(telling) == int(re.findall(r"(\d+) files", section)[0])


def test_a_handover_runs_few_files() -> None:
    """Besides those of each round, and those that make a task that processes."""
    found, rounds, made = handover()
    assert {"tasks/manager.py", "tasks/changelog_reader.py"} <= rounds
    assert "processing/partition_group.py" in made
    assert len(found) <= 45, f"read on where one of these can go: {sorted(found)}"
