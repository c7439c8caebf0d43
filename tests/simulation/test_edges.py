"""The filter of repartition topics: exact with all its rules, and which of them are needed."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from streamlet.processing.edges.applied import LEAP
from tests.simulation.edge_code import CodeHistory
from tests.simulation.edges import History, Rules
from tests.simulation.histories import faults_of

pytestmark = pytest.mark.simulation

HISTORIES = int(os.environ.get("EDGE_HISTORIES", "2000"))
SEED = int(os.environ.get("EDGE_SEED", "1"))


def verdicts(rules: Rules, histories: int) -> Counter[str]:
    """How many of these histories ended how."""
    return Counter(History(seed, rules).run() for seed in range(SEED, SEED + histories))


def test_with_all_rules_nothing_is_lost_or_doubled() -> None:
    faults = faults_of(History, range(SEED, SEED + HISTORIES))
    print(dict(faults))
    assert all(count >= HISTORIES // 20 for count in faults.values()), faults


@pytest.mark.parametrize("leap", [LEAP, 0], ids=["as_it_is", "every_step_is_a_leap"])
@pytest.mark.parametrize("ahead", [False, True], ids=["at_once", "read_ahead"])
def test_the_code_loses_and_doubles_nothing(
    ahead: bool, leap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefixes, filter and notes; the second kind of reader has records that wait."""
    for place in ("applied.LEAP", "applied.LONG_LEAP", "filter.LEAP"):
        monkeypatch.setattr(f"streamlet.processing.edges.{place}", leap)
    rules = Rules(epoch=ahead)
    faults_of(lambda seed: CodeHistory(seed, rules), range(SEED, SEED + HISTORIES // 8), 8)


@pytest.mark.parametrize("rule", ["compare", "chain", "base", "stored", "incarnation"])
def test_without_a_rule_records_are_lost_or_doubled(rule: str) -> None:
    found = verdicts(Rules(**{rule: False}), 400)
    assert found["lost"] + found["doubled, or out of order"] > 4, found


def test_the_epoch_is_not_needed_for_deterministic_functions() -> None:
    """A replay writes the same origins, so a zombie's record is as good as its successor's."""
    assert verdicts(Rules(epoch=False), 2000) == {"": 2000}
