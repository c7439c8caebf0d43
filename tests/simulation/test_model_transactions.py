"""Commits by transactions are exact in every interleaving, and each of their rules is needed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.model.search import explore
from tests.simulation.model.transactions import Transactions, TxnRules

#: The rule that is out, the faults (delayed requests, crashes, failed deliveries), what breaks.
CASES: list[tuple[dict[str, Any], tuple[int, int, int], str]] = [
    ({"guard": False}, (1, 0, 0), "X1"),
    ({"anew_after_two": False}, (1, 0, 0), "X1"),
    ({"rewind": False}, (0, 0, 1), "X1"),
    ({"drop_dirty": False}, (0, 1, 1), "X2"),
    ({"write_after": False}, (0, 1, 0), "X2"),
    ({"reads_tail": False}, (0, 1, 0), "X2"),
    ({"all_inputs": False}, (0, 0, 0), "X1"),
    ({"still": False}, (0, 0, 0), "X1"),
    ({"offsets": False}, (0, 0, 0), "X1"),
    ({"restores": "uncommitted"}, (0, 1, 0), "X2"),
    ({"reads": "uncommitted"}, (0, 0, 0), "X1"),
]


@pytest.mark.parametrize(("out", "faults", "breaks"), CASES, ids=lambda one: str(one))
def test_a_rule_left_out_loses_tears_or_doubles(
    out: dict[str, Any], faults: tuple[int, int, int], breaks: str
) -> None:
    result = explore(Transactions(TxnRules(**out), faults))
    assert result.broken.startswith(breaks), result.text()


@pytest.mark.parametrize("faults", [(1, 0, 0), (0, 1, 1)])
def test_commits_are_exact_after(faults: tuple[int, int, int]) -> None:
    assert_holds(faults)


@pytest.mark.simulation
@pytest.mark.parametrize("faults", [(2, 0, 0), (0, 2, 0), (1, 0, 1), (1, 1, 0)])
def test_commits_are_exact_after_more_of(faults: tuple[int, int, int]) -> None:
    assert_holds(faults)


def assert_holds(faults: tuple[int, int, int]) -> None:
    result = explore(Transactions(TxnRules(), faults), live=True)
    assert result.complete, result.text()
    assert not result.stuck, result.text()
