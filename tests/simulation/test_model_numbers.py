"""Commit numbers: a task's state is exactly that of its committed positions, whatever crashes."""

from __future__ import annotations

import pytest

from tests.simulation.model.folder_cases import FOLDER_CASES, HOLDS, LONGER
from tests.simulation.model.folders_steps import Folders
from tests.simulation.model.search import explore

SLOW = ("N5", "N6", "held b", "V12b")


def assert_holds(folders: Folders) -> None:
    result = explore(folders, live=True)
    assert not result.broken, result.text()
    assert not result.stuck, result.text()
    assert result.complete, result.text()


def assert_needed(name: str) -> None:
    """Without the rule a start with another state is found; with it the same search finds none."""
    case = FOLDER_CASES[name]
    without = explore(case.without_rule())
    assert without.broken.startswith("S5"), without.text()
    if case.mended:
        assert_holds(case.with_rule())


@pytest.mark.parametrize("name", [name for name in FOLDER_CASES if name not in SLOW])
def test_a_rule_left_out_makes_the_state_inexact(name: str) -> None:
    assert_needed(name)


@pytest.mark.simulation
@pytest.mark.parametrize("name", SLOW)
def test_a_rule_left_out_makes_the_state_inexact_after_more_steps(name: str) -> None:
    assert_needed(name)


@pytest.mark.parametrize("name", list(HOLDS))
def test_the_state_is_exact_after(name: str) -> None:
    assert_holds(HOLDS[name])


@pytest.mark.simulation
@pytest.mark.parametrize("name", list(LONGER))
def test_the_state_is_exact_after_more_of(name: str) -> None:
    assert_holds(LONGER[name])
