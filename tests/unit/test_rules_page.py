"""The pages of rules name files and tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

from tests.simulation.model.cases import CASES, SLOW
from tests.simulation.model.folder_cases import FOLDER_CASES

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "docs" / "rules.md", *sorted((ROOT / "docs" / "rules").glob("*.md")))
PAGE = "\n".join(page.read_text("utf-8") for page in PAGES)


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"::(test_\w+)", PAGE))
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 50
    assert [name for name in sorted(named) if f"def {name}(" not in sources] == []


def test_every_file_that_is_named_exists() -> None:
    tests = re.findall(r"`((?:unit|spec|simulation)/[\w/]+\.py)", PAGE)
    code = re.findall(r"`((?:assignor|group|reset|runtime|state|topology)/[\w/]+)", PAGE)
    missing = [name for name in tests if not (ROOT / "tests" / name).exists()]
    missing += [name for name in code if not (ROOT / "streamlet" / f"{name}.py").exists()]
    assert missing == []


def test_every_rule_has_a_row() -> None:
    rules = [f"U{n}" for n in range(1, 14)] + [f"L{n}" for n in range(1, 8)]
    rules += [f"M{n}" for n in range(1, 10)] + [f"N{n}" for n in range(1, 7)]
    assert [rule for rule in rules if not re.search(rf"^\| {rule}\b", PAGE, re.M)] == []


def test_every_case_of_the_model_is_in_the_table_of_its_rules() -> None:
    section = PAGE.partition("## Rules in the model\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| .* \| (.*) \| .* \|$", section, re.M)
    listed = {case for row in rows for case in row.split(", ")} - {"cases"}
    assert listed == {*CASES, *SLOW, *FOLDER_CASES, "V13"}
