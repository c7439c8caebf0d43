"""``python -m bench peers``: streamlet beside Kafka Streams, Quix Streams and the bare loop.

Every program reads the same topic and does the same work, in turns, and its output is checked.
With ``--equal`` nothing is measured: what Kafka Streams and streamlet write under exactly_once is
compared. With ``--docs`` the result becomes a page and a picture of the documentation.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import rounds
from bench.broker import serving
from bench.load import load
from bench.peers import exact, page, quix
from bench.peers.kafka_streams import VERSION, compiled
from bench.peers.variants import THREADS, VARIANTS, WORKLOADS, variants
from bench.rounds import Outcome
from bench.streams import Bench
from bench.window_load import WindowLoad
from streamlet.kafka.native.library import native

#: Records and keys that are compared.
EQUAL = {"records": 20_000, "keys": 50}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that only this workload has."""
    own = parser.add_argument_group("peers")
    own.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    own.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    own.add_argument(
        "--equal", action="store_true", help="compare outputs under exactly_once, measure nothing"
    )
    own.add_argument(
        "--docs", action="store_true", help="write the result to docs/peers.md and its pictures"
    )


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Compare or measure; the result as it is printed."""
    if options.equal:
        with serving() as bootstrap:
            return exact.compare(bootstrap, **EQUAL)
    result = _measured(options)
    if options.docs:
        page.write(result)
    return result


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    """The outcome of each workload, and what could not be measured."""
    result: dict[str, Any] = {
        "workload": "peers",
        "machine": machine(),
        "records": options.records,
        "keys": options.keys,
        "runs": options.runs,
    }
    skipped: dict[str, str] = {}
    if "streamlet_native" in options.variants and native().reason:
        skipped["streamlet_native"] = f"the extension is not there: {native().reason}"
    chosen = [name for name in options.variants if name not in skipped]
    with compiled() as programs, quix.installed("quix" in chosen) as (launcher, reason):
        if reason:
            skipped["quix"] = reason
        for name, why in skipped.items():
            rounds.tell(f"{name} is not measured: {why}")
        with serving() as bootstrap:
            for workload in options.workloads:
                rounds.tell(f"{workload}: loading {options.records:,} records")
                bench = _bench(workload, bootstrap, options.records, options.keys)
                there = variants(bench, programs, launcher)
                wanted = {name: there[name] for name in chosen if name in there}
                result[workload] = summary(rounds.play(wanted, options.runs))
    result["skipped"] = skipped
    result["right"] = all(result[workload]["right"] for workload in options.workloads)
    return result


def _bench(workload: str, bootstrap: str, records: int, keys: int) -> Bench:
    if workload == "window":
        return Bench.of_windows(bootstrap, WindowLoad(records, keys, 1))
    return Bench(workload, bootstrap, load(bootstrap, records, keys), records, keys)


def summary(outcomes: Mapping[str, list[Outcome]]) -> dict[str, Any]:
    """One workload: what each did, and ``ratios`` of all by the better number of threads.

    A ratio is the median over the rounds of the rates' ratio in a round; ``cpu_ratios`` those of
    records by processor second.
    """
    result = rounds.summary("", outcomes)
    for name in ("workload", "ratio", "cpu_ratio"):
        del result[name]
    streams = [f"kafka_streams_{threads}" for threads in THREADS]
    there = [name for name in streams if name in outcomes]
    if there:
        better = max(there, key=lambda name: float(result[name]["rate"]))
        result["better"] = better
        result["ratios"] = {name: rounds.ratio(outcomes, name, better) for name in outcomes}
        result["cpu_ratios"] = {name: rounds.cpu_ratio(outcomes, name, better) for name in outcomes}
    return result


def machine() -> dict[str, Any]:
    """The machine of the measurement, and how busy it was when that began."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(memory / 2**30),
        "python": platform.python_version(),
        "kafka_streams": VERSION,
        "quix": quix.VERSION,
        "date": datetime.now(UTC).date().isoformat(),
        "load_average": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    """The processor's name as Linux has it, or what Python knows of it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
