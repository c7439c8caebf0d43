"""Rounds of measured runs: each variant once per round, so that all meet the same machine."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from bench.processes import Measurement


@attrs.frozen
class Outcome:
    """One run and what is wrong with its output; an empty text when nothing is."""

    measurement: Measurement
    wrong: str


#: Runs a variant once.
Variant = Callable[[], Outcome]


def play(variants: Mapping[str, Variant], runs: int) -> dict[str, list[Outcome]]:
    """The outcomes of each variant, one per round."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in variants}
    for turn in range(runs):
        for name, variant in variants.items():
            outcome = variant()
            outcomes[name].append(outcome)
            tell(
                f"round {turn + 1}/{runs}  {name:<12} {outcome.measurement.rate:>12,.0f} records/s"
                f"  {outcome.measurement.cpu_s_per_m:6.2f} CPU s/M"
                f"  {outcome.measurement.rss_mb:6.0f} MB  {outcome.wrong or 'right'}"
            )
    return outcomes


def ratio(outcomes: Mapping[str, list[Outcome]], upper: str, lower: str) -> float | None:
    """Median over the rounds of one variant's rate by another's; None when one was not run."""
    return _median(outcomes, upper, lower, lambda a, b: a.rate / b.rate)


def cpu_ratio(outcomes: Mapping[str, list[Outcome]], upper: str, lower: str) -> float | None:
    """The same of the rates that they would have if each had a processor for itself."""
    return _median(outcomes, upper, lower, lambda a, b: b.cpu_s_per_m / a.cpu_s_per_m)


def _median(
    outcomes: Mapping[str, list[Outcome]],
    upper: str,
    lower: str,
    compared: Callable[[Measurement, Measurement], float],
) -> float | None:
    if upper not in outcomes or lower not in outcomes:
        return None
    pairs = zip(outcomes[upper], outcomes[lower], strict=True)
    return round(statistics.median(compared(a.measurement, b.measurement) for a, b in pairs), 3)


def summary(
    workload: str,
    outcomes: Mapping[str, list[Outcome]],
    upper: str = "streamlet",
    lower: str = "bare",
) -> dict[str, Any]:
    """The result as the benchmark prints it; ``ratio`` and ``cpu_ratio`` are of two variants."""
    result: dict[str, Any] = {"workload": workload}
    for name, runs in outcomes.items():
        result[name] = {
            "rate": round(statistics.median(run.measurement.rate for run in runs)),
            "cpu_s_per_m": round(statistics.median(run.measurement.cpu_s_per_m for run in runs), 3),
            "rss_mb": round(max(run.measurement.rss_mb for run in runs), 1),
        }
    result["ratio"] = ratio(outcomes, upper, lower)
    result["cpu_ratio"] = cpu_ratio(outcomes, upper, lower)
    result["right"] = not any(run.wrong for runs in outcomes.values() for run in runs)
    return result


def tell(line: str) -> None:
    """Progress, for whoever watches; the result alone is on standard output."""
    print(line, file=sys.stderr, flush=True)
