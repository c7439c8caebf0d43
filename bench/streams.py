"""Word count and pass-through beside the bare loop; word count behind a repartition, both ways."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from typing import Any

import attrs

from bench import rounds
from bench.broker import PARTITIONS, Topics, serving
from bench.check import check_passthrough, check_wordcount
from bench.load import load
from bench.processes import measure
from bench.rounds import Outcome, Variant

#: What is sent with commits is measured over several of them, which are a second apart.
ON_COMMIT_RECORDS = 3_000_000


@attrs.frozen
class Bench:
    """One workload on one loaded topic of so many partitions; outputs have the usual number."""

    workload: str
    bootstrap: str
    source: str
    records: int
    keys: int
    partitions: int = PARTITIONS

    def bare(self, *more: str) -> Outcome:
        """The bare loop; ``more`` arguments of its."""
        return self._run("bench.bare", [["--partitions", str(self.partitions), *more]])

    def streamlet(self, workers: int, *more: str) -> Outcome:
        """The application of ``bench/apps.py``, in so many workers of one group."""
        own = [
            ["--total", str(self.records), "--number", str(n), "--members", str(workers), *more]
            for n in range(workers)
        ]
        return self._run("bench.ours", own)

    def regrouped(self, app: str, *more: str) -> Outcome:
        """Word count behind a repartition topic: one worker writes a record there for each."""
        both = str(2 * self.records)
        own = ["--total", both, "--inputs", both, "--by-output", "--number", "0", "--members", "1"]
        return self._run("bench.ours", [[*own, *more]], app)

    def _run(self, module: str, processes: list[list[str]], app: str = "") -> Outcome:
        """Run the module once per list of further arguments, side by side."""
        run = f"bench-run-{uuid.uuid4().hex[:8]}"
        state = tempfile.mkdtemp(prefix="streamlet-bench-")
        topics = Topics(self.bootstrap)
        topics.create(run)
        if module == "bench.bare":
            changelogs = Topics(self.bootstrap, self.partitions)
            changelogs.create(f"{run}-changelog", {"cleanup.policy": "compact"})
        options = {
            "--bootstrap": self.bootstrap,
            "--source": self.source,
            "--output": run,
            "--state": state,
        }
        common = [
            module,
            app or self.workload,
            *(word for pair in options.items() for word in pair),
        ]
        try:
            measurement = measure([[*common, *own] for own in processes], self.records)
            return Outcome(measurement, self._wrong(run))
        finally:
            shutil.rmtree(state, ignore_errors=True)
            topics.delete(lambda name: name.startswith(run))

    def _wrong(self, output: str) -> str:
        if self.workload != "passthrough":
            on_commit = self.workload == "on-commit"
            load = self.records, self.keys
            return check_wordcount(self.bootstrap, output, *load, on_commit=on_commit)
        return check_passthrough(self.bootstrap, self.source, output, self.records, self.keys)


def run(
    workload: str, *, records: int, keys: int, runs: int, workers: int, peers: list[str]
) -> dict[str, Any]:
    """Measure; the result as it is printed.

    With several workers one worker is measured too, and ``speedup`` compares the two.
    """
    with serving() as bootstrap:
        rounds.tell(f"loading {records:,} records with {keys:,} keys")
        bench = Bench(workload, bootstrap, load(bootstrap, records, keys), records, keys)
        variants: dict[str, Variant] = {}
        if "bare" in peers:
            variants["bare"] = bench.bare
        if "streamlet" in peers:
            variants["streamlet"] = lambda: bench.streamlet(workers)
            if workers > 1:
                variants["one_worker"] = lambda: bench.streamlet(1)
        outcomes = rounds.play(variants, runs)
    result = rounds.summary(workload, outcomes)
    if workers > 1:
        result["workers"] = workers
        result["speedup"] = rounds.ratio(outcomes, "streamlet", "one_worker")
    return result
