"""Pauses that double with each failure in a row: of look-ups, records, workers and queries."""

from __future__ import annotations

#: Doublings that are counted; behind them any pause has long reached its bound.
_MOST = 40


def doubled(first: int, longest: int, times: int) -> int:
    """A first pause, doubled so many times, up to the longest; in the unit of both.

    Args:
        first: the first pause.
        longest: the longest pause.
        times: how often the pause is doubled, from 0 on.
    """
    return min(first << min(times, _MOST), longest)
