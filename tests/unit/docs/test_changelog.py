"""The changelog has what a user of a release gets: see "What goes into the changelog"."""

from __future__ import annotations

import re
from pathlib import Path

CHANGELOG = (Path(__file__).resolve().parents[3] / "CHANGELOG.md").read_text("utf-8")
#: Lines of a version at most; what the first release has fits into 60.
MOST_LINES = 100


def test_a_version_is_told_in_few_lines() -> None:
    """Else faults that no release had are listed again: take them out."""
    versions = re.split(r"^## ", CHANGELOG, flags=re.M)[1:]
    long = {text.splitlines()[0]: len(text.splitlines()) for text in versions}
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES} == {}


def test_before_the_first_release_there_is_one_version() -> None:
    versions = re.findall(r"^## (.*)$", CHANGELOG, re.M)
    assert versions == ["0.1.0 (not released yet)"], "then this test is for the next one"
