"""``python -m bench regroup``: the price of counting each record once behind a repartition.

Word count behind a repartition topic: with plain records, with origins (``exact``), and with
records that wait for their writer's commit (``waiting``), in turns. Plain ones and those that wait
come once more with many partitions, for their memory; then the latency of both (``bench.latency``),
and the gaps of tasks behind both that are handed over (``bench.handover``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from bench import handover, latency, rounds
from bench.broker import serving
from bench.handover_app import EDGES
from bench.load import load
from bench.rounds import Outcome, Variant
from bench.streams import Bench

#: Where memory is measured.
MANY_PARTITIONS = 64
#: Behind what latency is measured.
APPS = ("repartition", "waiting")
#: The load under which tasks are handed over.
RATE, KEYS = 5_000, 20_000


def run(
    *,
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
    records that wait less that of others. Without ``seconds`` neither latency nor hand-overs are
    measured.
    """
    with serving() as bootstrap:
        rounds.tell(f"loading {records:,} records with {keys:,} keys")
        few = Bench("regroup", bootstrap, load(bootstrap, records, keys), records, keys)
        many = Bench(
            "regroup", bootstrap, load(bootstrap, records, keys, MANY_PARTITIONS), records, keys
        )
        variants: dict[str, Variant] = {
            "plain": partial(few.regrouped, "regroup"),
            "exact": partial(few.regrouped, "regroup", "--exact"),
            "waiting": partial(few.regrouped, "waiting", "--exact"),
            "many_plain": partial(many.regrouped, "regroup"),
            "many_waiting": partial(many.regrouped, "waiting", "--exact"),
        }
        outcomes = rounds.play(variants, runs)
    result = rounds.summary("regroup", outcomes, "exact", "plain")
    result["waiting_ratio"] = rounds.ratio(outcomes, "waiting", "plain")
    result["waiting_rss_ratio"] = _memory(outcomes["many_waiting"], outcomes["many_plain"])
    if seconds:
        found = latency.run(
            seconds=seconds, rates=rates, apps=APPS, warm_s=warm_s, peers=("streamlet",)
        )
        result["latency"] = found
        moved = {
            edge: handover.behind(edge, handovers=handovers, rate=RATE, keys=KEYS) for edge in EDGES
        }
        result["handover"] = moved
        result["handover_gap_ms"] = _gap(moved["waiting"]) - _gap(moved["exact"])
        checked = (found, *moved.values())
        result["right"] = result["right"] and all(one["right"] for one in checked)
    return result


def _gap(found: dict[str, Any]) -> float:
    """99th percentile of the gaps of hand-overs, ms."""
    return float(found["gap_ms"]["p99"])


def _memory(upper: Sequence[Outcome], lower: Sequence[Outcome]) -> float:
    """Peak of one variant by that of another."""
    ours, others = (max(one.measurement.rss_mb for one in runs) for runs in (upper, lower))
    return round(ours / others, 3)
