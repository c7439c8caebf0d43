"""Commits by transactions as they ship lose, tear and double nothing, whatever the broker does."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from streamlet.app import App
from tests.simulation.mutations import ROOT, mutated
from tests.simulation.transactions.history import verdict
from tests.simulation.transactions.mutations import MUTATIONS
from tests.simulation.transactions.owner import counting, failing, joining, suppressing
from tests.simulation.transactions.switched import SwitchedHistory

HISTORIES = int(os.environ.get("TRANSACTION_HISTORIES", "8"))
#: Requests that are lost, late, unanswered; ends of processes; members that do not know the end.
FAULTS = {"lost", "late", "arrived late", "unanswered", "killed", "zombie", "hand-over"}


@pytest.mark.simulation
@pytest.mark.parametrize("make", [counting, suppressing, joining, failing])
def test_each_record_counts_once_in_states_and_outputs(make: Callable[[], App]) -> None:
    faults: Counter[str] = Counter()
    for seed in range(HISTORIES):
        wrong, found = verdict(seed, make)
        assert not wrong, f"history {seed}: {wrong}"
        faults += found
    print(dict(faults))
    assert faults.keys() >= FAULTS


@pytest.mark.simulation
def test_states_are_exact_where_members_of_both_guarantees_take_turns() -> None:
    faults: Counter[str] = Counter()
    for seed in range(4 * HISTORIES):
        wrong, found = verdict(seed, kind=SwitchedHistory)
        assert not wrong, f"history {seed}: {wrong}"
        faults += found
    print(dict(faults))
    assert faults.keys() >= FAULTS


def test_each_mutation_has_its_place() -> None:
    for one in MUTATIONS:
        assert mutated(one, ROOT / "streamlet") != (ROOT / "streamlet" / one.file).read_text()
