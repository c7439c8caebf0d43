"""Calls of an async function that take 10 ms each, many at a time, beside calls one by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from bench import rounds
from bench.broker import read_all, serving
from bench.load import fill, key
from bench.rounds import Outcome, Variant
from bench.single_run import ALONE, run_once

#: The orders of results, each a variant beside the serial one.
ORDERS = ("key", "partition")
SERIAL = "serial"
#: The input has one partition, so that ``concurrency=100`` is a hundred calls in all.
PARTITIONS = 1
#: Records if nothing is given; the serial variant has a fiftieth of them.
RECORDS = 20_000
SERIAL_SHARE = 50
#: Records of each key.
REPEATED = 10


@attrs.frozen
class CallsBench:
    """The topics of a run, with the numbers of records as values."""

    bootstrap: str

    def run(self, workload: str, total: int) -> Outcome:
        """One variant, in one worker."""
        check = partial(self._wrong, workload=workload, total=total)
        return one_worker(self.bootstrap, workload, total, check)

    def _wrong(self, output: str, workload: str, total: int) -> str:
        """The fault in the output: each number once, in the order that was asked for."""
        newest: dict[bytes, int] = {}
        seen: set[int] = set()
        for batch in read_all(self.bootstrap, output, PARTITIONS):
            for message in batch:
                number = int.from_bytes(message.value() or b"", "big", signed=True)
                lane = (message.key() or b"") if workload == "key" else b""
                if newest.get(lane, -1) >= number:
                    return f"{number} comes behind {newest[lane]}"
                newest[lane] = number
                seen.add(number)
        missing = set(range(total)) - seen
        return f"{len(missing)} of {total} records are missing" if missing else ""


def one_worker(bootstrap: str, workload: str, total: int, check: Callable[[str], str]) -> Outcome:
    """An application over the numbers, in one worker; ``check`` finds faults in its output."""
    return run_once(
        *(bootstrap, ("bench.ours", workload), {"source": load(bootstrap, total)}),
        [("--total", total, "--by-output", *ALONE)],
        *(total, check),
        partitions=PARTITIONS,
    )


def load(bootstrap: str, records: int) -> str:
    """Fill the input topic unless a run before has; its name."""
    topic, words = f"bench-calls-{records}", max(1, records // REPEATED)
    rows = ((topic, n.to_bytes(8, "big"), key(n % words), 0) for n in range(records))
    fill(bootstrap, (topic,), records, rows, PARTITIONS)
    return topic


def run(*, records: int, runs: int) -> dict[str, Any]:
    """Measure; the result as it is printed."""
    with serving() as bootstrap:
        return measured(bootstrap, records, runs)


def measured(bootstrap: str, records: int, runs: int) -> dict[str, Any]:
    """The result on a broker; ``ratio_to_serial`` is the lower one of the two orders."""
    bench = CallsBench(bootstrap)
    few = max(1, records // SERIAL_SHARE)
    variants: dict[str, Variant] = {SERIAL: partial(bench.run, SERIAL, few)}
    variants |= {order: partial(bench.run, order, records) for order in ORDERS}
    outcomes = rounds.play(variants, runs)
    result = rounds.summary("async", outcomes, ORDERS[0], SERIAL)
    del result["ratio"]
    ratios = {order: rounds.ratio(outcomes, order, SERIAL) or 0.0 for order in ORDERS}
    return {**result, "ratios": ratios, "ratio_to_serial": min(ratios.values())}
