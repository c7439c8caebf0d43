"""The map of files on the page of the assignor is complete."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_file_of_the_assignor_has_its_row() -> None:
    page = (ROOT / "docs" / "internals" / "assignor.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", page, re.M)
    there = {path.stem for path in (ROOT / "streamlet" / "assignor").glob("*.py")} - {"__init__"}
    assert sorted(rows) == sorted(there)


def test_the_page_of_the_architecture_stays_short() -> None:
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
    assert len(page.splitlines()) <= 250
