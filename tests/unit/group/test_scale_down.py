"""Who leaves when only a share of the instances is to stay."""

from __future__ import annotations

import pytest

from streamlet.group.scale_down import choose_leavers


@pytest.mark.parametrize(
    ("instances", "percent", "leaving"),
    [(40, 80, 8), (3, 40, 1), (3, 1, 2), (1, 1, 0), (10, 100, 0), (10, 99.9, 0), (10, 0.5, 9)],
)
def test_so_many_percent_stay_rounded_up_and_at_least_one(
    instances: int, percent: float, leaving: int
) -> None:
    state = {f"i{number}": 1 for number in range(instances)}
    assert len(choose_leavers(state, percent)) == leaving


def test_those_go_whose_state_is_least() -> None:
    assert choose_leavers({"a": 5, "b": 1, "c": 9, "d": 0}, 50) == ["b", "d"]
