"""Counts durations by how long they were."""

from __future__ import annotations

from bisect import bisect_left

import attrs

#: Upper bounds of the buckets, seconds.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@attrs.define
class Histogram:
    """Durations by bucket; adding one costs well below a microsecond."""

    counts: list[int] = attrs.field(factory=lambda: [0] * (len(SECONDS) + 1))
    sum: float = 0.0

    def add_ns(self, ns: int) -> None:
        """Count one duration, in nanoseconds."""
        self.add(ns / 1e9)

    def add(self, seconds: float, count: int = 1) -> None:
        """Count ``count`` durations of this length."""
        self.counts[bisect_left(SECONDS, seconds)] += count
        self.sum += seconds * count

    def value(self) -> list[float]:
        """The value that a sample carries."""
        return [*self.counts, self.sum]
