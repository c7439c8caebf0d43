"""``python -m bench eos``: the price of ``exactly_once``, by how often it commits.

Word count under ``at_least_once`` and under ``exactly_once``, which commits each 100 ms or each
second, beside the bare loop and a bare loop that commits by transactions as often, in turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from bench import rounds
from bench.broker import serving
from bench.load import load
from bench.rounds import Outcome, Variant
from bench.streams import Bench

#: How often is committed by transactions, ms.
COMMITS_MS = (100, 1_000)


def run(*, records: int, keys: int, runs: int) -> dict[str, Any]:
    """Measure; the result as it is printed."""
    with serving() as bootstrap:
        rounds.tell(f"loading {records:,} records with {keys:,} keys")
        bench = Bench("wordcount", bootstrap, load(bootstrap, records, keys), records, keys)
        return summary(rounds.play(variants(bench), runs))


def variants(bench: Bench) -> dict[str, Variant]:
    """The runs of each round, by name."""
    found: dict[str, Variant] = {
        "bare": bench.bare,
        "streamlet": partial(bench.streamlet, 1),
    }
    for ms in COMMITS_MS:
        often = "--commit", str(ms)
        found[f"bare_transactions_{ms}"] = partial(bench.bare, "--transactions", *often)
        found[f"exactly_once_{ms}"] = partial(bench.streamlet, 1, "--exactly-once", *often)
    return found


def summary(outcomes: Mapping[str, list[Outcome]]) -> dict[str, Any]:
    """Rates, those of ``exactly_once`` by each bare loop, and by that of ``at_least_once``.

    Under ``ratios`` and ``cpu_ratios``, by ms between commits: ``bare`` is the loop without
    transactions, ``transactions`` that with them.
    """
    result = rounds.summary("eos", outcomes)
    for name, ratio in (("ratios", rounds.ratio), ("cpu_ratios", rounds.cpu_ratio)):
        result[name] = {
            str(ms): {
                "bare": ratio(outcomes, f"exactly_once_{ms}", "bare"),
                "transactions": ratio(outcomes, f"exactly_once_{ms}", f"bare_transactions_{ms}"),
                "at_least_once": ratio(outcomes, f"exactly_once_{ms}", "streamlet"),
            }
            for ms in COMMITS_MS
        }
    return result
