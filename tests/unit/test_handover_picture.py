"""The README's picture of a hand-over is what was measured, in colours for both themes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.handover_drawing import THEMES, drawn
from bench.handover_picture import FOLDER, seen

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("theme", THEMES)
def test_the_picture_is_drawn_from_what_was_measured(theme: str) -> None:
    """Else run `python -m bench.handover_picture --draw`."""
    measured = json.loads((FOLDER / "handover.json").read_text("utf-8"))
    picture = (FOLDER / f"handover-{theme}.svg").read_text("utf-8")
    assert picture == drawn(measured, theme)
    moving = (FOLDER / f"handover-moving-{theme}.svg").read_text("utf-8")
    assert moving == drawn(measured, theme, moving=True)
    title = ElementTree.fromstring(picture)[0].text or ""
    for move in measured["moves"]:
        assert f"{move['task']} stands still for {move['first'] - move['last']} ms" in title


def test_the_readme_shows_both_pictures() -> None:
    shown = re.findall(r'(?:src|srcset)="([^"]+)"', (ROOT / "README.md").read_text("utf-8"))
    assert [ROOT / path for path in shown] == [
        FOLDER / "handover-dark.svg",
        FOLDER / "handover-light.svg",
    ]


def test_the_landing_page_shows_the_moving_pictures() -> None:
    page = (ROOT / "docs" / "index.md").read_text("utf-8")
    shown = re.findall(r"\((pictures/handover[^)#]+)#only-(\w+)\)", page)
    assert shown == [(f"pictures/handover-moving-{theme}.svg", theme) for theme in THEMES]


def test_a_move_is_from_the_last_record_of_one_writer_to_the_first_of_the_other() -> None:
    steady = [(1, 7, at) for at in range(1_000, 6_000, 50)]
    before = [(0, 7, at) for at in range(1_000, 3_000, 50)]
    after = [(0, 8, at) for at in range(3_000, 6_000, 50)]
    found = seen([*before, *after, *steady], {7: "one", 8: "two"}, 2_000)
    assert found["moves"] == [{"task": "0_0", "last": 1_950, "first": 2_000}]
    assert [(run["task"], run["instance"]) for run in found["runs"]] == [
        ("0_0", "one"),
        ("0_0", "two"),
        ("0_1", "one"),
    ]
    assert {at for at, _ in found["close"]["records"]} == {1_900, 1_950, 2_000, 2_050}


def test_a_silence_longer_than_a_commit_takes_parts_a_bar() -> None:
    written = [(0, 7, 1_000), (0, 7, 1_100), (0, 7, 1_201), (0, 8, 1_300)]
    bars = seen(written, {7: "one", 8: "two"}, 1_000)["runs"]
    assert [(bar["from"], bar["to"]) for bar in bars] == [
        (1_000, 1_100),
        (1_201, 1_201),
        (1_300, 1_300),
    ]
