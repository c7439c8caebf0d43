"""The map of files on the page of the architecture is complete."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_file_of_the_assignor_has_its_row() -> None:
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
    section = page.partition("## Inside `assignor/`")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|", section, re.M)
    there = {path.stem for path in (ROOT / "streamlet" / "assignor").glob("*.py")} - {"__init__"}
    assert sorted(rows) == sorted(there)
