"""``python -m bench regroup``: the price of counting each record once behind a repartition.

Word count behind a repartition topic: with plain records, with origins (``exact``), and with
records that wait for their writer's commit (``waiting``), in turns. Plain ones and those that wait
come once more with many partitions, for their memory; then the latency of both (``bench.latency``),
and the gaps of tasks behind both that are handed over (``bench.handover``). Each of these parts can
be measured alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

from bench import handover, latency, rounds
from bench.broker import serving
from bench.handover_app import EDGES
from bench.load import load
from bench.rounds import Outcome, Variant
from bench.streams import Bench

#: What is measured.
PARTS = ("throughput", "latency", "handover")
#: Where memory is measured.
MANY_PARTITIONS = 64
#: Behind what latency is measured.
APPS = ("repartition", "waiting")
#: The load under which tasks are handed over, and how long rounds of them begin, of each kind, s.
RATE, KEYS, MOST_S = 5_000, 20_000, 60.0
#: Bounds behind records that wait: ms by percentile, of a rate or less; beyond the gap of others.
LATENCY_MS = {1_000: {"p50": 120, "p99": 250}, 10_000: {"p99": 350}}
GAP_MS = 50


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what the other workloads have not."""
    told = "what regroup measures; all if not given"
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help=told)


def chosen(options: argparse.Namespace) -> dict[str, Any]:
    """The result as the command line asks for it."""
    names = "parts", "records", "keys", "runs", "seconds", "rates", "handovers"
    given = {name: getattr(options, name) for name in names}
    return run(**given, warm_s=options.warm)


def run(
    *,
    parts: Sequence[str],
    records: int,
    keys: int,
    runs: int,
    seconds: int,
    rates: Sequence[int],
    warm_s: float,
    handovers: int,
) -> dict[str, Any]:
    """Measure; the result as it is printed.

    ``ratio`` and ``waiting_ratio`` are rates by that with plain records, ``waiting_rss_ratio`` peak
    memory by that with plain records. ``handover_gap_ms`` is the 99th percentile of gaps with
    records that wait less that of others. ``within`` tells of latency and gaps whether they are
    within their bounds. Without ``seconds`` neither latency nor hand-overs are measured.
    """
    result: dict[str, Any] = {"workload": "regroup", "right": True}
    within: dict[str, bool] = {}
    with serving() as bootstrap:
        if "throughput" in parts:
            result = _throughput(bootstrap, records, keys, runs)
        if "latency" in parts and seconds:
            loads = [latency.Load(rate, seconds, warm_s, 0) for rate in rates]
            turns = [(app, "at_least_once") for app in APPS]
            found = result["latency"] = latency.of_turns(bootstrap, loads, turns)
            result["right"] &= found["right"]
            within["latency"] = are_within(found)
        if "handover" in parts and seconds:
            behind = partial(
                handover.behind,
                bootstrap,
                handovers=handovers,
                rate=RATE,
                keys=KEYS,
                most_s=MOST_S,
            )
            moved = {edge: behind(edge) for edge in EDGES}
            result["handover"] = moved
            result["right"] &= all(one["right"] for one in moved.values())
            result["handover_gap_ms"] = round(_gap(moved["waiting"]) - _gap(moved["exact"]), 1)
            within["handover"] = result["handover_gap_ms"] <= GAP_MS
    return {**result, "within": within} if within else result


def are_within(found: dict[str, Any]) -> bool:
    """True if latencies behind records that wait are within the bounds of their rates."""
    return all(
        found[str(rate)]["waiting"][part] <= most
        for rate, bounds in LATENCY_MS.items()
        if str(rate) in found
        for part, most in bounds.items()
    )


def _throughput(bootstrap: str, records: int, keys: int, runs: int) -> dict[str, Any]:
    rounds.tell(f"loading {records:,} records with {keys:,} keys")
    few = Bench("regroup", bootstrap, load(bootstrap, records, keys), records, keys)
    loaded = load(bootstrap, records, keys, MANY_PARTITIONS)
    many = Bench("regroup", bootstrap, loaded, records, keys)
    variants: dict[str, Variant] = {
        "plain": partial(few.regrouped, "regroup"),
        "exact": partial(few.regrouped, "regroup", "--exact"),
        "waiting": partial(few.regrouped, "waiting", "--exact"),
        "many_plain": partial(many.regrouped, "regroup"),
        "many_waiting": partial(many.regrouped, "waiting", "--exact"),
    }
    outcomes = rounds.play(variants, runs)
    result = rounds.summary("regroup", outcomes, "exact", "plain")
    for name, compared in (("ratio", rounds.ratio), ("cpu_ratio", rounds.cpu_ratio)):
        result[f"waiting_{name}"] = compared(outcomes, "waiting", "plain")
    result["waiting_rss_ratio"] = _memory(outcomes["many_waiting"], outcomes["many_plain"])
    return result


def _gap(found: dict[str, Any]) -> float:
    """99th percentile of the gaps of hand-overs, ms."""
    return float(found["gap_ms"]["p99"])


def _memory(upper: Sequence[Outcome], lower: Sequence[Outcome]) -> float:
    """Peak of one variant by that of another."""
    ours, others = (max(one.measurement.rss_mb for one in runs) for runs in (upper, lower))
    return round(ours / others, 3)
