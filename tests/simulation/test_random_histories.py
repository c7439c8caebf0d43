"""Made-up clusters, churn and faults through the real machines; nothing may ever be broken.

``HISTORIES=20000`` runs more of them, ``HISTORIES_SEED=17`` begins at another seed. A history that
breaks a rule is printed as a scenario file, shortened, that plays it again.
"""

from __future__ import annotations

import json
import os

import pytest

from streamlet.testing.simulation.random_history import History, shorten

HISTORIES = int(os.environ.get("HISTORIES", "250"))
FIRST_SEED = int(os.environ.get("HISTORIES_SEED", "0"))
#: Histories of one test, so that several processes can share the work.
PORTION = 25


@pytest.mark.simulation
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("portion", range((HISTORIES + PORTION - 1) // PORTION))
def test_no_history_breaks_a_rule(portion: int) -> None:
    first = FIRST_SEED + portion * PORTION
    for seed in range(first, min(first + PORTION, FIRST_SEED + HISTORIES)):
        history = History(f"test {seed}")
        if broken := history.live():
            shorter = shorten(history.scenario, broken[0]["rule"])
            listed = "\n".join(f"{one['rule']}: {one['text']}" for one in broken)
            raise AssertionError(f"seed {seed}\n{listed}\n{json.dumps(shorter, indent=1)}")
