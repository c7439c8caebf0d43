"""Counts in tumbling windows beside the bare loop, with few open windows and with many."""

from __future__ import annotations

from typing import Any

from bench import rounds
from bench.broker import serving
from bench.rounds import Variant
from bench.streams import Bench
from bench.window_load import WindowLoad

#: Open windows of each key where many are open.
MANY = 100


def run(*, records: int, keys: int, runs: int, peers: list[str]) -> dict[str, Any]:
    """Measure; the result as it is printed.

    ``ratio`` is that of streamlet by the bare loop where a window of each key is open;
    ``open_ratio`` that of streamlet's rate with 100 of each by its rate with one.
    """
    with serving() as bootstrap:
        one, many = (
            Bench.of_windows(bootstrap, WindowLoad(records, keys, many)) for many in (1, MANY)
        )
        variants: dict[str, Variant] = {}
        if "bare" in peers:
            variants["bare"] = one.bare
        if "streamlet" in peers:
            variants |= {"streamlet": one.streamlet, "many_open": many.streamlet}
        outcomes = rounds.play(variants, runs)
    result = rounds.summary("window", outcomes)
    rates = {keys: "streamlet", MANY * keys: "many_open"}
    result["open_windows"] = {
        str(count): result[name]["rate"] for count, name in rates.items() if name in result
    }
    result["open_ratio"] = rounds.ratio(outcomes, "many_open", "streamlet")
    return result
