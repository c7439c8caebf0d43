"""Which instances leave when only a share of them is to stay. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction


def choose_leavers(state: Mapping[str, int], percent: float) -> list[str]:
    """Choose who leaves so that ``percent`` of the instances stay and least state moves.

    ``ceil(n * percent / 100)`` stay, at least one.

    Args:
        state: per instance that may leave, how much state others would have to copy.
        percent: above 0, up to 100.
    """
    assert 0 < percent <= 100, percent
    staying = max(math.ceil(len(state) * Fraction(str(percent)) / 100), 1)
    cheapest = sorted(state, key=lambda name: (state[name], name))
    return sorted(cheapest[: len(state) - staying])
