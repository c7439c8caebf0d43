"""The hand-over protocol holds in every interleaving, and each of its rules is needed.

The quick slice is here without a marker; more faults have the marker ``simulation``, and
``python -m tests.simulation.model sweep at-least-once 3`` goes further still.
"""

from __future__ import annotations

import pytest

from tests.simulation.model.cases import CASES, PROTOCOLS, SLOW, Case
from tests.simulation.model.search import Result, explore, sweep
from tests.simulation.model.type_migration import MigrationRules, explore_migration

QUICK = [name for name in CASES if name not in ("V3b", "V3c", "V4", "V6", "V11", "V11b")]
MORE = [name for name in CASES if name not in QUICK]


def assert_needed(case: Case) -> None:
    """Without the rule the search finds the harm; with it the same search sees every state."""
    without = explore(case.without_rule())
    assert without.broken.startswith(case.breaks), without.text()
    if case.mended:
        assert_holds(explore(case.with_rule(), live=True))


def assert_holds(result: Result) -> None:
    assert not result.broken, result.text()
    assert not result.stuck, result.text()
    assert result.complete, result.text()


def assert_all_hold(protocol: str, total: int) -> None:
    rules, faults, always = PROTOCOLS[protocol]
    for _, result in sweep(rules, faults, total, always=always):
        assert_holds(result)
        assert result.rebalances is not None
        assert result.rebalances <= total


@pytest.mark.parametrize("name", QUICK)
def test_a_rule_left_out_breaks_what_it_is_for(name: str) -> None:
    assert_needed(CASES[name])


@pytest.mark.simulation
@pytest.mark.parametrize("name", MORE)
def test_a_rule_left_out_breaks_what_it_is_for_after_more_steps(name: str) -> None:
    assert_needed(CASES[name])


@pytest.mark.simulation
@pytest.mark.parametrize("name", list(SLOW))
def test_a_rule_left_out_breaks_what_it_is_for_after_many_steps(name: str) -> None:
    case = SLOW[name]
    assert explore(case.without_rule()).broken.startswith(case.breaks)


def test_one_crash_or_lost_answer_beside_a_hand_over_breaks_nothing() -> None:
    rules = PROTOCOLS["at-least-once"][0]
    for _, result in sweep(rules, ("ready", "crash", "lose", "cut", "static"), 2):
        assert_holds(result)


@pytest.mark.simulation
@pytest.mark.parametrize("protocol", list(PROTOCOLS))
def test_two_faults_break_nothing_and_the_group_comes_to_rest(protocol: str) -> None:
    extra = len(PROTOCOLS[protocol][2]) - 1
    assert_all_hold(protocol, 2 + extra)


@pytest.mark.parametrize(
    ("rules", "breaks"),
    [
        (MigrationRules(compares="nothing"), "S1"),
        (MigrationRules(compares="offset", new_epoch=False), "S3"),
        (MigrationRules(claims=False, new_epoch=False), "S3"),
    ],
)
def test_v13_a_task_held_open_is_resumed_only_behind_our_own_commit_with_a_new_epoch(
    rules: MigrationRules, breaks: str
) -> None:
    bad, trace, _ = explore_migration(rules)
    assert bad.startswith(breaks), trace


def test_changing_the_protocol_type_breaks_nothing() -> None:
    bad, trace, _ = explore_migration(MigrationRules())
    assert not bad, trace
