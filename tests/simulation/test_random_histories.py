"""Made-up clusters, churn and faults through the real machines; nothing may ever be broken.

Each run plays the first 75 and those that alone show a mutation (``mutation_list``), the mark
``long`` the rest of the first 250. ``HISTORIES=20000`` plays so many, ``HISTORIES_SEED=17`` begins
at another seed. A history that breaks a rule is printed as a scenario file, shortened, that plays
it again.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Iterator

import pytest

from streamlet.errors import StillQueuedError
from streamlet.testing.simulation.input import SimSink
from streamlet.testing.simulation.random_history import History, shorten

HISTORIES = int(os.environ.get("HISTORIES", "250"))
FIRST_SEED = int(os.environ.get("HISTORIES_SEED", "0"))
#: Histories of one test, so that several processes can share the work.
PORTION = 25
#: So many are played where no number is asked for.
USUAL = 3 * PORTION
#: Later ones that find a mutation which nothing before them finds.
SHOWING = (141, 225, 235)


def portions() -> Iterator[object]:
    """The seeds of each test."""
    asked = "HISTORIES" in os.environ or FIRST_SEED > 0
    for first in range(0, HISTORIES, PORTION):
        marks = [] if asked or first < USUAL else [pytest.mark.long]
        seeds = range(FIRST_SEED + first, FIRST_SEED + min(first + PORTION, HISTORIES))
        yield pytest.param(seeds, marks=marks, id=str(first // PORTION))
    if not asked:
        yield pytest.param(SHOWING, id="of mutations")


@pytest.mark.simulation
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seeds", list(portions()))
def test_no_history_breaks_a_rule(seeds: Iterable[int]) -> None:
    _play(seeds)


@pytest.mark.simulation
@pytest.mark.timeout(1_800)
def test_no_history_breaks_a_rule_while_commits_are_delivered_slowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks process on meanwhile, and members come, go and crash."""
    flush, chances, slow = SimSink.flush, random.Random(5), [0]

    def sometimes(self: SimSink, timeout_ms: int) -> None:
        if chances.random() < 0.4:
            slow[0] += 1
            raise StillQueuedError("it takes its time")
        flush(self, timeout_ms)

    monkeypatch.setattr(SimSink, "flush", sometimes)
    _play(range(FIRST_SEED, FIRST_SEED + PORTION))
    assert slow[0] > 100


def _play(seeds: Iterable[int]) -> None:
    """Play the history of each seed.

    Raises:
        AssertionError: one breaks a rule; the message is a scenario that plays it.
    """
    for seed in seeds:
        history = History(f"test {seed}")
        if broken := history.live():
            shorter = shorten(history.scenario, broken[0]["rule"])
            listed = "\n".join(f"{one['rule']}: {one['text']}" for one in broken)
            raise AssertionError(f"seed {seed}\n{listed}\n{json.dumps(shorter, indent=1)}")
