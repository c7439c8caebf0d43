"""Histories of repartition topics, played by their seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol


class Played(Protocol):
    """A history that can be played once."""

    @property
    def faults(self) -> Mapping[str, int]:
        """The faults that it had, by kind."""

    def run(self) -> str:
        """What went wrong; nothing if it was exact."""


def faults_of(history: Callable[[int], Played], seeds: range, least: int = 1) -> Counter[str]:
    """Play the history of each seed and assert that it is exact; the faults of all.

    ``least``: the ``EDGE_HISTORIES`` with which one of them is played.
    """
    faults: Counter[str] = Counter()
    for seed in seeds:
        one = history(seed)
        verdict = one.run()
        assert not verdict, f"EDGE_SEED={seed} EDGE_HISTORIES={least}: {verdict}"
        faults.update(one.faults)
    return faults
