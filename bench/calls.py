"""Calls of an async function that take 10 ms each, many at a time, beside calls one by one."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from bench import rounds
from bench.broker import Topics, read_all, serving
from bench.load import fast_producer, flushed, key
from bench.processes import measure
from bench.rounds import Outcome, Variant

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
    source = load(bootstrap, total)
    run = f"bench-run-{uuid.uuid4().hex[:8]}"
    state = tempfile.mkdtemp(prefix="streamlet-bench-")
    topics = Topics(bootstrap, PARTITIONS)
    topics.create(run)
    command = ["bench.ours", workload, "--bootstrap", bootstrap, "--source", source]
    command += ["--output", run, "--state", state, "--total", str(total), "--by-output"]
    try:
        measurement = measure([[*command, "--number", "0", "--members", "1"]], total)
        return Outcome(measurement, check(run))
    finally:
        shutil.rmtree(state, ignore_errors=True)
        topics.delete(lambda name: name.startswith(run))


def load(bootstrap: str, records: int) -> str:
    """Fill the input topic unless a run before has; its name."""
    topic = f"bench-calls-{records}"
    topics = Topics(bootstrap, PARTITIONS)
    if topics.count(topic) == records:
        return topic
    topics.delete(lambda name: name == topic)
    topics.create(topic)
    producer = fast_producer(bootstrap)
    for number in range(records):
        word = key(number % max(1, records // REPEATED))
        producer.produce(topic, number.to_bytes(8, "big"), word)
        if number % 10_000 == 0:
            producer.poll(0)
    flushed(producer)
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
