"""The cost of a micro-batch as a line: what every batch costs, and what each record adds."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from bench.processes import MeasurementError


@attrs.frozen
class Cost:
    """The line: milliseconds of a batch without records, microseconds for each record."""

    batch_ms: float
    record_us: float

    @classmethod
    def of(cls, batches: Sequence[tuple[int, int]]) -> Cost:
        """The line through batches, each with its records and milliseconds, by least squares.

        The squares are of errors in proportion to what a batch took: else the largest batches alone
        would decide what a batch without records costs.

        Raises:
            MeasurementError: all batches have the same size.
        """
        if len({records for records, _ in batches}) < 2:
            raise MeasurementError(f"a line needs batches of two sizes, not {list(batches)}")
        # took = fixed + slope * records, each divided by took: 1 = fixed * ones + slope * shares.
        ones = [1 / took for _, took in batches]
        shares = [records / took for records, took in batches]
        oo, ss, os = (_dot(*pair) for pair in ((ones, ones), (shares, shares), (ones, shares)))
        determinant = oo * ss - os * os
        fixed = (sum(ones) * ss - sum(shares) * os) / determinant
        slope = (sum(shares) * oo - sum(ones) * os) / determinant
        return cls(fixed, slope * 1000)

    def summary(self) -> dict[str, float]:
        """The figures as they are printed."""
        return {"batch_ms": round(self.batch_ms, 1), "record_us": round(self.record_us, 2)}


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
