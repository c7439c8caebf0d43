"""The page of the scenario format: its example runs as printed, and it names every key."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from streamlet.testing.simulation import parse_scenario, simulate, table
from streamlet.testing.simulation.reading import ProblemCollector

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "scenarios.md").read_text("utf-8")
SECTIONS = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
#: Heading of the keys that stand at this place of a file; the place's first word.
HEADINGS = {
    "": "The file",
    **{key: key.capitalize() for key in ("tasks", "instances", "start", "network", "expect")},
    "steps": "Steps",
}


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)
    return str(found)


def example() -> dict[str, Any]:
    return dict(json.loads(block("json")))


def test_the_example_is_played_as_printed() -> None:
    """Else print it again: ``streamlet simulate FILE`` with the example in the file."""
    outcome = simulate(parse_scenario(example()))
    assert outcome.held
    assert table(outcome.result) == block("text").rstrip("\n")


def test_every_key_has_a_row_and_every_row_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    known: defaultdict[str, set[str]] = defaultdict(set)
    check = ProblemCollector.keys

    def noted(
        self: ProblemCollector, where: str, value: Mapping[str, object], keys: Iterable[str]
    ) -> None:
        names = list(keys)
        part, _, inside = where.partition(".")
        prefix = f"{inside.partition('[')[0]}." if part.startswith("steps") and inside else ""
        known[HEADINGS[part.partition("[")[0]]] |= {prefix + name for name in names}
        check(self, where, value, names)

    monkeypatch.setattr(ProblemCollector, "keys", noted)
    scenario = example()
    lost = {"lose": [{"from": "A", "request": "OffsetCommit"}]}
    scenario |= {"network": {}, "steps": [lost, *scenario["steps"]]}
    parse_scenario(scenario)
    rows = {
        heading: set(re.findall(r"^\| `([\w.]+)` \|", text, re.M)) for heading, text in SECTIONS
    }
    assert known.keys() == set(HEADINGS.values())
    assert {heading: rows[heading] for heading in known} == known
