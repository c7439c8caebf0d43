"""``map_batches`` beside ``map_values``: a small model by the record, by lists, and by numpy."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

from bench import rounds
from bench.apps import score
from bench.broker import read_all, serving
from bench.calls import PARTITIONS, one_worker
from bench.rounds import Variant

#: How the model is called, each a variant; the first one gets single records.
WAYS = ("record", "list", "numpy")


def run(*, records: int, runs: int) -> dict[str, Any]:
    """Measure; the result as it is printed: ``ratios`` are rates by that of ``map_values``."""
    with serving() as bootstrap:
        check = partial(_wrong, bootstrap, records)
        variants: dict[str, Variant] = {
            way: partial(one_worker, bootstrap, way, records, check) for way in WAYS
        }
        outcomes = rounds.play(variants, runs)
    result = rounds.summary("batches", outcomes, "numpy", "record")
    ratios = {way: rounds.ratio(outcomes, way, "record") for way in WAYS[1:]}
    return {**result, "ratios": ratios}


def _wrong(bootstrap: str, records: int, output: str) -> str:
    """The fault in the output: the score of each number, in their order."""
    seen = 0
    for batch in read_all(bootstrap, output, PARTITIONS):
        for message in batch:
            (found,) = struct.unpack(">d", message.value() or bytes(8))
            if found != score(seen):
                return f"record {seen} has the score {found}"
            seen += 1
    return "" if seen == records else f"{seen} records were written for {records} read"
