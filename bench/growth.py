"""``python -m bench growth``: word count with more partitions, and with more keys.

Each number of partitions comes with the fewest keys, and each number of keys with the fewest
partitions; the bare loop, which keeps all counts in a dict, is measured beside each. All take turns
in a round.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bench import rounds
from bench.broker import PARTITIONS, serving
from bench.load import load
from bench.options import counts
from bench.rounds import Outcome, Variant
from bench.streams import Bench

#: What is measured where nothing is chosen.
MANY_PARTITIONS, MANY_KEYS = (PARTITIONS, 64, 256), (10_000, 100_000, 1_000_000, 3_000_000)
#: The least that the most partitions may have of the rate of the fewest, and that streamlet may
#: have of the bare loop's with the most keys.
LEAST_BY_PARTITIONS, LEAST_BY_KEYS = 0.9, 1.0
#: Records for each key, at least: with one, nothing is counted.
_EACH = 2


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what the other workloads have not."""
    for name, told, default in (
        ("partitions", "numbers of partitions", MANY_PARTITIONS),
        ("key-counts", "numbers of keys", MANY_KEYS),
    ):
        usual = ",".join(map(str, default))
        parser.add_argument(
            f"--{name}",
            type=counts,
            default=list(default),
            help=f"{told} of growth, by commas; {usual} if not given",
        )


def chosen(options: argparse.Namespace) -> dict[str, Any]:
    """The result as the command line asks for it."""
    names = "records", "runs", "partitions", "key_counts"
    return run(**{name: getattr(options, name) for name in names})


def run(
    *, records: int, runs: int, partitions: Sequence[int], key_counts: Sequence[int]
) -> dict[str, Any]:
    """Measure; the result as it is printed: by partitions, by keys, and what both come to."""
    points = dict.fromkeys((count, min(key_counts)) for count in partitions)
    points |= dict.fromkeys((min(partitions), keys) for keys in key_counts)
    variants: dict[str, Variant] = {}
    with serving() as bootstrap:
        for count, keys in points:
            wanted = max(records, _EACH * keys)
            rounds.tell(f"loading {wanted:,} records with {keys:,} keys, {count} partitions")
            source = load(bootstrap, wanted, keys, count)
            bench = Bench("wordcount", bootstrap, source, wanted, keys, count)
            variants[_name("bare", count, keys)] = bench.bare
            variants[_name("streamlet", count, keys)] = partial(bench.streamlet, 1)
        outcomes = rounds.play(variants, runs)
    return summary(outcomes, partitions, key_counts)


def summary(
    outcomes: Mapping[str, list[Outcome]], partitions: Sequence[int], key_counts: Sequence[int]
) -> dict[str, Any]:
    """The result: rates, ratios to the bare loop and memory of each number.

    ``partitions_ratio`` is the rate with the most partitions by that with the fewest, and
    ``keys_ratio`` that with the most keys by the bare loop's; ``within`` says whether these are
    high enough.
    """
    fewest, least = min(partitions), min(key_counts)
    by_partitions = {str(count): _point(outcomes, count, least) for count in partitions}
    by_keys = {str(keys): _point(outcomes, fewest, keys) for keys in key_counts}
    most = _name("streamlet", max(partitions), least)
    grown = rounds.ratio(outcomes, most, _name("streamlet", fewest, least))
    filled = by_keys[str(max(key_counts))]["ratio"]
    return {
        "workload": "growth",
        "partitions": by_partitions,
        "keys": by_keys,
        "partitions_ratio": grown,
        "keys_ratio": filled,
        "within": {
            "partitions": grown is not None and grown >= LEAST_BY_PARTITIONS,
            "keys": filled is not None and filled >= LEAST_BY_KEYS,
        },
        "right": not any(one.wrong for found in outcomes.values() for one in found),
    }


def _point(outcomes: Mapping[str, list[Outcome]], partitions: int, keys: int) -> dict[str, Any]:
    """The figures of both sides with so many partitions and keys."""
    ours, bare = (_name(side, partitions, keys) for side in ("streamlet", "bare"))
    found = rounds.summary("", {name: outcomes[name] for name in (ours, bare)}, ours, bare)
    own = found[ours]
    return {
        **own,
        "bare_rss_mb": found[bare]["rss_mb"],
        "ratio": found["ratio"],
        "cpu_ratio": found["cpu_ratio"],
    }


def _name(side: str, partitions: int, keys: int) -> str:
    """The name of a variant."""
    return f"{side} {partitions}x{keys:,}"
